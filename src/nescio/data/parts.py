"""What a file holds before it becomes a known set."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nescio.data.arrays import Array, inputs, labels
from nescio.data.samples import Samples


@dataclass(frozen=True)
class Parts:
    """Samples by part: "train" and "test", or "all" where the file makes no division; label −1 where it has none."""

    samples: Mapping[str, Samples]
    classes: tuple[str, ...] = ()


def part(
    x: Array, y: Array | None, where: str, classes: tuple[str, ...] = (), columns: Mapping[str, Array] | None = None
) -> Samples:
    """Samples of raw arrays, checked; without labels they are all −1."""
    x_ = inputs(x, where)
    y_ = torch.full((len(x_),), -1) if y is None else labels(y, len(x_), where, len(classes) or None)
    return Samples(x_, y_, columns)
