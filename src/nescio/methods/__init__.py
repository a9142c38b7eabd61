"""Methods to train a classifier, one file per paper."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from nescio.core.model_state import check_model
from nescio.errors import check_name
from nescio.methods.kernel_method import KernelMethod as KernelMethod
from nescio.methods.mc_dropout import DROPOUT as DROPOUT
from nescio.methods.method import PARTS
from nescio.methods.method import Method as Method
from nescio.methods.method import TrainingStep as TrainingStep

# A method is a line here, in the order of tables; METHODS is built from these.
# isort: off
from nescio.methods.softmax import Softmax as Softmax
from nescio.methods.mc_dropout import MCDropout as MCDropout
from nescio.methods.bayes_by_backprop import BayesByBackprop as BayesByBackprop
from nescio.methods.ensemble import Ensemble as Ensemble
from nescio.methods.anchored import AnchoredEnsemble as AnchoredEnsemble
from nescio.methods.ceda_acet import CEDA as CEDA
from nescio.methods.ceda_acet import ACET as ACET
from nescio.methods.duq import DUQ as DUQ
from nescio.methods.rbf import RBFNetwork as RBFNetwork
# isort: on

# all methods by name
METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Method) and hasattr(kind, "name")
}
_FROM_DATA = ("classes", "features")  # arguments that the data decide


def method_class(name: str) -> type[Method]:
    """Return a method by name, or raise an error that lists the names.

    >>> inspect.getdoc(method_class("duq")).splitlines()[0]
    'Kernels around a centroid per class (van Amersfoort et al. 2020).'
    """
    return METHODS[check_name("method", name, METHODS)]


def default_settings(method: str) -> dict[str, Any]:
    """Return the settings of a method with their defaults: its arguments beside network and data.

    >>> default_settings("mc_dropout")
    {'samples': 50}
    """
    arguments = inspect.signature(method_class(method)).parameters
    return {n: arguments[n].default for n in arguments if n not in (*PARTS, *_FROM_DATA)}


def method_for(
    name: str,
    make_net: Callable[[int | None], nn.Module],
    classes: int,
    normalise: nn.Module | None = None,
    **settings: Any,
) -> Method:
    """Return a method by name over networks that `make_net` makes; None asks for features.

    >>> make_net = lambda classes: nescio.models.mlp(2, classes)
    >>> nescio.predict(method_for("ensemble", make_net, classes=3, members=2), x).shape
    torch.Size([2, 2, 3])
    """
    method = method_class(name)
    if method.on_features:
        return method.from_factory(lambda: make_net(None), normalise, classes=classes, **settings)
    return method.from_factory(lambda: make_net(classes), normalise, **settings)


def as_method(model: nn.Module) -> Method:
    """Return the model itself if it is a method, else `Softmax` over it, sharing its weights.

    >>> type(as_method(net)).__name__
    'Softmax'
    """
    check_model(model)
    return model if isinstance(model, Method) else Softmax(model)
