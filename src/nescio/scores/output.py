"""Scores that are pure functions of logits `(S, N, C)`, giving `(N,)`.

Several draws count through their mean probability. Order survives saturation: see `in_order`.
"""

import math

import torch
from torch import Tensor

from nescio.core import logits as lg
from nescio.errors import NescioError
from nescio.scores.spec import declare

_FLOOR = -600.0  # exp(−600) ≈ 1e-261: below this a float64 soon has no room left


@declare(log_of="1 − max p")
def max_prob(logits: Tensor) -> Tensor:
    """Distance of the largest probability from one, on a log scale: `log(1 − max_c p̄_c)`.

    Same order as `1 − max p` (Hendrycks & Gimpel 2017), without ties where confidence rounds to 1.

    >>> max_prob(torch.tensor([[[900.0, 0.0]]]))
    tensor([-900.], dtype=torch.float64)
    """
    return lg.largest_log_probs(logits)[1]


@declare(log_of="1 − (p₁ − p₂)")
def margin(logits: Tensor) -> Tensor:
    """Lead of the best class over the second: `log(1 − (p̄₁ − p̄₂))` (Scheffer et al. 2001).

    >>> margin(torch.tensor([[[50.0, 0.0]]]))
    tensor([-49.3069], dtype=torch.float64)
    """
    log_p, log_q = lg.mean_log_probs(logits)
    best = log_p.topk(2, dim=-1)
    first, second = best.values.unbind(-1)
    lead = -first.exp() * torch.expm1(second - first)  # p₁ − p₂, exact where they nearly tie
    rest = log_q.gather(-1, best.indices[..., :1]).squeeze(-1)
    return torch.where(lead < 0.5, torch.log1p(-lead.clamp(max=0.5)), torch.logaddexp(rest, second))


@declare()
def entropy(logits: Tensor) -> Tensor:
    """Predictive entropy `H(p̄) = −Σ_c p̄_c log p̄_c`, in nats; `log C` when uniform.

    >>> entropy(torch.zeros(1, 1, 4))
    tensor([1.3863], dtype=torch.float64)
    """
    if not lg.of_one_draw(logits):
        return in_order(log_entropy(*lg.mean_log_probs(logits)))
    # log Σ_c exp(gap_c) − Σ_c p_c gap_c: nothing cancels, as gaps to the largest logit are below 0
    gaps, _, _, log_total = lg.relative_to_largest(logits)
    values = (log_total - ((gaps - log_total).exp_() * gaps).sum(-1, keepdim=True)).flatten()
    exact = values > math.exp(_FLOOR)
    if exact.all():
        return values
    return torch.where(exact, values, in_order(log_entropy(*lg.mean_log_probs(logits))))


@declare()
def normalised_entropy(logits: Tensor) -> Tensor:
    """Entropy divided by `log C`, so that uniform gives 1 (Oberdiek et al. 2018).

    >>> normalised_entropy(torch.zeros(1, 1, 4))
    tensor([1.], dtype=torch.float64)
    """
    return entropy(logits) / math.log(logits.shape[2])


@declare()
def max_logit(logits: Tensor) -> Tensor:
    """Largest logit, negated; with several draws `log mean_s exp(logit)` takes its place.

    For DUQ, whose logits are log-kernels, this is minus the log of the paper's certainty.

    >>> max_logit(torch.tensor([[[3.0, 1.0]]]))
    tensor([-3.], dtype=torch.float64)
    """
    lg.extremes(logits)
    if len(logits) == 1:  # itself, without a logarithm of its exponential
        return -logits[0].amax(-1).double()
    return -(logits.double().logsumexp(0) - math.log(len(logits))).amax(-1)


@declare()
def energy(logits: Tensor) -> Tensor:
    """Free energy `−log Σ_c exp(logit_c)` (Liu et al. 2020), the mean over draws inside the log.

    >>> energy(torch.zeros(1, 1, 4))
    tensor([-1.3863], dtype=torch.float64)
    """
    low, high = lg.extremes(logits)
    # where logits are close together one number is near enough to every input's largest, and faster
    near = high - low < -_FLOOR
    largest = high if near else logits.detach().amax((0, 2), keepdim=True).double()  # (1, N, 1)
    # in place, since new memory would take as long again
    total = logits.to(torch.float64, copy=True).sub_(largest).exp_().sum((0, 2), keepdim=True)
    return total.log_().add_(largest - math.log(len(logits))).neg_().flatten()


