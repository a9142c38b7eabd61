"""Several p-values of one input as one, whatever they have to do with each other."""

import math

import torch
from torch import Tensor

from nescio.errors import NescioError
from nescio.guarantees.rounding import BEYOND, slack

BELOW = 3  # times the slack of a score that others below it count as the same
HIGH = 0.95  # what is BEYOND times as far above the median as this quantile is an outlier


def merged(p: Tensor) -> Tensor:
    """One p-value `(N,)` of K of each input, `(K, N)`: e times their geometric mean, at most 1.

    That is valid under any dependence between them (Vovk & Wang 2020, *Combining p-values via averaging*): if each is
    at most α with a probability of at most α, so is this. One alone is itself.

    >>> merged(torch.tensor([[0.01], [0.01]], dtype=torch.float64))
    tensor([0.0272], dtype=torch.float64)
    """
    if p.dim() != 2 or len(p) == 0 or not ((p > 0) & (p <= 1)).all():
        raise NescioError(
            f"expected p-values (K, N) in (0, 1] with K ≥ 1, not {tuple(p.shape)}, or some outside"
        )
    factor = math.e if len(p) > 1 else 1.0
    return (factor * p.double().log().mean(0).exp()).clamp(max=1.0)


def surprise(scores: Tensor, calibration: Tensor) -> Tensor:
    """`−log p` of scores `(N,)` among sorted calibration scores `(M,)`, made to grow with every score above the least.

    A p-value is one of M + 1, and the same for all that is odder than the calibration data. So it is interpolated
    between their scores, where it is never below the p-value, and goes on beyond them in steps of their upper spread,
    as an exponential tail would: what lies farther away stays odder. It already does so from the last that is no
    outlier, since a single one, far away, would make all up to it alike. Just below one of them, within rounding, it is
    already theirs, so that what scores the same is as odd in every batch. NaN or infinite scores have none.
    """
    knots, count = torch.unique_consecutive(calibration.double(), return_counts=True)
    at_least = count.flip(0).cumsum(0).flip(0)  # calibration scores at or above each knot
    height = -((1 + at_least).double() / (1 + len(calibration))).log()
    middle, high = (
        calibration[len(calibration) // 2],
        calibration[int(HIGH * (len(calibration) - 1))],
    )
    if high > middle:
        inner = knots <= middle + BEYOND * (high - middle)
        knots, height = knots[inner], height[inner]
    spread = knots[-1] - middle
    spread = spread if spread > 0 else torch.ones_like(spread)
    s = scores.to(knots)
    upper = torch.searchsorted(knots, s.contiguous()).clamp(max=len(knots) - 1)
    lower = (upper - 1).clamp(min=0)
    room = knots[upper] - knots[lower] - BELOW * slack(knots)[upper]
    share = torch.where(room > 0, (s - knots[lower]) / room.where(room > 0, 1.0), 1.0).clamp(0, 1)
    inside = height[lower] + share * (height[upper] - height[lower])
    beyond = (s - knots[-1]).clamp(min=0)
    # what is less odd than all calibration data has p = 1 and no more: it must not outvote those who find it odd
    return torch.where(
        s.isfinite(), (inside + beyond / spread).where(s >= knots[0], 0.0), torch.nan
    )
