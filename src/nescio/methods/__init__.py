"""Ways to train a classifier, one file per paper."""

from torch import nn

from nescio.methods.method import Method
from nescio.methods.softmax import Softmax
from nescio.untouched import check_model

METHODS: dict[str, type[Method]] = {"softmax": Softmax}


def as_method(model: nn.Module) -> Method:
    """The model itself if it is a method; a bare network counts as `Softmax`, sharing its weights."""
    check_model(model)
    return model if isinstance(model, Method) else Softmax(model)


__all__ = ["METHODS", "Method", "Softmax", "as_method"]
