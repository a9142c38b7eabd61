"""A sample of bounded size of rows that stream by, each of which is as likely to be in it (Vitter 1985)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.errors import NescioError, check_int


class Reservoir:
    """Keeps at most `size` of the rows it is given.

    >>> some = Reservoir(2)
    >>> for batch in torch.arange(8.0).reshape(4, 2, 1):
    ...     some.add(batch)
    >>> some.rows.shape, some.seen
    (torch.Size([2, 1]), 8)
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.seen = check_int("size", size), 0
        self._generator = torch.Generator().manual_seed(seed)
        self._kept: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Take in rows `(B, …)`."""
        if self._kept is None:  # memory that is never written to costs nothing
            try:
                self._kept = torch.empty(self.size, *rows.shape[1:], dtype=rows.dtype)
            except RuntimeError as error:
                raise NescioError(
                    f"there is no memory for {self.size} rows of shape {tuple(rows.shape[1:])}"
                ) from error
        chance = torch.rand(len(rows), generator=self._generator, dtype=torch.float64)
        if self.seen + len(rows) <= self.size:  # there is room for all, in order
            self._kept[self.seen : self.seen + len(rows)] = rows
        else:
            self._put(rows, chance.numpy())
        self.seen += len(rows)

    def _put(self, rows: Tensor, chance: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Some rows in the place of others; by numpy, which is quicker with so few numbers."""
        assert self._kept is not None  # noqa: S101 - it was made before
        number = self.seen + np.arange(len(rows))
        place = np.where(number < self.size, number, (chance * (number + 1)).astype(np.int64))
        (here,) = np.nonzero(place < self.size)
        # of rows that fall on one place the last stays, as if they had come one by one
        places, backwards = np.unique(place[here][::-1], return_index=True)
        last = torch.from_numpy(here[len(here) - 1 - backwards])
        self._kept.index_copy_(
            0, torch.from_numpy(places), rows.index_select(0, last.to(rows.device)).to(self._kept)
        )

    @property
    def rows(self) -> Tensor:
        """What was kept, `(M, …)`."""
        if self._kept is None:
            return torch.empty(0)
        return self._kept[: self.seen]
