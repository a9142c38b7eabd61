"""Inputs of no class made from known ones, to try a detector on before anything unknown comes.

Each function takes a batch `(N, …)` of known inputs, their classes and a generator, and returns as
many inputs. Some keep the look of known inputs and lose their meaning, some keep neither.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Generator, Tensor

from nescio.data.noise import NOISES, mixed, stretched
from nescio.errors import NescioError

Maker = Callable[[Tensor, Tensor, Generator], Tensor]


def averaged(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Average each input and one of another class."""
    return (x + x[_other_class(y, generator)]) / 2


def pasted(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Replace one half of each image, left, right, upper or lower, by that of another class."""
    _, _, height, width = x.shape
    row, column = torch.arange(height)[:, None] / height, torch.arange(width)[None] / width
    sides = torch.stack([(part < 0.5).expand(height, width) for part in (row, column)])
    chosen = torch.randint(4, (len(x),), generator=generator)
    masks = torch.cat([sides, ~sides])[chosen][:, None]  # (N, 1, H, W)
    return torch.where(masks.to(x.device), x[_other_class(y, generator)], x)


def patches(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Cut each image into 4 × 4 patches and permute them."""
    n, channels, height, width = x.shape
    high, wide = max(1, height // 4), max(1, width // 4)
    rows, columns = height // high, width // wide
    whole = x[:, :, : rows * high, : columns * wide]
    grid = whole.reshape(n, channels, rows, high, columns, wide)
    cut = grid.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    order = torch.rand(n, rows * columns, generator=generator).argsort(1).to(x.device)
    moved = cut.gather(1, order[:, :, None, None, None].expand_as(cut))
    joined = moved.reshape(n, rows, columns, channels, high, wide).permute(0, 3, 1, 4, 2, 5)
    shuffled = x.clone()
    shuffled[:, :, : rows * high, : columns * wide] = joined.reshape(whole.shape)
    return shuffled


def inverted(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Return images in negative."""
    return x.amax() + x.amin() - x


def scaled(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Move inputs away from the mean of all, three to ten times as far."""
    factor = 3 + 7 * torch.rand(len(x), *[1] * (x.dim() - 1), generator=generator).to(x)
    mean = x.mean(0)
    return mean + factor * (x - mean)


def strokes(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Return outlines: how much neighbouring pixels differ, stretched over [0, 1]."""
    across, down, pad = x.diff(dim=3).abs(), x.diff(dim=2).abs(), torch.nn.functional.pad
    return stretched(pad(across, (0, 1)) + pad(down, (0, 0, 0, 1)))


def drawn(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Draw tokens from all that occur, each with equal probability."""
    vocabulary = torch.from_numpy(np.unique(x.cpu().numpy())).to(x.device)
    return vocabulary[torch.randint(len(vocabulary), x.shape, generator=generator).to(x.device)]


def shuffled(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Permute the tokens of each input."""
    flat = x.flatten(1)
    order = torch.rand(flat.shape, generator=generator).argsort(1).to(x.device)
    return flat.gather(1, order).view_as(x)


def continued(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Join the first half of each input and the second half of one of another class."""
    first = torch.arange(x[0].numel(), device=x.device) < x[0].numel() / 2
    return x.where(first.view(x.shape[1:]), x[_other_class(y, generator)])


def blended(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """Take each token at random of an input or of one of another class, in the same place."""
    coins = torch.rand(x.shape, generator=generator).to(x.device) < 0.5
    return x.where(coins, x[_other_class(y, generator)])


def _noise(make: Callable[..., Tensor]) -> Maker:
    return lambda x, y, generator: make(x, None, generator)


NOISE = {name: _noise(make) for name, make in NOISES.items() if name != "mixed"}
ROWS = {**NOISE, "averaged": averaged, "scaled": scaled}
_EDITS = (patches, pasted, averaged, inverted, strokes, scaled)
IMAGES = {**NOISE, "noise": _noise(mixed), **{edit.__name__: edit for edit in _EDITS}}
TOKENS = {"uniform": drawn, "permuted": shuffled, "pasted": continued, "averaged": blended}


def make_outliers(x: Tensor, y: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """Make outliers of inputs `(N, …)` of classes `(N,)`, by name: `IMAGES`, `ROWS` or `TOKENS`.

    Images whose values leave [0, 1], being normalised already, are brought there and back.
    Integers are tokens, whose values mean nothing, so that none is made that does not occur.
    """
    if x.dim() < 2 or x.dtype == torch.bool or x.is_complex():
        got = f"{x.dtype} {tuple(x.shape)}"
        raise NescioError(f"outliers are made from floats or tokens (N, …), got {got}")
    if not x.is_floating_point():
        return {name: make(x, y, _generator(seed)) for name, make in TOKENS.items()}
    low, high = float(x.min()), float(x.max())
    if x.dim() != 4 or (low >= 0 and high <= 1):
        low, high = 0.0, 1.0
    width = (high - low) or 1.0
    makers = IMAGES if x.dim() == 4 else ROWS
    unit = (x - low) / width
    return {n: low + width * make(unit, y, _generator(seed)) for n, make in makers.items()}


def _generator(seed: int) -> Generator:
    return torch.Generator().manual_seed(seed)


def _other_class(y: Tensor, generator: Generator) -> Tensor:
    """For each input, the position of a random one of another class, if there is one."""
    order = torch.randperm(len(y), generator=generator).to(y.device)
    order = order[y[order].argsort(stable=True)]  # by class, and at random within it
    ordered = y[order]
    first, last = torch.searchsorted(ordered, y), torch.searchsorted(ordered, y, side="right")
    others = len(y) - (last - first)
    u = torch.rand(len(y), generator=generator, dtype=torch.float64).to(y.device)
    return order[(last + (u * others.clamp(min=1)).long()) % len(y)]
