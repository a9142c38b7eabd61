"""Statistics of features in one pass over data of any length: moments, whitening, a sample."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.errors import NescioError, check_int

CHUNK = 4096  # rows: fewer make slow products, more leave the cache between difference and product
STRIPS = 4  # of a symmetric product, of which only what is on or above the diagonal is computed
MIN_STRIP = 64  # features of a strip
ROUNDING = torch.finfo(torch.float32).eps  # to which the variance of features is known
CACHED_ROWS = 512
TESTED_COLUMNS = 8  # whose angles are checked


class Moments:
    """Counts `(C,)`, means `(C, F)` and scatter, summed over classes `(F, F)` or each `(C, F, F)`.

    Chunks are merged by the difference of their means (Chan, Golub and LeVeque 1979), so that
    little is lost by subtracting large numbers. Call `close` after the last row; before it, the
    scatter is an upper triangle.
    """

    def __init__(self, classes: int, features: int, each: bool = False) -> None:
        self.each = each
        self.count = torch.zeros(classes, dtype=torch.float64)
        self.mean = torch.zeros(classes, features, dtype=torch.float64)
        self.scatter = torch.zeros(*(classes,) * each, features, features, dtype=torch.float64)
        self._pending: list[tuple[Tensor, Tensor]] = []
        self._pending_rows = 0
        self._buffer = torch.empty(0)  # reused, for new memory is slow

    def add(self, rows: Tensor, labels: Tensor) -> None:
        """Add features `(B, F)` and their classes `(B,)`."""
        # sums of halves would overflow
        rows = rows if rows.dtype == torch.float64 else rows.float()
        rows, labels = rows.to(self.mean.device), labels.to(self.mean.device)
        self._pending_rows += len(rows)
        if self._pending_rows >= CHUNK:
            self._pending.append((rows, labels))
            self._merge()
        else:  # copies, for a model may write its next features there, and views keep activations
            self._pending.append((rows.clone(), labels.clone()))

    def close(self) -> "Moments":
        """Merge what is pending; raise an error if features are not finite, or too few."""
        if self._pending:
            self._merge()
        self.scatter = self.scatter.triu() + self.scatter.triu(1).mT
        if not self.mean.isfinite().all() or not self.scatter.isfinite().all():
            raise NescioError("some features are NaN or infinite, or too large to be squared")
        if self.count.sum() < 2:
            raise NescioError(f"{int(self.count.sum())} input to learn from; expected at least 2")
        return self

    def _merge(self) -> None:
        sums = self.mean.new_zeros(self.mean.shape)
        for rows, labels in self._chunks():  # sums of more would cost singles their digits
            by_class = rows.new_zeros(self.mean.shape)
            single = len(self.count) == 1  # nothing to look up
            sums += rows.sum(0, keepdim=True) if single else by_class.index_add_(0, labels, rows)
        labels = torch.cat([labels for _, labels in self._pending])
        count = labels.bincount(minlength=len(self.count)).double()
        mean = sums / count.clamp(min=1)[:, None]
        total = self.count + count
        weight = (self.count * count / total.clamp(min=1)).sqrt()
        difference = (mean - self.mean) * weight[:, None]  # (C, F)
        if self.each:
            rows = torch.cat([rows for rows, _ in self._pending])
            for label in count.nonzero().flatten().tolist():
                centred = rows[labels == label].sub_(mean[label].to(rows.dtype))
                self.scatter[label] += _gram(torch.split(centred, CHUNK), centred)
                self.scatter[label].addr_(difference[label], difference[label])
        else:
            self.scatter += _gram(self._centred(mean), self._pending[0][0])
            self.scatter.addmm_(difference.T, difference)
        self.mean += (mean - self.mean) * (count / total.clamp(min=1))[:, None]
        self.count, self._pending, self._pending_rows = total, [], 0

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, labels in self._pending:
            yield from zip(torch.split(rows, CHUNK), torch.split(labels, CHUNK), strict=True)

    def _centred(self, means: Tensor) -> Iterator[Tensor]:
        """Yield pending rows less the means `(C, F)` of their classes, all in the same memory."""
        means = means.to(self._pending[0][0].dtype)
        if self._buffer.dtype != means.dtype or not len(self._buffer):
            self._buffer = means.new_empty(CHUNK, means.shape[1])  # costs nothing until written
        filled = 0
        for rows, labels in self._chunks():
            if filled + len(rows) > CHUNK:
                yield self._buffer[:filled]
                filled = 0
            out = self._buffer[filled : filled + len(rows)]
            centres = means if len(means) == 1 else torch.index_select(means, 0, labels, out=out)
            torch.sub(rows, centres, out=out)
            filled += len(rows)
        yield self._buffer[:filled]

    @property
    def overall(self) -> tuple[Tensor, Tensor]:
        """Return the mean `(F,)` of all rows, and the scatter `(F, F)` around it."""
        mean = self.count @ self.mean / self.count.sum()
        difference = (self.mean - mean) * self.count.sqrt()[:, None]
        within = self.scatter.sum(0) if self.each else self.scatter
        return mean, within + difference.T @ difference


def _gram(chunks: Iterable[Tensor], like: Tensor) -> Tensor:
    """Sum AᵀA over chunks A `(B, F)`: `(F, F)`, correct only on and above the diagonal."""
    total = like.new_zeros(like.shape[-1], like.shape[-1])
    for chunk in chunks:
        width = max(-(-chunk.shape[1] // STRIPS), MIN_STRIP)
        for start in range(0, chunk.shape[1], width):
            strip = slice(start, start + width)
            total[strip, start:].addmm_(chunk[:, strip].T, chunk[:, start:])
    return total


def min_variance(covariance: Tensor, floor: float) -> float:
    """Return the least variance of a direction: a fraction of the mean, or what rounding hides.

    A new input that activates a unit which is never active is unusual, but dividing by almost
    nothing would leave no other evidence. Without any variance 1 does as well as another unit.
    """
    total = float(covariance.trace())
    return max(floor * total / len(covariance), ROUNDING * total) or 1.0


def whitened(rows: Tensor, centre: Tensor, factor: Tensor) -> Tensor:
    """Return `(rows − centre) · factor`, `(B, G)`, of features `(B, F)`, in their precision."""
    rows = rows if rows.dtype == torch.float64 else rows.float()
    return (rows - centre.to(rows)) @ factor.to(rows)


def squares(rows: Tensor) -> Tensor:
    """Return the squared length of each row `(B, F)`: `(B,)` in float64."""
    # by chunks whose doubles stay in the cache, for new memory takes several times as long
    chunks = torch.split(rows, CACHED_ROWS)
    lengths = [torch.linalg.vector_norm(chunk, dim=1, dtype=torch.float64) for chunk in chunks]
    return torch.cat(lengths).square()


def whitening(covariance: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return a factor `(F, F)` that gives rows unit covariance, and its log-determinant, `()`.

    >>> whitening(torch.diag(torch.tensor([4.0, 0.0])), least=0.25)[0].abs()
    tensor([[0.0000, 0.5000],
            [2.0000, 0.0000]])
    """
    variance, vectors = torch.linalg.eigh(covariance)
    variance = variance.clamp(min=least)
    return (vectors * variance.rsqrt()).contiguous(), -variance.log().sum() / 2


