"""Normalisation as a module, so that a model carries its own and unknown inputs cannot be prepared differently."""

import torch
from torch import Tensor, nn

from nescio.data.samples import Samples
from nescio.errors import NescioError


class Normalise(nn.Module):
    """`(x − mean) / std`, per channel for images and per feature for tables; both are buffers.

    >>> Normalise(torch.tensor([1.0]), torch.tensor([2.0]))(torch.tensor([[5.0]]))
    tensor([[2.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1:].numel() != 0 and x.dim() != self.mean.dim() + 1:
            raise NescioError(f"inputs of shape {tuple(x.shape)} do not fit a normalisation of "
                              f"{tuple(self.mean.shape)}; expected a batch axis first")  # fmt: skip
        return (x - self.mean) / self.std

    @classmethod
    def fitted(cls, samples: Samples, chunk: int = 4096) -> "Normalise":
        """Mean and standard deviation of the samples, in one stream over them and in float64.

        Images `(C, H, W)` are normalised per channel, everything else per feature. A feature that never varies is
        centred and left at its scale.
        """
        axes = (0, 2, 3) if len(samples.shape) == 3 else (0,)
        count, mean, spread = 0, torch.zeros(()).double(), torch.zeros(()).double()
        for start in range(0, len(samples), chunk):  # Chan's update: exact even when the mean dwarfs the spread
            x = samples.take(slice(start, start + chunk))[0].double()
            n = x.numel() // x.mean(axes).numel()
            part = x.mean(axes, keepdim=True)
            spread = spread + ((x - part) ** 2).sum(axes) + (part.squeeze() - mean) ** 2 * (count * n / (count + n))
            mean, count = mean + (part.squeeze() - mean) * (n / (count + n)), count + n
        std = (spread / count).sqrt()
        std = torch.where(std > 0, std, torch.ones_like(std))
        shape = (-1, 1, 1) if len(samples.shape) == 3 else samples.shape
        return cls(mean.float().reshape(shape), std.float().reshape(shape))
