"""How a network was made, kept beside it, so that a saved one can be made again without a pickle."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from torch import nn

from nescio.errors import NescioError

P = ParamSpec("P")


def recorded(make: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """A network factory whose result remembers, as `.recipe`, the factory's name and its arguments."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        net = make(*args, **kwargs)
        net.recipe = {"network": make.__name__, **bound.arguments}  # type: ignore[assignment]
        return net

    return wrapper


def thinned(dropout: float) -> list[nn.Module]:
    """A dropout layer, or nothing for a share of 0."""
    if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
        raise NescioError(f"dropout must be a share in [0, 1), not {dropout!r}")
    return [nn.Dropout(dropout)] if dropout else []


def check_sizes(**sizes: int | None) -> None:
    """An error naming the first size that is not a positive whole number (None passes: not asked for)."""
    for name, size in sizes.items():
        if size is not None and (
            not isinstance(size, int) or isinstance(size, bool) or not 1 <= size < 2**30
        ):
            raise NescioError(f"{name} must be a positive whole number (below 2**30), not {size!r}")
