"""Means and scatter of features by class, in one pass over data of any length."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from nescio.errors import NescioError

PIECE = 4096  # rows to take in at once: fewer make slow products, more leave the cache between difference and product
STRIPS = 4  # of a symmetric product: only what is on or above the diagonal is made
NARROWEST = 64  # features of a strip


class Moments:
    """Counts `(C,)`, means `(C, F)` and scatter around them, summed over classes `(F, F)` or of each `(C, F, F)`.

    Rows are taken in by the thousands, and these are merged by the difference of their means (Chan, Golub and
    LeVeque 1979), so that little is lost by subtracting large numbers. `close` comes after the last; before it, the
    scatter below the diagonal is not there yet.
    """

    def __init__(self, classes: int, features: int, each: bool = False) -> None:
        self.each = each
        self.count = torch.zeros(classes, dtype=torch.float64)
        self.mean = torch.zeros(classes, features, dtype=torch.float64)
        self.scatter = torch.zeros(*(classes,) * each, features, features, dtype=torch.float64)
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._waits = 0
        self._room = torch.empty(0)  # used over and over, for new memory is slow to come by

    def add(self, rows: Tensor, labels: Tensor) -> None:
        """Take in features `(B, F)` and their classes `(B,)`."""
        rows = (
            rows if rows.dtype == torch.float64 else rows.float()
        )  # sums of halves would overflow
        rows, labels = rows.to(self.mean.device), labels.to(self.mean.device)
        self._waits += len(rows)
        if self._waits >= PIECE:
            self._waiting.append((rows, labels))
            self._merge()
        else:  # copies, for a model may write its next features there, and views would keep whole activations alive
            self._waiting.append((rows.clone(), labels.clone()))

    def close(self) -> "Moments":
        """Take in what still waits; an error if features are not finite, or there are too few for any spread."""
        if self._waiting:
            self._merge()
        self.scatter = self.scatter.triu() + self.scatter.triu(1).mT
        if not self.mean.isfinite().all() or not self.scatter.isfinite().all():
            raise NescioError("some features are NaN or infinite, or too large to be squared")
        if self.count.sum() < 2:
            raise NescioError(f"{int(self.count.sum())} input to learn from; expected at least 2")
        return self

    def _merge(self) -> None:
        sums = self.mean.new_zeros(self.mean.shape)
        for (
            rows,
            labels,
        ) in self._waiting:  # by pieces, for sums of more would cost singles their digits
            for some, which in zip(
                torch.split(rows, PIECE), torch.split(labels, PIECE), strict=True
            ):
                sums += _sums(some, which, len(self.count))
        every = torch.cat([labels for _, labels in self._waiting])
        count = every.bincount(minlength=len(self.count)).double()
        mean = sums / count.clamp(min=1)[:, None]
        total = self.count + count
        apart = (mean - self.mean) * (self.count * count / total.clamp(min=1)).sqrt()[
            :, None
        ]  # (C, F)
        if self.each:
            rows = torch.cat([rows for rows, _ in self._waiting])
            for label in count.nonzero().flatten().tolist():
                own = rows[every == label].sub_(mean[label].to(rows.dtype))
                self.scatter[label] += _square(torch.split(own, PIECE), own)
                self.scatter[label].addr_(apart[label], apart[label])
        else:
            self.scatter += _square(self._around(mean), self._waiting[0][0])
            self.scatter.addmm_(apart.T, apart)
        self.mean += (mean - self.mean) * (count / total.clamp(min=1))[:, None]
        self.count, self._waiting, self._waits = total, [], 0

    def _around(self, means: Tensor) -> Iterator[Tensor]:
        """Rows that wait less the means `(C, F)` of their classes, by pieces, each in the memory of the one before."""
        means = means.to(self._waiting[0][0].dtype)
        if self._room.dtype != means.dtype or not len(self._room):
            self._room = means.new_empty(
                PIECE, means.shape[1]
            )  # what is never written to costs nothing
        filled = 0
        for rows, labels in self._waiting:
            for some, which in zip(
                torch.split(rows, PIECE), torch.split(labels, PIECE), strict=True
            ):
                if filled + len(some) > PIECE:
                    yield self._room[:filled]
                    filled = 0
                room = self._room[filled : filled + len(some)]
                own = means if len(means) == 1 else torch.index_select(means, 0, which, out=room)
                torch.sub(some, own, out=room)
                filled += len(some)
        yield self._room[:filled]

    @property
    def overall(self) -> tuple[Tensor, Tensor]:
        """The mean `(F,)` of all, and the scatter `(F, F)` around it, classes set aside."""
        mean = self.count @ self.mean / self.count.sum()
        apart = (self.mean - mean) * self.count.sqrt()[:, None]
        within = self.scatter.sum(0) if self.each else self.scatter
        return mean, within + apart.T @ apart


def _sums(rows: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Rows `(B, F)` summed by class, `(C, F)`."""
    if classes == 1:  # then nothing need be looked up
        return rows.sum(0, keepdim=True)
    return rows.new_zeros(classes, rows.shape[1]).index_add_(0, labels, rows)


def _square(pieces: Iterable[Tensor], like: Tensor) -> Tensor:
    """The sum of AᵀA over pieces A `(B, F)`, right only on and above the diagonal: `(F, F)`, of another's type."""
    total = like.new_zeros(like.shape[-1], like.shape[-1])
    for piece in pieces:
        width = max(-(-piece.shape[1] // STRIPS), NARROWEST)
        for start in range(0, piece.shape[1], width):
            strip = slice(start, start + width)
            total[strip, start:].addmm_(piece[:, strip].T, piece[:, start:])
    return total