def is_whitening(factor: Tensor) -> bool:
    """Return whether a factor `(…, F, F)` may come from `whitening`: orthogonal, longest first.

    >>> factor, _ = whitening(torch.tensor([[4.0, 1.0], [1.0, 1.0]]), least=0.25)
    >>> is_whitening(factor), is_whitening(factor.T)
    (True, False)
    """
    columns = factor.double().mT  # (…, F, F)
    lengths = torch.linalg.vector_norm(columns, dim=-1)
    units = (columns / lengths[..., None])[..., :TESTED_COLUMNS, :]
    angles = units @ units.mT - torch.eye(units.shape[-2], dtype=units.dtype)
    ordered = lengths.diff(dim=-1) <= ROUNDING * lengths[..., 1:]
    return bool((angles.abs() < ROUNDING).all() and ordered.all())


class Reservoir:
    """A uniform random sample, of bounded size, of rows that stream by (Vitter 1985).

    >>> sample = Reservoir(2)
    >>> for batch in torch.arange(8.0).reshape(4, 2, 1):
    ...     sample.add(batch)
    >>> sample.rows.shape, sample.seen
    (torch.Size([2, 1]), 8)
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.seen = check_int("size", size), 0
        self._generator = torch.Generator().manual_seed(seed)
        self._sample: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Add rows `(B, …)`."""
        if self._sample is None:  # memory costs nothing until it is written
            shape = (self.size, *rows.shape[1:])
            try:
                self._sample = torch.empty(shape, dtype=rows.dtype)
            except RuntimeError as error:
                raise NescioError(f"there is no memory for a sample of shape {shape}") from error
        chance = torch.rand(len(rows), generator=self._generator, dtype=torch.float64)
        if self.seen + len(rows) <= self.size:  # there is room for all, in order
            self._sample[self.seen : self.seen + len(rows)] = rows
        else:
            self._replace(self._sample, rows, chance.numpy())
        self.seen += len(rows)

    def _replace(self, sample: Tensor, rows: Tensor, chance: np.ndarray[Any, Any]) -> None:
        """Put some rows in the place of others; by numpy, which is faster for few numbers."""
        number = self.seen + np.arange(len(rows))
        place = np.where(number < self.size, number, (chance * (number + 1)).astype(np.int64))
        (chosen,) = np.nonzero(place < self.size)
        # of rows with the same place the last stays, as if they had come one by one
        places, backwards = np.unique(place[chosen][::-1], return_index=True)
        last = torch.from_numpy(chosen[len(chosen) - 1 - backwards]).to(rows.device)
        sample.index_copy_(0, torch.from_numpy(places), rows.index_select(0, last).to(sample))

    @property
    def rows(self) -> Tensor:
        """Return the sample, `(M, …)`."""
        return torch.empty(0) if self._sample is None else self._sample[: self.seen]

    def finite_rows(self) -> Tensor:
        """Return the sample of features; raise an error if some are not finite."""
        # of each, isfinite would take as much memory again
        if not torch.stack(self.rows.aminmax()).isfinite().all():
            raise NescioError("the features of some inputs to learn from are NaN or infinite")
        return self.rows
