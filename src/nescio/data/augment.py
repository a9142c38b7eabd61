"""Random changes to training images that leave their class alone, drawn from torch's global generator."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.errors import NescioError


def random_crop(x: Tensor, padding: int = 4) -> Tensor:
    """Images `(N, C, H, W)` moved by up to `padding` pixels each way, each on its own, with zeros coming in."""
    _check(x)
    n, channels, height, width = x.shape
    top, left = (
        torch.randint(2 * padding + 1, (n, 1), device="cpu").to(x.device) for _ in range(2)
    )
    rows = top + torch.arange(height, device=x.device)  # (N, H)
    columns = left + torch.arange(width, device=x.device)  # (N, W)
    image = torch.arange(n, device=x.device).view(n, 1, 1, 1)
    channel = torch.arange(channels, device=x.device).view(1, channels, 1, 1)
    padded = F.pad(x, (padding, padding, padding, padding))
    return padded[image, channel, rows.view(n, 1, height, 1), columns.view(n, 1, 1, width)]


def random_flip(x: Tensor) -> Tensor:
    """Images `(N, C, H, W)`, each mirrored left to right with probability one half."""
    _check(x)
    turned = torch.rand((len(x), 1, 1, 1), device="cpu").to(x.device) < 0.5
    return torch.where(turned, x.flip(3), x)


AUGMENTATIONS: dict[str, Callable[[Tensor], Tensor]] = {"crop": random_crop, "flip": random_flip}


def _check(x: Tensor) -> None:
    if x.dim() != 4:
        raise NescioError(
            f"inputs of shape {tuple(x.shape)} cannot be augmented; expected images (N, C, H, W)"
        )
