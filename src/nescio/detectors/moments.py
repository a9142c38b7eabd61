"""Means and scatter of features by class, in one pass over data of any length."""

import torch
from torch import Tensor

from nescio.errors import NescioError

TOGETHER = 1024  # rows to take in at once: a product of few rows is slow


class Moments:
    """Counts `(C,)`, means `(C, F)` and scatter around them, summed over classes `(F, F)` or of each `(C, F, F)`.

    Rows are taken in by the thousand, and these are merged by the difference of their means (Chan, Golub and
    LeVeque 1979), so that nothing is lost by subtracting large numbers. `close` comes after the last.
    """

    def __init__(self, classes: int, features: int, each: bool = False) -> None:
        self.each = each
        self.count = torch.zeros(classes, dtype=torch.float64)
        self.mean = torch.zeros(classes, features, dtype=torch.float64)
        self.scatter = torch.zeros(*(classes,) * each, features, features, dtype=torch.float64)
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._waits = 0

    def add(self, rows: Tensor, labels: Tensor) -> None:
        """Take in features `(B, F)` and their classes `(B,)`."""
        rows = rows if rows.dtype == torch.float64 else rows.float()  # sums of halves would overflow
        self._waiting.append((rows.to(self.mean.device), labels.to(self.mean.device)))
        self._waits += len(rows)
        if self._waits >= TOGETHER:
            self._merge()

    def close(self) -> "Moments":
        """Take in what still waits; an error if features are not finite, or there are too few for any spread."""
        if self._waiting:
            self._merge()
        if not self.mean.isfinite().all() or not self.scatter.isfinite().all():
            raise NescioError("some features are NaN or infinite, or too large to be squared")
        if self.count.sum() < 2:
            raise NescioError(f"{int(self.count.sum())} input to learn from; expected at least 2")
        return self

    def _merge(self) -> None:
        rows, labels = self._waiting[0] if len(self._waiting) == 1 else map(torch.cat, zip(*self._waiting, strict=True))
        self._waiting, self._waits = [], 0
        count = labels.bincount(minlength=len(self.count)).double()
        one = len(count) == 1  # then nothing need be looked up
        sums = rows.sum(0, keepdim=True) if one else rows.new_zeros(self.mean.shape).index_add_(0, labels, rows)
        mean = sums.double() / count.clamp(min=1)[:, None]
        own = mean.to(rows.dtype).repeat(len(rows), 1) if one else mean.to(rows.dtype)[labels]
        torch.sub(rows, own, out=own)  # in the same memory
        total = self.count + count
        apart = (mean - self.mean) * (self.count * count / total.clamp(min=1)).sqrt()[:, None]  # (C, F)
        if self.each:
            for label in count.nonzero().flatten().tolist():
                some = own[labels == label]
                self.scatter[label] += (some.T @ some).double() + torch.outer(apart[label], apart[label])
        else:
            self.scatter += (own.T @ own).double() + apart.T @ apart
        self.mean += (mean - self.mean) * (count / total.clamp(min=1))[:, None]
        self.count = total

    @property
    def overall(self) -> tuple[Tensor, Tensor]:
        """The mean `(F,)` of all, and the scatter `(F, F)` around it, classes set aside."""
        mean = self.count @ self.mean / self.count.sum()
        apart = (self.mean - mean) * self.count.sqrt()[:, None]
        within = self.scatter.sum(0) if self.each else self.scatter
        return mean, within + apart.T @ apart
