"""Inputs of no class, made from known ones: noise in batches as paper 2 makes it, and whole sets of it.

Functions of a batch `(N, …)` draw from a generator, or from torch's global one, and give as many inputs back, or `n`.
Images are `(N, C, H, W)` in [0, 1]; every other input is taken for a row of a table, or a point.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int, unknown_name
from nescio.seeds import check_seed

WIDER = 3.0  # how much wider than the data a box around a table is
SIGMAS = (1.0, 2.5)  # standard deviations, in pixels, of the paper's low-pass filter
REACH = 7  # pixels each way that the filter sees: 15 × 15, as the authors have it
CHUNK = 1024  # images at a time


def uniform(x: Tensor, n: int | None = None, generator: Generator | None = None) -> Tensor:
    """Uniform inputs: images over [0, 1], rows over the box of the batch, three times as wide about its centre."""
    n = _count(x, n)
    u = _rand((n, *x.shape[1:]), x, generator)
    if x.dim() == 4:
        return u
    low, high = x.amin(0), x.amax(0)
    return (low + high) / 2 + WIDER * (high - low) * (u - 0.5)


def normal(x: Tensor, n: int | None = None, generator: Generator | None = None) -> Tensor:
    """Normal inputs: images of mean ½ and variance 1, cut to [0, 1]; rows with the batch's means, thrice its spread.

    The images are those of Liang et al. (2018).
    """
    n = _count(x, n)
    z = torch.randn(
        (n, *x.shape[1:]), generator=generator, dtype=x.dtype, device=_device(generator)
    ).to(x.device)
    return (0.5 + z).clamp(0, 1) if x.dim() == 4 else x.mean(0) + WIDER * x.std(0, correction=0) * z


def permuted(x: Tensor, n: int | None = None, generator: Generator | None = None) -> Tensor:
    """The batch out of order: of images the pixels, each image on its own and colours kept; of rows each column."""
    n = _count(x, n)
    x = x if n == len(x) else x[torch.arange(n, device=x.device) % len(x)]
    if x.dim() != 4:
        order = _rand(x.shape, x, generator).argsort(0)
        return x.gather(0, order)
    pixels = x.flatten(2)  # (N, C, H·W)
    order = _rand((n, 1, pixels.shape[2]), x, generator).argsort(2)
    return pixels.gather(2, order.expand_as(pixels)).view_as(x)


def low_pass(x: Tensor, sigma: Tensor | float) -> Tensor:
    """Images through a Gaussian filter of 15 × 15 pixels, mirrored at the edges; `sigma` is one, or one for each.

    A blur along one axis is a matrix, so a batch with a sigma for each image costs two products of small matrices.
    """
    _check_images(x)
    if not isinstance(sigma, Tensor | float | int) or (
        isinstance(sigma, Tensor) and sigma.shape not in ((), (1,), (len(x),))
    ):
        raise NescioError(
            f"a low-pass filter takes one sigma, or one for each of {len(x)} images, not {sigma!r}"
        )
    sigma = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).expand(len(x))
    if not bool(((sigma > 0) & sigma.isfinite()).all()):
        raise NescioError("sigma of a low-pass filter must be above 0")
    offsets = torch.arange(-REACH, REACH + 1, dtype=x.dtype, device=x.device)
    weights = (-0.5 * (offsets / sigma[:, None]).square()).softmax(1)  # (N, 15)
    rows, columns = (
        _blur(weights, side)[:, None] for side in x.shape[2:]
    )  # (N, 1, H, H) and (N, 1, W, W)
    return rows @ x @ columns.mT


def stretched(x: Tensor) -> Tensor:
    """Images, each stretched over [0, 1] by its own least and largest value; one that is flat stays as it is."""
    _check_images(x)
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).where(high > low, 1.0), x)


def mixed(
    x: Tensor, n: int | None = None, generator: Generator | None = None, *, one_sigma: bool = False
) -> Tensor:
    """The out-distribution of paper 2: one half permuted, one half uniform; images then low-passed and stretched.

    Each image has a sigma of its own in [1, 2.5], or with `one_sigma` the batch has one, as in the authors' code.
    """
    n = _count(x, n)
    if x.dim() == 4 and not (x.min() >= 0 and x.max() <= 1):
        raise NescioError(
            f"this noise is made from images in [0, 1], with normalisation inside the model; these range "
            f"from {x.min():g} to {x.max():g}"
        )
    half = n // 2
    made = permuted(x, n - half, generator)
    if half:
        made = torch.cat([made, uniform(x, half, generator)])
    if x.dim() != 4:
        return made
    low, high = SIGMAS
    return stretched(
        low_pass(made, low + (high - low) * _rand((1,) if one_sigma else (n,), x, generator))
    )


NOISES: dict[str, Callable[..., Tensor]] = {
    "mixed": mixed,
    "uniform": uniform,
    "normal": normal,
    "permuted": permuted,
}
MADE = (
    "noise",
    "uniform",
    "normal",
    "permuted",
    "far",
)  # what `made` knows; noise is the mixed one, the paper's


def samples(name: str, like: Samples, n: int | None = None, seed: int = 0) -> Samples:
    """A set of noise by its name in `NOISES`, made from known data: as many inputs, or `n`, all with label −1."""
    _check(like)
    if name not in NOISES:
        raise unknown_name("noise", name, NOISES)
    n = len(like) if n is None else check_int("n", n)
    generator = torch.Generator().manual_seed(check_seed(seed))
    if len(like.shape) != 3:  # a box, or a column, is of all rows
        made = [NOISES[name](like.take(slice(None))[0], n, generator)]
    else:
        made = [
            NOISES[name](
                like.take(torch.arange(start, min(start + CHUNK, n)) % len(like))[0],
                None,
                generator,
            )
            for start in range(0, n, CHUNK)
        ]
    return Samples(torch.cat(made), torch.full((n,), -1), name=f"{name} noise")


def made(name: str, like: Samples, seed: int = 0) -> Samples:
    """Unknown data that follow from known ones, by the name they have in evaluations: `MADE`."""
    if name == "far":
        return far(like)
    if name not in MADE:
        raise unknown_name("set of unknown data", name, MADE)
    return samples("mixed" if name == "noise" else name, like, seed=seed)


def far(like: Samples, factor: float = 100.0) -> Samples:
    """Each input moved away from the mean of the data: `mean + factor · (x − mean)`, with label −1."""
    _check(like)
    x = like.take(slice(None))[0]
    mean = x.mean(0, dtype=torch.float64).to(x.dtype)
    moved = mean + factor * (x - mean)
    if not moved.isfinite().all():
        raise NescioError(
            f"factor={factor} moves {like.name or 'the data'} beyond what {x.dtype} can hold"
        )
    return Samples(
        moved, torch.full((len(x),), -1), like.columns, f"{like.name} × {factor:g}".strip()
    )


def _blur(weights: Tensor, side: int) -> Tensor:
    """The filters `(N, 15)` along a side as matrices `(N, side, side)`: row i holds what pixel i is made of."""
    places = torch.arange(side, device=weights.device)[:, None] + torch.arange(
        -REACH, REACH + 1, device=weights.device
    )
    places = places % (2 * side)  # mirrored, the image repeats after two sides
    places = torch.where(places < side, places, 2 * side - 1 - places)  # (side, 15)
    taken = torch.nn.functional.one_hot(places, side).to(weights.dtype)  # (side, 15, side)
    return torch.einsum("nk,ikj->nij", weights, taken)


def _rand(shape: tuple[int, ...] | torch.Size, like: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=like.dtype, device=_device(generator)).to(
        like.device
    )


def _device(generator: Generator | None) -> torch.device:
    """Where to draw: on the CPU unless told otherwise, so that a seed means the same on every device."""
    return torch.device("cpu") if generator is None else generator.device


def _count(x: Tensor, n: int | None) -> int:
    if not _dense(x) or not x.is_floating_point() or x.dim() < 2 or len(x) == 0:
        raise NescioError(
            f"noise is made from a batch of floats (N, …) with N ≥ 1, not from {_given(x)}"
        )
    return len(x) if n is None else check_int("n", n)


def _check_images(x: Tensor) -> None:
    if not _dense(x) or x.dim() != 4 or not x.is_floating_point():
        raise NescioError(f"a filter takes images, floats (N, C, H, W), not {_given(x)}")


def _dense(x: object) -> bool:
    """Whether this is a tensor whose numbers lie in memory one by one."""
    return isinstance(x, Tensor) and x.layout == torch.strided and not (x.is_meta or x.is_nested)


def _given(x: object) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    return (
        f"{x.dtype} {tuple(x.shape)}"
        if _dense(x)
        else "a tensor that is sparse, nested or on the meta device"
    )


def _check(like: Samples) -> None:
    if not isinstance(like, Samples):
        raise NescioError(
            f"noise is made like a nescio.data.Samples, not like a {type(like).__name__}"
        )
