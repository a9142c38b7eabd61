"""How far rounding may move a score: one input has other last digits in another batch, where sums run in other order.

Where many inputs score the same, as rows of a table do, a threshold there would tell them apart by nothing else.
"""

from torch import Tensor

SLACK = 1e-5  # of the spread of scores
DIGITS = 1e-6  # of a score's own size
MEASURED = 4.0  # times what was seen of a few inputs


def slack(scores: Tensor, noise: float = 0.0) -> Tensor:
    """Within how much of each score `(N,)` others count as the same, `(N,)` in float64.

    `max(1e-5 · (max − min), 1e-6 · |score|, 4 · noise)`; `noise` is what batches of other sizes were seen to change.

    >>> import torch
    >>> slack(torch.tensor([1.0, 3.0]))
    tensor([2.0000e-05, 2.0000e-05], dtype=torch.float64)
    """
    scores = scores.double()
    low, high = scores.aminmax()
    return (DIGITS * scores.abs()).clamp(min=max(SLACK * float(high - low), MEASURED * noise))


def reached(scores: Tensor, noise: float = 0.0) -> Tensor:
    """How large each score `(N,)` may come out in another batch, in the same order; float64."""
    return scores.double() + slack(scores, noise)
