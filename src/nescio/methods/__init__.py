"""Ways to train a classifier, one file per paper."""

from torch import nn

from nescio.errors import NescioError
from nescio.methods.method import Method
from nescio.methods.softmax import Softmax

METHODS: dict[str, type[Method]] = {"softmax": Softmax}


def as_method(model: nn.Module) -> Method:
    """The model itself if it is a method; a bare network counts as `Softmax`, sharing its weights."""
    if not isinstance(model, nn.Module):
        raise NescioError(f"a {type(model).__name__} was given for a model; expected a torch.nn.Module")
    return model if isinstance(model, Method) else Softmax(model)


__all__ = ["METHODS", "Method", "Softmax", "as_method"]
