"""Ways to train a classifier, one file per paper."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from nescio.core.model_state import check_model
from nescio.errors import unknown_name
from nescio.methods.acet import ACET
from nescio.methods.anchored import AnchoredEnsemble
from nescio.methods.bayes_by_backprop import BayesByBackprop
from nescio.methods.ceda import CEDA
from nescio.methods.duq import DUQ
from nescio.methods.ensemble import Ensemble
from nescio.methods.kernel_method import KernelMethod
from nescio.methods.mc_dropout import MCDropout
from nescio.methods.method import Method, TrainingStep
from nescio.methods.rbf import RBFNetwork
from nescio.methods.softmax import Softmax

METHODS: dict[str, type[Method]] = {
    "softmax": Softmax,
    "mc_dropout": MCDropout,
    "bayes_by_backprop": BayesByBackprop,
    "ensemble": Ensemble,
    "anchored": AnchoredEnsemble,
    "ceda": CEDA,
    "acet": ACET,
    "duq": DUQ,
    "rbf": RBFNetwork,
}
GIVEN = (
    "net",
    "make_net",
    "normalise",
    "classes",
    "features",
)  # what a method takes beside its settings


def own_settings(method: str) -> dict[str, Any]:
    """The settings of a method by name, with their defaults: its arguments beside network and data.

    >>> own_settings("mc_dropout")
    {'samples': 50}
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    arguments = inspect.signature(METHODS[method]).parameters.values()
    return {one.name: one.default for one in arguments if one.name not in GIVEN}


def method_for(
    name: str,
    make_net: Callable[[int | None], nn.Module],
    classes: int,
    normalise: nn.Module | None = None,
    **settings: Any,
) -> Method:
    """A method by name over what `make_net` makes: networks for so many classes or, for None, for features."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    kind = METHODS[name]
    if kind.on_features:
        return kind.of(lambda: make_net(None), normalise, classes=classes, **settings)
    return kind.of(lambda: make_net(classes), normalise, **settings)


def as_method(model: nn.Module) -> Method:
    """The model itself if it is a method; a bare network counts as `Softmax`, sharing its weights."""
    check_model(model)
    return model if isinstance(model, Method) else Softmax(model)


__all__ = [
    "ACET",
    "CEDA",
    "DUQ",
    "METHODS",
    "AnchoredEnsemble",
    "BayesByBackprop",
    "Ensemble",
    "KernelMethod",
    "MCDropout",
    "Method",
    "RBFNetwork",
    "Softmax",
    "TrainingStep",
    "as_method",
    "method_for",
    "own_settings",
]
