"""Ways to train a classifier, one file per paper."""

from torch import nn

from nescio.methods.anchored import AnchoredEnsemble
from nescio.methods.bayes_by_backprop import BayesByBackprop
from nescio.methods.ensemble import Ensemble
from nescio.methods.mc_dropout import MCDropout
from nescio.methods.method import Method, Moment
from nescio.methods.softmax import Softmax
from nescio.untouched import check_model

METHODS: dict[str, type[Method]] = {
    "softmax": Softmax,
    "mc_dropout": MCDropout,
    "bayes_by_backprop": BayesByBackprop,
    "ensemble": Ensemble,
    "anchored": AnchoredEnsemble,
}


def as_method(model: nn.Module) -> Method:
    """The model itself if it is a method; a bare network counts as `Softmax`, sharing its weights."""
    check_model(model)
    return model if isinstance(model, Method) else Softmax(model)


__all__ = [
    "METHODS",
    "AnchoredEnsemble",
    "BayesByBackprop",
    "Ensemble",
    "MCDropout",
    "Method",
    "Moment",
    "Softmax",
    "as_method",
]
