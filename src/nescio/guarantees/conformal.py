"""What held-out known data promise about new ones: p-values and thresholds that hold in finite samples.

All it takes is that known inputs to come are exchangeable with the calibration data: then the rank of a new score among
theirs is uniform, whatever the score (Vovk et al. 2005).
"""

import math

import torch
from torch import Tensor

from nescio.errors import NescioError


def calibration_inputs(accept: float) -> int:
    """How many calibration inputs it takes to promise that this share, below 1, of known inputs is accepted.

    >>> calibration_inputs(0.95), calibration_inputs(0.99), calibration_inputs(0.5)
    (19, 99, 1)
    """
    least = max(1, math.floor(accept / (1 - accept)) - 1)
    while rank_of(least, accept) > least:
        least += 1
    return least


def rank_of(n: int, accept: float) -> int:
    """The smallest k with `k / (n + 1) ≥ accept`: which of n sorted scores, counted from 1, is the threshold."""
    k = math.floor(accept * (n + 1))
    return k if k / (n + 1) >= accept else k + 1


def accepting(scores: Tensor, accept: float, of: str = "") -> float:
    """The threshold, one of these scores `(N,)`, that a new known input stays within with at least this chance."""
    if accept == 1:
        raise NescioError(
            "accept=1 would promise that no known input is ever taken for unknown, which no number of "
            "calibration inputs can; ask for less, such as 0.99"
        )
    if (rank := rank_of(len(scores), accept)) > len(scores):
        raise NescioError(
            f"{len(scores)} calibration inputs{of} are too few to accept {accept:g} of known inputs; "
            f"that takes at least {calibration_inputs(accept)}"
        )
    return float(scores.sort().values[rank - 1])


def p_values(scores: Tensor, calibration: Tensor) -> Tensor:
    """The share of calibration scores, sorted `(M,)`, at least as large as each score `(N,)`, itself counted in.

    Of a new known input it is at most α with a probability of at most α.

    >>> p_values(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    below = torch.searchsorted(calibration, scores.to(calibration).contiguous(), side="left")
    return (len(calibration) - below + 1).double() / (len(calibration) + 1)
