"""Inputs of no class, made from known ones: noise in batches as in paper 2, and whole sets of it.

Functions of a batch `(N, …)` draw from a generator, or from torch's global one, and return as many
inputs, or `n`. Images are `(N, C, H, W)` in [0, 1]; all else is rows of a table, or points.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from nescio.arrays import plain
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int, check_name
from nescio.seeds import check_seed

SPREAD = 3.0  # how many times wider than the data noise for a table is
SIGMAS = (1.0, 2.5)  # standard deviations, in pixels, of the paper's low-pass filter
RADIUS = 7  # pixels each way that the filter sees: 15 × 15, as in the authors' code
CHUNK = 1024  # images at a time


def uniform(x: Tensor, n: int | None = None, generator: Generator | None = None) -> Tensor:
    """Return uniform inputs: images over [0, 1], rows over a box three times that of the batch.

    >>> noise = uniform(torch.zeros(4, 1, 28, 28), n=10)
    >>> noise.shape, bool((noise >= 0).all())
    (torch.Size([10, 1, 28, 28]), True)
    """
    u = _draw((_count(x, n), *x.shape[1:]), x, generator)
    if x.dim() == 4:
        return u
    low, high = x.amin(0), x.amax(0)
    return (low + high) / 2 + SPREAD * (high - low) * (u - 0.5)


def normal(x: Tensor, n: int | None = None, generator: Generator | None = None) -> Tensor:
    """Return normal inputs: images of mean ½ and variance 1 in [0, 1] (Liang et al., 2018).

    Rows have the batch's means and three times its standard deviations.

    >>> normal(torch.zeros(4, 1, 28, 28), n=10).shape
    torch.Size([10, 1, 28, 28])
    """
    z = _draw((_count(x, n), *x.shape[1:]), x, generator, torch.randn)
    if x.dim() == 4:
        return (0.5 + z).clamp(0, 1)
    return x.mean(0) + SPREAD * x.std(0, correction=0) * z


def permuted(x: Tensor, n: int | None = None, generator: Generator | None = None) -> Tensor:
    """Permute the pixels of each image, all channels alike, or each column of a table.

    >>> permuted(torch.arange(4.0).reshape(1, 1, 2, 2)).sum()
    tensor(6.)
    """
    n = _count(x, n)
    x = x if n == len(x) else x[torch.arange(n, device=x.device) % len(x)]
    if x.dim() != 4:
        return x.gather(0, _draw(x.shape, x, generator).argsort(0))
    pixels = x.flatten(2)  # (N, C, H·W)
    order = _draw((n, 1, pixels.shape[2]), x, generator).argsort(2)
    return pixels.gather(2, order.expand_as(pixels)).view_as(x)


def low_pass(x: Tensor, sigma: Tensor | float) -> Tensor:
    """Blur images by a Gaussian filter of 15 × 15 pixels, mirrored at the edges.

    `sigma` is one, or one for each. A blur along one axis is a matrix, so that a batch with a sigma
    for each image costs two products of small matrices.

    >>> image = torch.zeros(1, 1, 28, 28)
    >>> image[..., 14, 14] = 1
    >>> low_pass(image, sigma=1.0).amax() < 0.2
    tensor(True)
    """
    _check_batch(x, images=True)
    shape = sigma.shape if isinstance(sigma, Tensor) else ()
    if not isinstance(sigma, Tensor | float | int) or shape not in ((), (1,), (len(x),)):
        raise NescioError(f"sigma must be one number, or one per image ({len(x)}), got {sigma!r}")
    sigma = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).expand(len(x))
    if not bool(((sigma > 0) & sigma.isfinite()).all()):
        raise NescioError("sigma must be finite and above 0")
    offsets = torch.arange(-RADIUS, RADIUS + 1, dtype=x.dtype, device=x.device)
    weights = (-0.5 * (offsets / sigma[:, None]).square()).softmax(1)  # (N, 15)
    rows, columns = (_blur(weights, side)[:, None] for side in x.shape[2:])  # (N, 1, side, side)
    return rows @ x @ columns.mT


def stretched(x: Tensor) -> Tensor:
    """Stretch each image over [0, 1] by its own minimum and maximum; a flat one stays as it is.

    >>> stretched(torch.tensor([[[[0.4, 0.5], [0.5, 0.6]]]]))
    tensor([[[[0.0000, 0.5000],
              [0.5000, 1.0000]]]])
    """
    _check_batch(x, images=True)
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).where(high > low, 1.0), x)


def mixed(
    x: Tensor, n: int | None = None, generator: Generator | None = None, *, one_sigma: bool = False
) -> Tensor:
    """Return the out-distribution of paper 2: permuted and uniform halves, low-passed, stretched.

    Each image has a sigma of its own in [1, 2.5], or with `one_sigma` the batch has one, as in the
    authors' code. Rows of a table are not filtered.

    >>> mixed(torch.zeros(4, 1, 28, 28)).shape
    torch.Size([4, 1, 28, 28])
    """
    n = _count(x, n)
    if x.dim() == 4 and not (x.min() >= 0 and x.max() <= 1):
        got = f"{x.min():g} to {x.max():g}; normalise inside the model"
        raise NescioError(f"this noise is made from images in [0, 1], got values from {got}")
    half = n // 2
    noise = permuted(x, n - half, generator)
    if half:
        noise = torch.cat([noise, uniform(x, half, generator)])
    if x.dim() != 4:
        return noise
    low, high = SIGMAS
    sigma = low + (high - low) * _draw((1,) if one_sigma else (n,), x, generator)
    return stretched(low_pass(noise, sigma))


Noise = Callable[..., Tensor]  # a batch `(N, …)` → as many inputs, or n
# by name
NOISES: dict[str, Noise] = {make.__name__: make for make in (mixed, uniform, normal, permuted)}
SYNTHETIC = ("noise", "uniform", "normal", "permuted", "far")  # noise is the mixed one, the paper's


def samples(name: str, like: Samples, n: int | None = None, seed: int = 0) -> Samples:
    """Return noise by its name in `NOISES`, as many inputs as `like` or `n`, all with label −1.

    >>> samples("uniform", known.test, 100)
    Samples('uniform noise', 100 × (2,), torch.float32)
    """
    _check_samples(like)
    make = NOISES[check_name("noise", name, NOISES)]
    n = len(like) if n is None else check_int("n", n)
    generator = torch.Generator().manual_seed(check_seed(seed))
    if len(like.shape) != 3:  # a box, or a column, is of all rows
        noise = make(like.take(slice(None))[0], n, generator)
    else:
        chunks = torch.split(torch.arange(n) % len(like), CHUNK)
        noise = torch.cat([make(like.take(chunk)[0], None, generator) for chunk in chunks])
    return Samples(noise, torch.full((n,), -1), name=f"{name} noise")


def synthetic(name: str, like: Samples, seed: int = 0) -> Samples:
    """Return unknown data made from known ones, by a name of `SYNTHETIC`.

    >>> synthetic("far", known.test)
    Samples('three_blobs test × 100', 500 × (2,), torch.float32)
    """
    if name == "far":
        return far(like)
    check_name("set of unknown data", name, SYNTHETIC)
    return samples("mixed" if name == "noise" else name, like, seed=seed)


def far(like: Samples, factor: float = 100.0) -> Samples:
    """Move each input away from the mean of the data: `mean + factor · (x − mean)`, label −1.

    >>> far(known.test, factor=10.0)
    Samples('three_blobs test × 10', 500 × (2,), torch.float32)
    """
    _check_samples(like)
    x = like.take(slice(None))[0]
    mean = x.mean(0, dtype=torch.float64).to(x.dtype)
    moved = mean + factor * (x - mean)
    if not moved.isfinite().all():
        what = like.name or "the data"
        raise NescioError(f"factor={factor} moves {what} beyond what {x.dtype} can hold")
    name = f"{like.name} × {factor:g}".strip()
    return Samples(moved, torch.full((len(x),), -1), like.columns, name)


def _blur(weights: Tensor, side: int) -> Tensor:
    """Return filters `(N, 15)` along a side as matrices `(N, side, side)`: row i makes pixel i."""
    offsets = torch.arange(-RADIUS, RADIUS + 1, device=weights.device)
    places = torch.arange(side, device=weights.device)[:, None] + offsets
    places = places % (2 * side)  # mirrored, the image repeats after two sides
    places = torch.where(places < side, places, 2 * side - 1 - places)  # (side, 15)
    taken = torch.nn.functional.one_hot(places, side).to(weights.dtype)  # (side, 15, side)
    return torch.einsum("nk,ikj->nij", weights, taken)


def _draw(
    shape: Sequence[int], x: Tensor, generator: Generator | None, draw: Noise = torch.rand
) -> Tensor:
    # on the CPU unless a generator says otherwise: a seed means the same on every device
    device = torch.device("cpu") if generator is None else generator.device
    return draw(shape, generator=generator, dtype=x.dtype, device=device).to(x.device)


def _check_batch(x: Tensor, images: bool = False) -> None:
    expected = "images, floats (N, C, H, W)" if images else "a batch of floats (N, …), N ≥ 1"
    if not isinstance(x, Tensor):
        raise NescioError(f"noise is made from {expected}, got {type(x).__name__}")
    plain(x)  # neither sparse, nested nor without values
    fits = x.dim() == 4 if images else x.dim() >= 2 and len(x) > 0
    if not fits or not x.is_floating_point():
        raise NescioError(f"noise is made from {expected}, got {x.dtype} {tuple(x.shape)}")


def _count(x: Tensor, n: int | None) -> int:
    _check_batch(x)
    return len(x) if n is None else check_int("n", n)


def _check_samples(like: Samples) -> None:
    if not isinstance(like, Samples):
        raise NescioError(f"noise is made like nescio.data.Samples, got {type(like).__name__}")
