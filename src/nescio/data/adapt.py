"""Images of one data set in the shape of another's, so that colour photographs can be unknown to a model of digits."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.arrays import items
from nescio.data.samples import Samples
from nescio.errors import NescioError, check_int


def adapt(samples: Samples, shape: Sequence[int]) -> Samples:
    """The same samples with inputs of `shape`, `(C, H, W)`; bytes stay bytes.

    Grey is the mean over the channels (as paper 2 has it), colour repeats the grey, the size changes by bilinear
    interpolation with antialiasing. A table cannot be adapted, only found to have the right width.
    """
    if not isinstance(samples, Samples):
        raise NescioError(f"a {type(samples).__name__} was given to adapt; expected Samples")
    shape = tuple(check_int("a side", side) for side in items("shape", shape))
    if samples.shape == shape:
        return samples
    where = samples.name or "data"
    if len(samples.shape) == len(shape) == 1:
        raise NescioError(f"{where} has {samples.shape[0]} features; expected {shape[0]}")
    if len(samples.shape) != 3 or len(shape) != 3 or {samples.shape[0], shape[0]} - {1, 3}:
        raise NescioError(
            f"{where} of shape {samples.shape} cannot take the shape {shape}; "
            "only images of 1 or 3 channels can be adapted"
        )
    parts = [_adapted(samples._stored[i : i + 1024], shape) for i in range(0, len(samples), 1024)]
    return Samples(torch.cat(parts), samples.labels, samples.columns, samples.name)


def _adapted(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    x = images.float()
    if shape[0] < x.shape[1]:
        x = x.mean(1, keepdim=True)
    if shape[1:] != x.shape[2:]:
        x = F.interpolate(x, size=shape[1:], mode="bilinear", antialias=True)
    x = x.expand(-1, shape[0], -1, -1)
    return (
        x.round().clamp(0, 255).to(torch.uint8)
        if images.dtype == torch.uint8
        else x.clamp(0, 1).to(images.dtype)
    )
