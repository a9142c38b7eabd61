"""Data in two halves by chance, both streamed: one that teaches, one that judges."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nescio.data.batches import Batch, batches
from nescio.errors import NescioError

BATCH = 512


def halves(data: Any, seed: int = 0) -> tuple["Half", "Half"]:
    """Two halves of data, which are read once for each and must come in the same order both times.

    Of each two inputs in a row one goes to either half, by chance, so that no order of the data can matter.

    >>> first, second = halves(torch.arange(6.0)[:, None])
    >>> sorted(torch.cat([x for half in (first, second) for x, _ in half]).flatten().tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    if isinstance(data, Iterator):
        raise NescioError("the data can be read only once, so they cannot be divided into two halves; give a dataset, "
                          "a loader, or two sets")  # fmt: skip
    opening: list[Tensor] = []
    return Half(data, False, seed, opening), Half(data, True, seed, opening)


class Half:
    """An iterable of batches; see `halves`."""

    def __init__(self, data: Any, second: bool, seed: int, opening: list[Tensor]) -> None:
        self.data, self.second, self.seed, self._opening = data, second, seed, opening

    def __iter__(self) -> Iterator[Batch]:
        coins = torch.Generator().manual_seed(self.seed)
        before, last = 0, torch.zeros(1, dtype=torch.bool)  # inputs so far, the coin of the pair under way
        for x, y in batches(self.data, BATCH):
            if before == 0:
                self._check_order(x)
            begun = before % 2
            new = torch.rand((len(x) + 1 - begun) // 2, generator=coins) < 0.5
            pairs = torch.cat([last[: 1 if begun else 0], new])
            place = torch.arange(begun, begun + len(x))
            own = (pairs[place // 2] ^ (place % 2 == 1)) == self.second
            before, last = before + len(x), pairs[-1:]
            if own.any():
                yield x[own.to(x.device)], None if y is None else y[own.to(y.device)]

    def _check_order(self, x: Tensor) -> None:
        """Data that are shuffled anew for each reading would be in both halves."""
        if not self._opening:
            self._opening.append(x.clone())
        elif not torch.equal(self._opening[0].nan_to_num(), x.nan_to_num()):
            raise NescioError("the data come in another order each time they are read, so they cannot be divided into "
                              "two halves; give data in a fixed order, or two sets")  # fmt: skip
