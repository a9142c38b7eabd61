"""How far rounding may move a score: one input has other last digits in another batch, where sums run in other order.

Where many inputs score the same, as rows of a table do, a threshold there would tell them apart by nothing else.
"""

import numpy as np
from torch import Tensor

SLACK = 2e-5  # of the spread of scores
DIGITS = 1e-6  # of a score's own size
MEASURED = 4.0  # times what was seen of a few inputs
MIDST = (
    0.05,
    0.95,
)  # quantiles between which scores have their spread: an outlier, however far, must not widen it
BEYOND = 10.0  # times the spread outside of which a score is an outlier


def spread(scores: Tensor) -> float:
    """How far apart the bulk of scores `(N,)` is.

    >>> import torch
    >>> spread(torch.arange(101.0)), spread(torch.cat([torch.arange(100.0), torch.tensor([1e9])]))
    (90.0, 90.0)
    """
    low, high = _midst(scores)
    return high - low


def noise(changes: Tensor, of: Tensor, scores: Tensor) -> float:
    """How much scores were seen to change in other batches, but for outliers, whose digits are worth more.

    Args:
        changes: `(K,)`, by how much at most each of a few scores changed.
        of: `(K,)`, those scores.
        scores: `(N,)`, all of them.
    """
    low, high = _midst(scores)
    wide = BEYOND * (high - low)
    usual = changes[(of >= low - wide) & (of <= high + wide)]
    return float(usual.max()) if len(usual) else 0.0


def slack(scores: Tensor, noise: float = 0.0) -> Tensor:
    """Within how much of each score `(N,)` others count as the same, `(N,)` in float64.

    `max(2e-5 · spread, 1e-6 · |score|, 4 · noise)`; `noise` is what batches of other sizes were seen to change.

    >>> import torch
    >>> slack(torch.arange(101.0))[:2]
    tensor([0.0018, 0.0018], dtype=torch.float64)
    """
    scores = scores.double()
    return (DIGITS * scores.abs()).clamp(min=max(SLACK * spread(scores), MEASURED * noise))


def reached(scores: Tensor, noise: float = 0.0) -> Tensor:
    """How large each score `(N,)` may come out in another batch, in the same order; float64."""
    return scores.double() + slack(scores, noise)


def _midst(scores: Tensor) -> tuple[float, float]:
    low, high = np.quantile(scores.detach().double().cpu().numpy(), MIDST)
    return float(low), float(high)
