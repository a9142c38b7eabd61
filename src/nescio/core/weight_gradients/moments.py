"""Eight numbers that describe the entries of each input's gradient, without keeping them.

Entries are centred before they are raised to a power, and rows scaled by their largest entry, so
that nothing cancels, overflows or underflows; parts are merged by Pébay's formulas (2008).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import factorial

import torch
from torch import Tensor

STATISTICS = ("l1", "l2", "min", "max", "mean", "std", "skewness", "kurtosis")


@dataclass(frozen=True)
class Moments:
    """Of `count` entries for each of N inputs, in units of `scale`; all are float64 `(N,)`.

    The unit is about the largest entry, whose fourth power might overflow.
    """

    count: int
    scale: Tensor
    mean: Tensor
    second: Tensor  # Σ (g − mean)²
    third: Tensor
    fourth: Tensor
    l1: Tensor
    low: Tensor
    high: Tensor

    def statistics(self, precision: float) -> Tensor:
        """Return the `STATISTICS` `(8, N)` of the population: `std` divides by the count.

        Entries that differ by no more than rounding at this precision count as equal: their spread
        is 0, and where it is, skewness is 0 and kurtosis 1, its minimum (a normal has 3). A sum
        that is only rounding of its terms counts as 0.
        """
        nothing = (self.mean * self.count).abs() <= 8 * precision * self.l1
        largest = torch.maximum(self.low.abs(), self.high.abs())
        constant = self.high - self.low <= 8 * precision * largest
        variance = (self.second / self.count).where(~constant, 0.0)
        safe = variance.where(~constant, 1.0)
        skewness = (self.third / self.count / safe**1.5).where(~constant, 0.0)
        kurtosis = (self.fourth / self.count / safe**2).where(~constant, 1.0)
        l2 = (self.second + self.count * self.mean**2).sqrt()
        mean = self.mean.where(~nothing, 0.0)
        sizes = torch.stack([self.l1, l2, self.low, self.high, mean, variance.sqrt()]) * self.scale
        return torch.cat([sizes, torch.stack([skewness, kurtosis])])

    def at(self, scale: Tensor) -> "Moments":
        """Return the same in units of another scale, no smaller than its own."""
        unit = self.scale / scale
        powers = (self.second * unit**2, self.third * unit**3, self.fourth * unit**4)
        ends = (self.l1 * unit, self.low * unit, self.high * unit)
        return Moments(self.count, scale, self.mean * unit, *powers, *ends)


def of_rows(entries: Tensor) -> Moments:
    """Return those of each row of `(N, P)`; half precision is summed in single."""
    entries = entries.float() if entries.dtype in (torch.float16, torch.bfloat16) else entries
    low, high = entries.aminmax(dim=1)
    tiny = torch.finfo(entries.dtype).tiny  # of which 1 / tiny is finite
    scale = torch.maximum(low.abs(), high.abs()).clamp(min=tiny)
    count, unit = entries.shape[1], scale.double()
    mean = entries.sum(1).double() / count / unit
    centred = torch.addcmul(-mean[:, None].to(entries.dtype), entries, 1 / scale[:, None])
    square = centred * centred
    third, fourth = (torch.linalg.vecdot(square, other).double() for other in (centred, square))
    l1 = torch.linalg.vector_norm(entries, 1, dim=1)
    ends = (end.double() / unit for end in (l1, low, high))
    return Moments(count, unit, mean, square.sum(1).double(), third, fourth, *ends)


def of_outer(left: Tensor, right: Tensor) -> Moments:
    """Return those of the outer product of rows `(N, P)` and `(N, Q)`, in P + Q steps, not P·Q.

    With `left = p + X` and `right = q + Y` about their means, an entry differs from the mean `p·q`
    of all by `p·Y + q·X + X·Y`; and since each X meets each Y, the mean of `XⁱYʲ` is the mean of
    `Xⁱ` times that of `Yʲ`.
    """
    a, b = of_rows(left.double()), of_rows(right.double())
    x, y = _mean_powers(a), _mean_powers(b)

    def central(order: int) -> Tensor:
        total = torch.zeros_like(a.mean)
        for i in range(order + 1):
            for j in range(order + 1 - i):
                both = order - i - j  # p·Y is taken i times, q·X j times, X·Y the others
                ways = factorial(order) // (factorial(i) * factorial(j) * factorial(both))
                if i + both != 1 and j + both != 1:  # a mean of X or of Y alone is 0
                    total += ways * a.mean**i * b.mean**j * (x[j + both] * y[i + both])
        return total

    count = a.count * b.count
    scale = (a.scale * b.scale).clamp(min=torch.finfo(torch.float64).tiny)
    second, third, fourth = (count * central(order) for order in (2, 3, 4))
    corners = torch.stack([p * q for p in (a.low, a.high) for q in (b.low, b.high)])
    ends = a.l1 * b.l1, corners.amin(0), corners.amax(0)
    return Moments(count, scale, a.mean * b.mean, second, third, fourth, *ends)


def _mean_powers(of: Moments) -> list[Tensor]:
    """The mean of the centred entries to the power 0, 1, … 4."""
    ones = torch.ones_like(of.mean)
    return [ones, 0 * ones, *(power / of.count for power in (of.second, of.third, of.fourth))]


def stack(chunks: Sequence[Moments]) -> Moments:
    """Return those of the inputs of all chunks, one chunk after another."""
    _, *columns = zip(*(vars(chunk).values() for chunk in chunks), strict=True)
    return Moments(chunks[0].count, *map(torch.cat, columns))


def merge(parts: Sequence[Moments]) -> Moments:
    """Return those of all entries of some parts together."""
    return reduce(_merge_two, parts)


def _merge_two(a: Moments, b: Moments) -> Moments:
    n, ab = a.count + b.count, a.count * b.count
    scale = torch.maximum(a.scale, b.scale)
    a, b = a.at(scale), b.at(scale)
    gap = b.mean - a.mean
    mean = a.mean + gap * (b.count / n)
    second = a.second + b.second + gap**2 * (ab / n)
    third = a.third + b.third + gap**3 * (ab * (a.count - b.count) / n**2)
    third = third + 3 * gap * (a.count * b.second - b.count * a.second) / n
    fourth = a.fourth + b.fourth + gap**4 * (ab * (a.count**2 - ab + b.count**2) / n**3)
    fourth = fourth + 6 * gap**2 * (a.count**2 * b.second + b.count**2 * a.second) / n**2
    fourth = fourth + 4 * gap * (a.count * b.third - b.count * a.third) / n
    ends = a.l1 + b.l1, torch.minimum(a.low, b.low), torch.maximum(a.high, b.high)
    return Moments(n, scale, mean, second, third, fourth, *ends)
