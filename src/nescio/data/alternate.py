"""Every other input of some data, so that half of it can teach and half can judge."""

from collections.abc import Iterator
from typing import Any

from nescio.data.batches import Batch, batches


class Alternate:
    """The inputs at even (0) or odd (1) places of data that can be read again; they are streamed.

    >>> import torch
    >>> [x.flatten().tolist() for x, _ in Alternate(torch.arange(5.0)[:, None], 1)]
    [[1.0, 3.0]]
    """

    def __init__(self, data: Any, place: int, batch_size: int = 512) -> None:
        self.data, self.place, self.batch_size = data, place, batch_size

    def __iter__(self) -> Iterator[Batch]:
        before = 0
        for x, y in batches(self.data, self.batch_size):
            first = (self.place - before) % 2
            before += len(x)
            yield x[first::2], None if y is None else y[first::2]
