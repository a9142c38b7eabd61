"""Inputs of no class, made from a known set: uniform and normal noise, and the data themselves moved far away."""

import torch

from nescio.data.samples import Samples
from nescio.errors import NescioError, whole_number
from nescio.seeds import check_seed


def uniform(like: Samples, n: int, seed: int = 0) -> Samples:
    """`n` uniform inputs: images over [0, 1], tables over the box of the data, three times as wide about its centre."""
    _check(like)
    n = whole_number("n", n)
    generator = torch.Generator().manual_seed(check_seed(seed))
    x = torch.rand(n, *like.shape, generator=generator)
    if len(like.shape) != 3:
        low, high = like.inputs.amin(0), like.inputs.amax(0)
        x = (low + high) / 2 + 3 * (high - low) * (x - 0.5)
    return Samples(x, torch.full((n,), -1), name="uniform noise")


def normal(like: Samples, n: int, seed: int = 0) -> Samples:
    """`n` normal inputs: images of mean ½ and variance 1, cut to [0, 1]; tables with the data's means and three times
    their spread.

    The images are those of Liang et al. (2018).
    """
    _check(like)
    n = whole_number("n", n)
    generator = torch.Generator().manual_seed(check_seed(seed))
    x = torch.randn(n, *like.shape, generator=generator)
    if len(like.shape) == 3:
        x = (0.5 + x).clamp(0, 1)
    else:
        x = like.inputs.mean(0) + 3 * like.inputs.std(0, correction=0) * x
    return Samples(x, torch.full((n,), -1), name="normal noise")


def far(like: Samples, factor: float = 100.0) -> Samples:
    """Each input moved away from the mean of the data: `mean + factor · (x − mean)`, with label −1."""
    _check(like)
    x = like.take(slice(None))[0]
    mean = x.mean(0, dtype=torch.float64).to(x.dtype)
    moved = mean + factor * (x - mean)
    if not moved.isfinite().all():
        raise NescioError(f"factor={factor} moves {like.name or 'the data'} beyond what {x.dtype} can hold")
    return Samples(moved, torch.full((len(x),), -1), like.columns, f"{like.name} × {factor:g}".strip())


def _check(like: Samples) -> None:
    if not isinstance(like, Samples):
        raise NescioError(f"noise is made like a nescio.data.Samples, not like a {type(like).__name__}")
