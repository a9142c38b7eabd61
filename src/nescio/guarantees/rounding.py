"""How far rounding may move a score: in another batch sums run in another order.

Where many inputs score the same, as rows of a table do, a threshold there would separate them by
rounding alone.
"""

import numpy as np
from torch import Tensor

OF_SPREAD = 2e-5  # slack relative to the spread of scores
OF_SIZE = 1e-6  # relative to a score's own size
OF_NOISE = 4.0  # relative to the change measured on a few inputs
BULK = (0.05, 0.95)  # quantiles that measure the spread: no outlier, however far, may widen it
OUTLIER = 10.0  # spreads outside the bulk at which a score is an outlier


def spread(scores: Tensor) -> float:
    """Return how far apart the bulk of scores `(N,)` is.

    >>> import torch
    >>> spread(torch.arange(101.0)), spread(torch.cat([torch.arange(100.0), torch.tensor([1e9])]))
    (90.0, 90.0)
    """
    low, high = _bulk(scores)
    return high - low


def noise(changes: Tensor, of: Tensor, scores: Tensor) -> float:
    """Return the largest change of a score between batches, outliers excepted.

    Args:
        changes: `(K,)`, by how much at most each of a few scores changed.
        of: `(K,)`, those scores.
        scores: `(N,)`, all of them.
    """
    low, high = _bulk(scores)
    margin = OUTLIER * (high - low)
    usual = changes[(of >= low - margin) & (of <= high + margin)]
    return float(usual.max()) if len(usual) else 0.0


def slack(scores: Tensor, noise: float = 0.0) -> Tensor:
    """Return within how much of each score `(N,)` others count as equal, in float64.

    `max(2e-5 · spread, 1e-6 · |score|, 4 · noise)`, where `noise` was measured between batches.

    >>> import torch
    >>> slack(torch.arange(101.0))[:2]
    tensor([0.0018, 0.0018], dtype=torch.float64)
    """
    scores = scores.double()
    return (OF_SIZE * scores.abs()).clamp(min=max(OF_SPREAD * spread(scores), OF_NOISE * noise))


def rounded_up(scores: Tensor, noise: float = 0.0) -> Tensor:
    """Return how large each score `(N,)` may be in another batch, in the same order; float64."""
    return scores.double() + slack(scores, noise)


def _bulk(scores: Tensor) -> tuple[float, float]:
    low, high = np.quantile(scores.detach().double().cpu().numpy(), BULK)
    return float(low), float(high)
