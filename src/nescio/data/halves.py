"""Data in two halves by chance, both streamed: one that teaches, one that judges."""

import zlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nescio.data.batches import Batch, batches
from nescio.data.raw import raw
from nescio.errors import NescioError

BATCH = 512


def halves(data: Any, seed: int = 0, batch_size: int = BATCH) -> tuple["Half", "Half"]:
    """Two halves of data, which are read once for each and must come in the same order both times.

    Of each two inputs in a row one goes to either half, by chance, so that an order such as classes that take turns
    does no harm.

    >>> first, second = halves(torch.arange(6.0)[:, None])
    >>> sorted(torch.cat([x for half in (first, second) for x, _ in half]).flatten().tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    if isinstance(data, Iterator):
        raise NescioError(
            "the data can be read only once, so they cannot be divided into two halves; give a dataset, "
            "a loader, or two sets"
        )
    sums: list[int] = []
    return Half(data, False, seed, sums, batch_size), Half(data, True, seed, sums, batch_size)


class Half:
    """An iterable of batches; see `halves`."""

    def __init__(
        self, data: Any, second: bool, seed: int, sums: list[int], batch_size: int
    ) -> None:
        self.data, self.second, self.seed, self.batch_size = data, second, seed, batch_size
        self._sums = sums  # of the batches, as they were read the first time

    def __iter__(self) -> Iterator[Batch]:
        coins = torch.Generator().manual_seed(self.seed)
        before, last = (
            0,
            torch.zeros(1, dtype=torch.bool),
        )  # inputs so far, the coin of the pair under way
        for number, (x, y) in enumerate(batches(self.data, self.batch_size)):
            self._check_order(number, x)
            begun = before % 2
            new = torch.rand((len(x) + 1 - begun) // 2, generator=coins) < 0.5
            pairs = torch.cat([last[: 1 if begun else 0], new])
            place = torch.arange(begun, begun + len(x))
            own = (pairs[place // 2] ^ (place % 2 == 1)) == self.second
            before, last = before + len(x), pairs[-1:]
            if own.any():
                yield x[own.to(x.device)], None if y is None else y[own.to(y.device)]

    def _check_order(self, number: int, x: Tensor) -> None:
        """Data that are shuffled anew for each reading would be in both halves."""
        found = zlib.crc32(raw(x).numpy().data)
        if number == len(self._sums):
            self._sums.append(found)
        elif found != self._sums[number]:
            raise NescioError(
                "the data come in another order each time they are read, so they cannot be divided into "
                "two halves; give data in a fixed order, or two sets"
            )
