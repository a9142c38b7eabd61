"""Scores of disagreement between draws: functions of logits `(S, N, C)`, S ≥ 2, giving `(N,)`, larger = less known."""

import math

import torch
from torch import Tensor

from nescio.core.logits import log_probs, mean_over_draws, of_one_draw
from nescio.errors import NescioError
from nescio.scores.output import in_order, log_entropy, log_or_nothing


def expected_entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the draws, `E_s[H(p_s)]` in nats: the uncertainty that lies in the data.

    >>> expected_entropy(torch.zeros(2, 1, 4))
    tensor([1.3863], dtype=torch.float64)
    """
    log_p, log_q = _draws(logits)
    return in_order(log_entropy(log_p, log_q).logsumexp(0) - math.log(len(log_p)))


def variance(logits: Tensor) -> Tensor:
    """Softmax variance `(1/C) Σ_c (E_s[p_sc²] − E_s[p_sc]²)` (*Know your limits*, section 3.3).

    >>> variance(torch.tensor([[[1e3, 0.0]], [[0.0, 1e3]]]))
    tensor([0.2500], dtype=torch.float64)
    """
    log_p, log_q = _draws(logits)
    mean_p, mean_q = mean_over_draws(log_p, log_q)
    # p and 1 − p vary alike; take the smaller one, which has the digits, each class on a scale of its own
    small = torch.where(mean_p < mean_q, log_p, log_q)  # (S, N, C)
    scale = small.amax(0)  # (N, C)
    log_variances = log_or_nothing((small - scale).exp().var(0, correction=0)) + 2 * scale
    return in_order(log_variances.logsumexp(-1) - math.log(logits.shape[2]))


def mutual_information(logits: Tensor) -> Tensor:
    """Mutual information of label and draw, `H(p̄) − E_s[H(p_s)]` in nats: what the draws disagree about.

    Computed as `E_s KL(p_s ‖ p̄) = E_s Σ_c p̄_c φ(p_sc / p̄_c)` with `φ(r) = r log r − r + 1 ≥ 0`: no term is negative,
    so nothing cancels where the difference of entropies would.

    >>> mutual_information(torch.tensor([[[1e3, 0.0]], [[0.0, 1e3]]]))
    tensor([0.6931], dtype=torch.float64)
    """
    log_p, log_q = _draws(logits)
    mean_p, _ = mean_over_draws(log_p, log_q)
    log_ratio = log_p - mean_p  # at most log S
    series = log_ratio.square() * (
        0.5 + log_ratio / 3 + log_ratio.square() / 8
    )  # φ(e^d) for small d
    phi = torch.where(
        log_ratio.abs() < 1e-4, series, log_ratio.exp() * log_ratio - torch.expm1(log_ratio)
    )
    return in_order((mean_p + log_or_nothing(phi)).logsumexp((0, 2)) - math.log(len(log_p)))


def _draws(logits: Tensor) -> tuple[Tensor, Tensor]:
    if of_one_draw(logits):
        raise NescioError(
            "this score compares draws, but the logits hold one draw (S = 1); use a method that draws "
            "(several members or samples), or a score of the output such as 'entropy'"
        )
    return log_probs(logits)
