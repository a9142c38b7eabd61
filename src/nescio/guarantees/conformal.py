"""Conformal thresholds and p-values, valid in finite samples for any score (Vovk et al. 2005).

All it takes is that new known inputs are exchangeable with the calibration data: then the rank of a
new score among theirs is uniform.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.errors import NescioError
from nescio.guarantees.rounding import OUTLIER, slack

TIED = 3  # slacks of a score within which others below it count as equal
HIGH = 0.95  # OUTLIER times as far above the median as this quantile a score is an outlier


def min_calibration_inputs(accept: float) -> int:
    """Return how many calibration inputs it takes to guarantee that a fraction is accepted.

    >>> min_calibration_inputs(0.95), min_calibration_inputs(0.99), min_calibration_inputs(0.5)
    (19, 99, 1)
    """
    count = max(1, math.floor(accept / (1 - accept)) - 1)
    while rank_of(count, accept) > count:
        count += 1
    return count


def rank_of(n: int, accept: float) -> int:
    """Return the smallest k with `k / (n + 1) ≥ accept`: the threshold's rank among n scores."""
    k = math.floor(accept * (n + 1))
    return k if k / (n + 1) >= accept else k + 1


def conformal_threshold(scores: Tensor, accept: float, of: str = "") -> float:
    """Return the score, of calibration scores `(N,)`, that accepts a fraction of known inputs.

    `of` says more about the inputs, for the error if they are too few.
    """
    if accept == 1:
        raise NescioError("no number of calibration inputs guarantees accept=1; use 0.99, say")
    if (rank := rank_of(len(scores), accept)) > len(scores):
        raise NescioError(
            f"{len(scores)} calibration inputs{of} are too few to accept {accept:g} of known "
            f"inputs; that takes at least {min_calibration_inputs(accept)}"
        )
    return float(scores.sort().values[rank - 1])


def p_values(scores: Tensor, calibration: Tensor) -> Tensor:
    """Return the fraction of sorted calibration scores `(M,)`, and itself, ≥ each score `(N,)`.

    For a new known input it is at most α with probability at most α.

    >>> p_values(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    below = torch.searchsorted(calibration, scores.to(calibration).contiguous(), side="left")
    return (len(calibration) - below + 1).double() / (len(calibration) + 1)


class Calibrated(NamedTuple):
    """What a fit leaves: thresholds, sorted calibration scores and, if per class, their classes."""

    threshold: Tensor
    scores: Tensor
    classes: Tensor

    def thresholds(self, predicted: Tensor, count: int) -> Tensor:
        """Return the threshold of each input by its class, of so many."""
        threshold = self.threshold.to(predicted.device)
        if threshold.dim() and len(threshold) != count:
            raise NescioError(f"{len(threshold)} thresholds for a model of {count} classes")
        return threshold[predicted] if threshold.dim() else threshold.expand(len(predicted))

    def p_values(self, scores: Tensor, predicted: Tensor) -> Tensor:
        """Return p-values, with thresholds per class among inputs of the same class."""
        calibration = self.scores.to(scores.device)
        if not len(self.classes):
            return p_values(scores, calibration)
        labels, values = self.classes.to(scores.device), torch.empty_like(scores)
        for label in set(predicted.tolist()):
            rows = predicted == label
            values[rows] = p_values(scores[rows], calibration[labels == label])
        return values


def merged_p_value(p: Tensor) -> Tensor:
    """Merge K p-values `(K, N)` of each input into one `(N,)`: e times their geometric mean.

    Valid under any dependence between them (Vovk & Wang 2020, *Combining p-values via averaging*).
    One alone is itself.

    >>> merged_p_value(torch.tensor([[0.01], [0.01]], dtype=torch.float64))
    tensor([0.0272], dtype=torch.float64)
    """
    if p.dim() != 2 or len(p) == 0 or not ((p > 0) & (p <= 1)).all():
        raise NescioError(f"p-values must be (K, N) in (0, 1], K ≥ 1; got {tuple(p.shape)}")
    factor = math.e if len(p) > 1 else 1.0
    return (factor * p.double().log().mean(0).exp()).clamp(max=1.0)


def surprise(scores: Tensor, calibration: Tensor) -> Tensor:
    """Return `−log p` of scores `(N,)` among sorted calibration scores `(M,)`, made continuous.

    A p-value is one of M + 1, and the same for all above the calibration data. So it is
    interpolated between their scores, never below the p-value, and continues beyond them as an
    exponential tail of their upper spread: farther stays more surprising. The tail begins at the
    last that is no outlier, since one far away would make all up to it alike. Within rounding below
    a calibration score it is already that score's, so that equal inputs get equal values in every
    batch. NaN or infinite scores have none.
    """
    knots, count = torch.unique_consecutive(calibration.double(), return_counts=True)
    at_least = count.flip(0).cumsum(0).flip(0)  # calibration scores at or above each knot
    height = -((1 + at_least).double() / (1 + len(calibration))).log()
    median = calibration[len(calibration) // 2]
    high = calibration[int(HIGH * (len(calibration) - 1))]
    if high > median:
        inner = knots <= median + OUTLIER * (high - median)
        knots, height = knots[inner], height[inner]
    spread = knots[-1] - median
    spread = spread if spread > 0 else torch.ones_like(spread)
    s = scores.to(knots)
    upper = torch.searchsorted(knots, s.contiguous()).clamp(max=len(knots) - 1)
    lower = (upper - 1).clamp(min=0)
    gap = knots[upper] - knots[lower] - TIED * slack(knots)[upper]
    along = torch.where(gap > 0, (s - knots[lower]) / gap.where(gap > 0, 1.0), 1.0).clamp(0, 1)
    inside = height[lower] + along * (height[upper] - height[lower])
    beyond = (s - knots[-1]).clamp(min=0)
    # below all calibration scores p = 1 and no more: it must not outvote members that are surprised
    values = (inside + beyond / spread).where(s >= knots[0], 0.0)
    return torch.where(s.isfinite(), values, torch.nan)
