"""Logits `(S, N, C)`: draws, inputs, classes. What every model gives and every score takes.

All is computed in float64 and in log space. Inputs whose confidence rounds to 1.0 keep their order:
beside `log p` we carry `log(1 − p)`, which is exact where `p` itself has run out of digits.
"""

import math
import warnings
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from nescio.arrays import plain
from nescio.errors import NescioError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LARGEST = 1e300  # differences of larger ones would overflow
SMALLEST = 1e-290  # smaller sums soon have fewer digits
MIN_OUTPUTS = 20  # of fewer, logits may lie in [0, 1] at random
NEAR_END = 0.1  # so near to 0 and to 1 some outputs of a sigmoid are
SUM_TOLERANCE = 1e-3  # of a softmax in half precision
T = TypeVar("T")


def two_classes(output: T) -> T:
    """Return one logit z for each input, `(N,)`, `(N, 1)` or `(S, N, 1)`, as (0, z): two classes.

    `sigmoid(z)` is the second one of `softmax((0, z))`. All else is returned as it is.

    >>> two_classes(torch.tensor([[2.0], [-1.0]]))
    tensor([[ 0.,  2.],
            [ 0., -1.]])
    """
    if not isinstance(output, Tensor) or output.is_nested:
        return output
    column = output.reshape(-1, 1) if output.dim() < 2 else output
    one_output = column.dim() < 4 and column.shape[-1] == 1
    return cast(T, pad(column, (1, 0))) if one_output else output


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn if logits `(S, N, C)` are probabilities: they sum to 1, or z of (0, z) fill [0, 1]."""
    if logits.shape[1] < MIN_OUTPUTS or not float(logits.amin()) >= 0:
        return
    seen, layer = "", "softmax"
    if logits.shape[2] == 2 and not logits[..., 0].any():
        low, high = (float(end) for end in logits[..., 1].aminmax())
        if low < NEAR_END and 1 - NEAR_END < high <= 1:
            seen, layer = "one output is in [0, 1]", "sigmoid"
    elif bool(((logits.sum(-1) - 1).abs() < SUM_TOLERANCE).all()):
        seen = "outputs are positive and sum to 1"
    if seen:
        warnings.warn(
            f"the model's {seen} for all {logits.shape[1]} inputs, like probabilities, "
            f"but logits are expected; if a {layer} comes last, leave it out, or wrap the model in "
            "nescio.models.ProbsToLogits",
            stacklevel=2,
        )


def check_logits(logits: Tensor) -> Tensor:
    """Return the logits in float64, or raise unless they are finite, `(S, N, C)`, with C ≥ 2."""
    extremes(logits)
    return logits.double()


def extremes(logits: Tensor) -> tuple[float, float]:
    """Return the smallest and the largest of all logits, or raise as `check_logits` does."""
    is_tensor = isinstance(logits, Tensor)
    if is_tensor:
        plain(logits)
    if not is_tensor or logits.dtype not in FLOATS or logits.dim() != 3:
        got = f"{logits.dtype} {tuple(logits.shape)}" if is_tensor else type(logits).__name__
        expected = "floats of shape (S, N, C) = (draws, inputs, classes)"
        raise NescioError(f"expected logits: {expected}, not {got}")
    if logits.shape[2] < 2 or 0 in logits.shape:
        shape = tuple(logits.shape)
        raise NescioError(f"logits {shape}: need at least one draw, one input and two classes")
    low, high = (float(end) for end in logits.detach().aminmax())
    if not -LARGEST < low <= high < LARGEST:  # which NaN is not either
        bad = (~(logits.abs() < LARGEST)).any(2).any(0)
        raise NescioError(
            f"logits of {int(bad.sum())} of {len(bad)} inputs are NaN, infinite or beyond "
            f"{LARGEST:g}, the first at input {int(bad.nonzero()[0])}"
        )
    return low, high


def of_one_draw(logits: Tensor) -> bool:
    """Whether these may be logits of one draw; whether they are logits is checked elsewhere."""
    dense = isinstance(logits, Tensor) and not logits.is_nested
    return dense and logits.dim() == 3 and len(logits) == 1


def log_probs(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return `log p` and `log(1 − p)` of each draw, `(S, N, C)`, both exact where p is near 1.

    With `r = Σ_others exp(logit − largest)`, known by its log, the largest class has
    `p = 1 / (1 + r)`, and `1 − p = r / (1 + r)`; for the others `1 − p ≥ 1/2`.
    """
    gaps, top, log_rest, log_total = relative_to_largest(logits)
    log_p = gaps - log_total
    log_q = torch.log1p(-log_p.exp().clamp(max=0.5)).scatter(-1, top, logsigmoid(log_rest))
    return log_p, log_q


