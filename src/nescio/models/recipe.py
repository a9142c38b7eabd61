"""How a network was made, kept beside it, so that a saved one can be rebuilt without a pickle."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from torch import nn

from nescio.errors import NescioError

P = ParamSpec("P")
SIZES = ("inputs", "classes", "channels", "size")  # arguments that must be sizes, or None


def network_factory(make: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Check the sizes a factory is given, and keep its name and arguments as `net.recipe`."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        check_sizes(**{name: size for name, size in arguments.items() if name in SIZES})
        net = make(*args, **kwargs)
        net.recipe = {"network": make.__name__, **arguments}  # type: ignore[assignment]
        return net

    return wrapper


def check_sizes(**sizes: int | None) -> None:
    """Raise an error that names the first size which is not a positive int; None passes.

    A size must be Python's own int: it goes into the recipe, which is stored as plain data.
    """
    for name, size in sizes.items():
        if size is not None and (type(size) is not int or not 1 <= size < 2**30):
            raise NescioError(f"{name} must be an int ≥ 1 and < 2**30, got {size!r}")


def dropout_layers(dropout: float) -> list[nn.Module]:
    """Return one dropout layer, or none for a fraction of 0."""
    if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
        raise NescioError(f"dropout must be a fraction in [0, 1), got {dropout!r}")
    return [nn.Dropout(dropout)] if dropout else []