@declare(needs_draws=True)
def expected_entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the draws, `E_s[H(p_s)]` in nats: the uncertainty in the data.

    >>> expected_entropy(torch.zeros(2, 1, 4))
    tensor([1.3863], dtype=torch.float64)
    """
    log_p, log_q = _log_probs_of_draws(logits)
    return in_order(log_entropy(log_p, log_q).logsumexp(0) - math.log(len(log_p)))


@declare(needs_draws=True)
def variance(logits: Tensor) -> Tensor:
    """Softmax variance `(1/C) Σ_c (E_s[p_sc²] − E_s[p_sc]²)` (*Know your limits*, section 3.3).

    >>> variance(torch.tensor([[[1e3, 0.0]], [[0.0, 1e3]]]))
    tensor([0.2500], dtype=torch.float64)
    """
    log_p, log_q = _log_probs_of_draws(logits)
    mean_p, mean_q = lg.mean_over_draws(log_p, log_q)
    # p and 1 − p vary alike; the smaller one has the digits, each class on a scale of its own
    small = torch.where(mean_p < mean_q, log_p, log_q)  # (S, N, C)
    scale = small.amax(0)  # (N, C)
    log_variances = _safe_log((small - scale).exp().var(0, correction=0)) + 2 * scale
    return in_order(log_variances.logsumexp(-1) - math.log(logits.shape[2]))


@declare(needs_draws=True)
def mutual_information(logits: Tensor) -> Tensor:
    """Mutual information of label and draw, `H(p̄) − E_s[H(p_s)]` in nats: the draws' disagreement.

    Computed as `E_s Σ_c p̄_c φ(p_sc / p̄_c)`, `φ(r) = r log r − r + 1 ≥ 0`, where nothing cancels.

    >>> mutual_information(torch.tensor([[[1e3, 0.0]], [[0.0, 1e3]]]))
    tensor([0.6931], dtype=torch.float64)
    """
    log_p, log_q = _log_probs_of_draws(logits)
    mean_p, _ = lg.mean_over_draws(log_p, log_q)
    d = log_p - mean_p  # at most log S
    series = d.square() * (0.5 + d / 3 + d.square() / 8)  # φ(e^d) for small d
    phi = torch.where(d.abs() < 1e-4, series, d.exp() * d - torch.expm1(d))
    return in_order((mean_p + _safe_log(phi)).logsumexp((0, 2)) - math.log(len(log_p)))


def _log_probs_of_draws(logits: Tensor) -> tuple[Tensor, Tensor]:
    if lg.of_one_draw(logits):
        raise NescioError(
            "this score compares draws, but the logits hold one draw (S = 1); use a stochastic "
            "method (several members or samples), or a score of one output, such as 'entropy'"
        )
    return lg.log_probs(logits)


def log_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return `log H` over the last axis from `log p` and `log(1 − p)`, without underflow."""
    # −log p = 1 − p where 1 − p has no square left, and log p no digits
    surprise = torch.where(log_q > _FLOOR, (-log_p).clamp(min=math.exp(_FLOOR)).log(), log_q)
    return (log_p + surprise).logsumexp(-1)


def in_order(log_value: Tensor) -> Tensor:
    """Return `exp(log_value)` without ties by underflow: exact above 1e-261, increasing below.

    Under the floor F the exponential is replaced by `e^F / (1 + F − log_value)`.
    """
    below = (_FLOOR - log_value).clamp(min=0.0)
    tail = math.exp(_FLOOR) / (1.0 + below)
    return torch.where(log_value > _FLOOR, log_value.clamp(min=_FLOOR).exp(), tail)


def _safe_log(value: Tensor) -> Tensor:
    """Return `log(value)` of values ≥ 0; −1e300 at 0, without a gradient, where −∞ gives NaN."""
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).log(), -1e300)
