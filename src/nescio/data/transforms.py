"""Transforms of inputs: normalisation inside a model, adaptation to a shape, augmentation."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.arrays import items
from nescio.data.arrays import tensor
from nescio.data.batches import batches
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int

CHUNK = 1024  # inputs at a time


class Normalise(nn.Module):
    """`(x − mean) / std`, both buffers: `(C, 1, 1)` for images, the shape of one input for others.

    A model carries its own, so that unknown inputs cannot be prepared differently.

    >>> Normalise(torch.tensor([1.0]), torch.tensor([2.0]))(torch.tensor([[5.0]]))
    tensor([[2.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        mean, std = tensor(mean), tensor(std)
        if mean.shape != std.shape or mean.dim() == 0:
            shapes = f"{tuple(mean.shape)} and {tuple(std.shape)}"
            raise NescioError(f"mean and std must have one shape (F, …), got {shapes}")
        if not bool((std > 0).all()):  # also of NaN
            raise NescioError(f"std must be positive, got {std[~(std > 0)][0].item():g}")
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised inputs, of the shape they came in."""
        per_channel = self.mean.dim() == 3  # (C, 1, 1): images of any height and width
        expected = (self.mean.shape[0], "H", "W") if per_channel else tuple(self.mean.shape)
        got = (x.shape[1], "H", "W") if per_channel and x.dim() == 4 else tuple(x.shape[1:])
        if x.dim() == 0 or got != expected:
            shape = f"({', '.join(map(str, ('N', *expected)))})"
            images = x.dim() == 4 and self.mean.shape == x.shape[1:2]
            advice = f"; for images, mean and std are ({len(self.mean)}, 1, 1)" if images else ""
            raise NescioError(f"inputs to normalise must be {shape}, got {tuple(x.shape)}{advice}")
        return (x - self.mean) / self.std

    @classmethod
    def fitted(cls, samples: Samples) -> "Normalise":
        """Return mean and std of the samples, in float64 and in two passes.

        Images `(C, H, W)` are normalised per channel, everything else per feature. A feature that
        never varies is centred and left at its scale.
        """
        if not isinstance(samples, Samples):
            raise NescioError(f"a normalisation is fitted on Samples, got {type(samples).__name__}")
        images = len(samples.shape) == 3
        axes = (0, 2, 3) if images else (0,)
        first = samples.take(slice(1))[0].double()
        origin = first[:, :, :1, :1] if images else first  # from here a constant is exactly zero
        count = len(samples) * first.numel() / origin.numel()
        shift, variance = torch.zeros_like(origin), torch.zeros_like(origin)
        for x, _ in batches(samples, CHUNK):
            shift += (x.double() - origin).sum(axes, keepdim=True) / count
        for x, _ in batches(samples, CHUNK):
            variance += (x.double() - origin - shift).square_().sum(axes, keepdim=True) / count
        std = torch.where(variance > 0, variance.sqrt(), torch.ones_like(variance))
        return cls((origin + shift)[0].float(), std[0].float())


def adapt(samples: Samples, shape: Sequence[int]) -> Samples:
    """Return the samples with images of `shape`, `(C, H, W)`; bytes stay bytes.

    Grey is the mean over the channels (as in paper 2), colour repeats the grey, the size changes by
    bilinear interpolation with antialiasing. A table must have the right width already.

    >>> images = Samples(torch.zeros(2, 3, 32, 32), torch.tensor([0, 1]))
    >>> adapt(images, (1, 28, 28))
    Samples('', 2 × (1, 28, 28), torch.float32)
    """
    if not isinstance(samples, Samples):
        raise NescioError(f"adapt takes Samples, got {type(samples).__name__}")
    shape = tuple(check_int("a side", side) for side in items("shape", shape))
    if samples.shape == shape:
        return samples
    where = samples.name or "data"
    if len(samples.shape) == len(shape) == 1:
        raise NescioError(f"{where} has {samples.shape[0]} features; expected {shape[0]}")
    if len(samples.shape) != 3 or len(shape) != 3 or {samples.shape[0], shape[0]} - {1, 3}:
        why = "only images of 1 or 3 channels can be adapted"
        raise NescioError(f"{where} of shape {samples.shape} cannot take the shape {shape}; {why}")
    parts = [_adapted(part, shape) for part in torch.split(samples._stored, CHUNK)]
    return Samples(torch.cat(parts), samples.labels, samples.columns, samples.name)


def _adapted(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    x = images.float()
    if shape[0] < x.shape[1]:
        x = x.mean(1, keepdim=True)
    if shape[1:] != x.shape[2:]:
        x = F.interpolate(x, size=shape[1:], mode="bilinear", antialias=True)
    x = x.expand(-1, shape[0], -1, -1)
    x = x.round().clamp(0, 255) if images.dtype == torch.uint8 else x.clamp(0, 1)
    return x.to(images.dtype)


def random_crop(x: Tensor, padding: int = 4) -> Tensor:
    """Shift each image of `(N, C, H, W)` by up to `padding` pixels each way; zeros come in.

    Draws, as `random_flip` does, from torch's global generator.
    """
    _check_images(x)
    n, channels, height, width = x.shape
    places = partial(torch.arange, device=x.device)
    top = torch.randint(2 * padding + 1, (n, 1), device="cpu").to(x.device)
    left = torch.randint(2 * padding + 1, (n, 1), device="cpu").to(x.device)
    rows, columns = top + places(height), left + places(width)  # (N, H), (N, W)
    image, channel = places(n).view(n, 1, 1, 1), places(channels).view(1, channels, 1, 1)
    padded = F.pad(x, (padding, padding, padding, padding))
    return padded[image, channel, rows.view(n, 1, height, 1), columns.view(n, 1, 1, width)]


def random_flip(x: Tensor) -> Tensor:
    """Mirror each image of `(N, C, H, W)` left to right with probability one half."""
    _check_images(x)
    flipped = torch.rand((len(x), 1, 1, 1), device="cpu").to(x.device) < 0.5
    return torch.where(flipped, x.flip(3), x)


# by the names that `train` takes
AUGMENTATIONS: dict[str, Callable[[Tensor], Tensor]] = {"crop": random_crop, "flip": random_flip}


def _check_images(x: Tensor) -> None:
    if x.dim() != 4:
        raise NescioError(f"inputs to augment must be images (N, C, H, W), got {tuple(x.shape)}")