def relative_to_largest(logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gaps `(S, N, C)` to the largest class, its index, `log r` and `log(1 + r)`.

    `r = Σ_others exp(gap)` is the weight of the others; the last three are `(S, N, 1)`.
    """
    logits = check_logits(logits)
    largest = logits.max(-1, keepdim=True)
    # what all share costs digits of what distinguishes them; no gradient of the largest goes both
    # ways, for those would cancel each other and what is left of the others
    gaps = (logits - largest.values).scatter_(-1, largest.indices, 0.0)
    rest = gaps.scatter(-1, largest.indices, -torch.inf).exp_().sum(-1, keepdim=True)
    log_rest = rest.clamp(min=SMALLEST).log()
    if not rest.detach().amin() > SMALLEST:  # too small for a sum of exponentials: its log first
        exact = gaps.scatter(-1, largest.indices, -torch.inf).logsumexp(-1, keepdim=True)
        log_rest = torch.where(rest > SMALLEST, log_rest, exact)
    return gaps, largest.indices, log_rest, rest.log1p()


def mean_log_probs(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return `log p̄` and `log(1 − p̄)` of the mean over draws, `(N, C)` each: never of logits."""
    return mean_over_draws(*log_probs(logits))


def mean_over_draws(log_p: Tensor, log_q: Tensor) -> tuple[Tensor, Tensor]:
    """Average the two halves `(S, N, C)` of `log_probs` in probability space to `(N, C)`."""
    if len(log_p) == 1:
        return log_p[0], log_q[0]
    draws = math.log(len(log_p))
    mean_p, mean_q = log_p.logsumexp(0) - draws, log_q.logsumexp(0) - draws
    near_one = mean_q < -math.log(2)
    return torch.where(near_one, torch.log1p(-mean_q.exp().clamp(max=0.5)), mean_p), mean_q


def largest_log_probs(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return `log p̄` and `log(1 − p̄)`, `(N,)`, of the class with the largest mean probability."""
    if of_one_draw(logits):  # the other classes need not be worked out
        _, _, log_rest, log_total = relative_to_largest(logits)
        return -log_total.flatten(), logsigmoid(log_rest).flatten()
    log_p, log_q = mean_log_probs(logits)
    top = log_p.argmax(-1, keepdim=True)
    return log_p.gather(-1, top)[:, 0], log_q.gather(-1, top)[:, 0]


def softmax_confidence(logits: Tensor) -> Tensor:
    """Return the largest mean probability `max_c p̄_c`, `(N,)`: a softmax network's confidence.

    >>> softmax_confidence(torch.zeros(1, 1, 4))
    tensor([0.2500], dtype=torch.float64)
    """
    return largest_log_probs(logits)[0].exp()


def log_mean(logits: Tensor) -> Tensor:
    """Return `log p̄` of the mean over draws, `(N, C)`, in the logits' own precision."""
    log_p = logits.log_softmax(-1)
    return log_p[0] if len(log_p) == 1 else log_p.logsumexp(0) - math.log(len(log_p))


def log_confidence(logits: Tensor) -> Tensor:
    """Return `log max_c p̄_c`, `(N,)`, in the logits' own precision; see `log_mean`."""
    return log_mean(logits).amax(-1)


def mean_kernels(logits: Tensor) -> Tensor:
    """Return kernels `(N, C)` in [0, 1] of log-kernels `(S, N, C)`, the mean over draws.

    >>> mean_kernels(torch.tensor([[[0.0, -1000.0]]]))
    tensor([[1., 0.]], dtype=torch.float64)
    """
    return check_logits(logits).clamp(max=0).exp().mean(0)


def classes(logits: Tensor) -> Tensor:
    """Return the class with the largest mean probability, `(N,)`."""
    logits = check_logits(logits)
    # one draw needs no softmax: its order is that of the logits, also where probabilities tie
    return logits[0].argmax(-1) if len(logits) == 1 else mean_log_probs(logits)[0].argmax(-1)
