"""Normalisation as a module, so that a model carries its own and unknown inputs cannot be prepared differently."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nescio.data.arrays import tensor
from nescio.data.samples import Samples
from nescio.errors import NescioError


class Normalise(nn.Module):
    """`(x − mean) / std`, both buffers: `(C, 1, 1)` for images, the shape of one input for everything else.

    >>> Normalise(torch.tensor([1.0]), torch.tensor([2.0]))(torch.tensor([[5.0]]))
    tensor([[2.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        mean, std = tensor(mean), tensor(std)
        if mean.shape != std.shape or mean.dim() == 0:
            raise NescioError(
                f"a normalisation needs a mean and a std of one shape, not {tuple(mean.shape)} and "
                f"{tuple(std.shape)}"
            )
        if not bool((std > 0).all()):  # also of NaN
            raise NescioError(
                f"a normalisation needs a positive std, not {std[~(std > 0)][0].item():g}"
            )
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        """The normalised inputs, of the shape they came in."""
        per_channel = self.mean.dim() == 3  # (C, 1, 1): images of any height and width
        expected = (self.mean.shape[0], "H", "W") if per_channel else tuple(self.mean.shape)
        given = (x.shape[1], "H", "W") if per_channel and x.dim() == 4 else tuple(x.shape[1:])
        if x.dim() == 0 or given != expected:
            raise NescioError(
                f"inputs of shape {tuple(x.shape)} do not fit this normalisation; "
                f"expected ({', '.join(map(str, ('N', *expected)))})"
            )
        return (x - self.mean) / self.std

    @classmethod
    def fitted(cls, samples: Samples) -> "Normalise":
        """Mean and standard deviation of the samples, in float64 and in two passes, so that large offsets do no harm.

        Images `(C, H, W)` are normalised per channel, everything else per feature. A feature that never varies is
        centred and left at its scale.
        """
        if not isinstance(samples, Samples):
            raise NescioError(
                f"a {type(samples).__name__} was given to fit a normalisation on; expected Samples"
            )
        images = len(samples.shape) == 3
        axes = (0, 2, 3) if images else (0,)
        first = samples.take(slice(1))[0].double()
        origin = (
            first[:, :, :1, :1] if images else first
        )  # measured from here, a constant feature is exactly zero
        count = len(samples) * first.numel() / origin.numel()
        shift = torch.zeros_like(origin)
        for x in _chunks(samples):
            shift += (x - origin).sum(axes, keepdim=True) / count
        spread = torch.zeros_like(origin)
        for x in _chunks(samples):
            spread += (x - origin - shift).square_().sum(axes, keepdim=True) / count
        std = torch.where(spread > 0, spread.sqrt(), torch.ones_like(spread))
        return cls((origin + shift)[0].float(), std[0].float())


def _chunks(samples: Samples, size: int = 1024) -> Iterator[Tensor]:
    for start in range(0, len(samples), size):
        yield samples.take(slice(start, start + size))[0].double()
