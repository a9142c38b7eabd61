"""Scores of a network's output: pure functions of logits `(S, N, C)` giving `(N,)`, larger = less known.

Several draws count through their mean probability. No score runs out of digits: see `in_order`.
"""

import math

import torch
from torch import Tensor

from nescio.core.logits import (
    apart,
    extremes,
    largest_log_probs,
    mean_log_probs,
    of_one_draw,
    sound_logits,
)

_FLOOR = -600.0  # exp(−600) ≈ 1e-261: below this a float64 soon has no room left


def max_prob(logits: Tensor) -> Tensor:
    """How far the largest probability is from one, on a log scale: `log(1 − max_c p̄_c)`.

    Same order as `1 − max p` (Hendrycks & Gimpel 2017), but two inputs whose confidence rounds to 1.0 still differ.

    >>> max_prob(torch.tensor([[[900.0, 0.0]]]))
    tensor([-900.], dtype=torch.float64)
    """
    return largest_log_probs(logits)[1]


def margin(logits: Tensor) -> Tensor:
    """How little the best class leads the second: `log(1 − (p̄₁ − p̄₂))`, at most 0 = a tie (Scheffer et al. 2001).

    >>> margin(torch.tensor([[[50.0, 0.0]]]))
    tensor([-49.3069], dtype=torch.float64)
    """
    log_p, log_q = mean_log_probs(logits)
    best = log_p.topk(2, dim=-1)
    first, second = best.values.unbind(-1)
    lead = -first.exp() * torch.expm1(second - first)  # p₁ − p₂, exact where they nearly tie
    rest = log_q.gather(-1, best.indices[..., :1]).squeeze(-1)
    return torch.where(lead < 0.5, torch.log1p(-lead.clamp(max=0.5)), torch.logaddexp(rest, second))


def entropy(logits: Tensor) -> Tensor:
    """Predictive entropy `H(p̄) = −Σ_c p̄_c log p̄_c` of the mean prediction, in nats; `log C` when uniform.

    >>> entropy(torch.zeros(1, 1, 4))
    tensor([1.3863], dtype=torch.float64)
    """
    if of_one_draw(logits):
        found = _entropy_of_one(logits)
        some = found > math.exp(_FLOOR)
        if some.all():
            return found
        return torch.where(some, found, in_order(log_entropy(*mean_log_probs(logits))))
    return in_order(log_entropy(*mean_log_probs(logits)))


def normalised_entropy(logits: Tensor) -> Tensor:
    """Entropy divided by `log C`, so that uniform gives 1 (Oberdiek et al. 2018).

    >>> normalised_entropy(torch.zeros(1, 1, 4))
    tensor([1.], dtype=torch.float64)
    """
    return entropy(logits) / math.log(logits.shape[2])


def max_logit(logits: Tensor) -> Tensor:
    """The largest logit, negated; for several draws the logs of `mean_s exp(logit)` take their place.

    For DUQ, whose logits are log-kernels, this is minus the log of the paper's certainty.

    >>> max_logit(torch.tensor([[[3.0, 1.0]]]))
    tensor([-3.], dtype=torch.float64)
    """
    logits = sound_logits(logits)
    if len(logits) == 1:  # itself, without a logarithm of its exponential
        return -logits[0].amax(-1).double()
    logits = logits.double()
    return -(logits.logsumexp(0) - math.log(len(logits))).amax(-1)


def energy(logits: Tensor) -> Tensor:
    """Free energy `−log Σ_c exp(logit_c)` (Liu et al. 2020), the mean over draws taken inside the log.

    >>> energy(torch.zeros(1, 1, 4))
    tensor([-1.3863], dtype=torch.float64)
    """
    low, high = extremes(logits)
    # where they are not too far apart, one number is near enough to the largest of every input, and quicker to have
    largest = (
        high if high - low < -_FLOOR else logits.detach().amax((0, 2), keepdim=True).double()
    )  # (1, N, 1)
    # in place, since new memory would take as long again
    total = logits.to(torch.float64, copy=True).sub_(largest).exp_().sum((0, 2), keepdim=True)
    return total.log_().add_(largest - math.log(len(logits))).neg_().flatten()


def _entropy_of_one(logits: Tensor) -> Tensor:
    """`log Σ_c exp(gap_c) − Σ_c p_c gap_c` of one draw, `(N,)`: nothing cancels, as gaps to the largest are below 0."""
    gaps, _, _, log_total = apart(logits)
    return (log_total - ((gaps - log_total).exp_() * gaps).sum(-1, keepdim=True)).flatten()


def log_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """`log H` over the last axis, from `log p` and `log(1 − p)`; exact also where H itself would underflow."""
    # −log p = 1 − p where 1 − p has no square left, and log p no digits
    surprise = torch.where(log_q > _FLOOR, (-log_p).clamp(min=math.exp(_FLOOR)).log(), log_q)
    return (log_p + surprise).logsumexp(-1)


def log_or_nothing(value: Tensor) -> Tensor:
    """`log(value)` of values ≥ 0; at 0 the lowest number there is room for, without a gradient, where −∞ gives NaN."""
    some = value > 0
    return torch.where(some, torch.where(some, value, 1.0).log(), -1e300)


def in_order(log_value: Tensor) -> Tensor:
    """`exp(log_value)` that never underflows to a tie: exact above 1e-261, and strictly increasing below.

    Under the floor the exponential is replaced by `e^F / (1 + F − log_value)`, which is still within 1e-261 of it.
    """
    below = (_FLOOR - log_value).clamp(min=0.0)
    tail = math.exp(_FLOOR) / (1.0 + below)
    return torch.where(log_value > _FLOOR, log_value.clamp(min=_FLOOR).exp(), tail)
