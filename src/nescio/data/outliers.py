"""Inputs of no class made from known ones, of many kinds: what to try a detector on before anything unknown comes.

Each function takes a batch `(N, …)` of known inputs, the class of each, and a generator, and gives as many inputs back.
Some keep the look of known inputs and lose their meaning, some keep neither.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Generator, Tensor

from nescio.data.noise import mixed, normal, permuted, stretched, uniform
from nescio.errors import NescioError

Maker = Callable[[Tensor, Tensor, Generator], Tensor]


def averaged(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """The mean of each input and one of another class."""
    return (x + x[_other(y, generator)]) / 2


def pasted(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Images with one half, left or right or upper or lower, of an image of another class."""
    _, _, height, width = x.shape
    row, column = torch.arange(height)[:, None] / height, torch.arange(width)[None] / width
    sides = torch.stack([(part < 0.5).expand(height, width) for part in (row, column)])
    sides = torch.cat([sides, ~sides])[torch.randint(4, (len(x),), generator=generator)][
        :, None
    ]  # (N, 1, H, W)
    return torch.where(sides.to(x.device), x[_other(y, generator)], x)


def patches(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Images cut into 4 × 4 patches, which are put together out of order, each image by an order of its own."""
    n, channels, height, width = x.shape
    high, wide = max(1, height // 4), max(1, width // 4)
    rows, columns = height // high, width // wide
    whole = x[:, :, : rows * high, : columns * wide]
    cut = (
        whole.reshape(n, channels, rows, high, columns, wide)
        .permute(0, 2, 4, 1, 3, 5)
        .flatten(1, 2)
    )
    order = torch.rand(n, rows * columns, generator=generator).argsort(1).to(x.device)
    moved = cut.gather(1, order[:, :, None, None, None].expand_as(cut))
    joined = moved.reshape(n, rows, columns, channels, high, wide).permute(0, 3, 1, 4, 2, 5)
    made = x.clone()
    made[:, :, : rows * high, : columns * wide] = joined.reshape(whole.shape)
    return made


def inverted(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Images in negative: what was light is dark."""
    return x.amax() + x.amin() - x


def scaled(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Inputs moved away from the mean of all, three to ten times as far."""
    factor = 3 + 7 * torch.rand(len(x), *[1] * (x.dim() - 1), generator=generator).to(x)
    mean = x.mean(0)
    return mean + factor * (x - mean)


def strokes(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Outlines of images: how much neighbouring pixels differ, stretched over [0, 1]."""
    across, down = x.diff(dim=3).abs(), x.diff(dim=2).abs()
    pad = torch.nn.functional.pad
    return stretched(pad(across, (0, 1)) + pad(down, (0, 0, 0, 1)))


def drawn(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Words drawn from all that are seen, each as likely as any other."""
    seen = torch.from_numpy(np.unique(x.cpu().numpy())).to(x.device)
    return seen[torch.randint(len(seen), x.shape, generator=generator).to(x.device)]


def shuffled(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Words of each input out of order, by an order of its own."""
    flat = x.flatten(1)
    return flat.gather(
        1, torch.rand(flat.shape, generator=generator).argsort(1).to(x.device)
    ).view_as(x)


def continued(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """The first half of each input, and the second half of one of another class."""
    first = torch.arange(x[0].numel(), device=x.device) < x[0].numel() / 2
    return x.where(first.view(x.shape[1:]), x[_other(y, generator)])


def blended(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Each word that of an input, or that of one of another class in the same place, by the toss of a coin."""
    coins = torch.rand(x.shape, generator=generator).to(x.device) < 0.5
    return x.where(coins, x[_other(y, generator)])


def _of_noise(make: Callable[..., Tensor]) -> Maker:
    return lambda x, y, generator: make(x, None, generator)


IMAGES: dict[str, Maker] = {
    "uniform": _of_noise(uniform),
    "normal": _of_noise(normal),
    "permuted": _of_noise(permuted),
    "noise": _of_noise(mixed),
    "patches": patches,
    "pasted": pasted,
    "averaged": averaged,
    "inverted": inverted,
    "strokes": strokes,
    "scaled": scaled,
}
ROWS: dict[str, Maker] = {
    "uniform": _of_noise(uniform),
    "normal": _of_noise(normal),
    "permuted": _of_noise(permuted),
    "averaged": averaged,
    "scaled": scaled,
}
WORDS: dict[str, Maker] = {
    "uniform": drawn,
    "permuted": shuffled,
    "pasted": continued,
    "averaged": blended,
}


def made_outliers(x: Tensor, y: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """Outliers of every kind that suits the inputs `(N, …)`, of classes `(N,)`, by name: `IMAGES`, `ROWS` or `WORDS`.

    Images whose values leave [0, 1], being normalised outside the model, are brought there and back. Whole numbers are
    words, whose values mean nothing, so that none is made that was not seen.
    """
    if x.dim() < 2 or x.dtype == torch.bool or x.is_complex():
        raise NescioError(
            f"outliers are made from floats or words (N, …), not from {x.dtype} {tuple(x.shape)}"
        )
    if not x.is_floating_point():
        return {
            name: make(x, y, torch.Generator().manual_seed(seed)) for name, make in WORDS.items()
        }
    low, high = (float(value) for value in (x.min(), x.max()))
    if x.dim() != 4 or (low >= 0 and high <= 1):
        low, high = 0.0, 1.0
    room = (high - low) or 1.0
    made = {}
    for name, make in (IMAGES if x.dim() == 4 else ROWS).items():
        generator = torch.Generator().manual_seed(seed)
        made[name] = low + room * make((x - low) / room, y, generator)
    return made


def _other(y: Tensor, generator: Generator) -> Tensor:
    """For each input the position of one of another class, by chance; of any, if there is but one class."""
    order = torch.randperm(len(y), generator=generator).to(y.device)
    order = order[y[order].argsort(stable=True)]  # by class, and by chance within it
    own = y[order]
    first, last = (
        torch.searchsorted(own, y),
        torch.searchsorted(own, y, side="right"),
    )  # where its own class stands
    others = len(y) - (last - first)
    step = (
        torch.rand(len(y), generator=generator, dtype=torch.float64).to(y.device)
        * others.clamp(min=1)
    ).long()
    return order[(last + step) % len(y)]
