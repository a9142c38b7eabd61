"""A threshold under which answers are wrong no more often than allowed, with confidence (Geifman & El-Yaniv 2017)."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from nescio.errors import NescioError
from nescio.guarantees.rounding import slack

TRIED = 32  # thresholds that are tried, each with its share of the doubt
TINIEST = 1e-300  # a smaller risk takes more inputs than there are numbers


@dataclass(frozen=True)
class Controlled:
    """A threshold, and what it did on the data it was found by."""

    threshold: float
    coverage: float  # share of the inputs that it accepts
    errors: int  # wrong answers among them
    accepted: int


def controlling(
    scores: Tensor, right: Tensor, risk: float, confidence: float, noise: float = 0.0
) -> Controlled:
    """The threshold with most coverage whose error rate among accepted inputs is at most `risk`, with confidence.

    Tried are 32 of the scores `(N,)`, evenly spread in rank, and no threshold at all. Given one of the scores, those
    below it are independent of it and of each other, so that the number of wrong ones is binomial: too few of them to
    come from a higher risk, at a 33rd of the doubt, prove it. All thresholds accept what is *below* one of the scores,
    by more than rounding: twice the `slack` below it all are accepted, and where some are nearer, which may be or not,
    only wrong answers among these count. So that there are none, each of the 32 moves down, at most as far as to the
    next, to where a gap is wider; that looks at no score below the gap, and leaves those as independent.

    Args:
        scores: of labelled held-out inputs.
        right: `(N,)`, which of their answers are right.
        risk: the error rate to allow, in (0, 1).
        confidence: with which probability over the choice of such data it must hold, in (0, 1).
        noise: how much scores were seen to change in batches of other sizes; see `rounding.noise`.
    """
    scores, order = scores.double().sort()
    wrong = torch.nn.functional.pad(
        (~right[order]).long().cumsum(0), (1, 0)
    )  # wrong answers among the first k
    room = slack(scores, noise)
    tops = _tops(scores, room)
    cuts = torch.cat([scores[tops] - room[tops], scores.new_full((1,), torch.inf)])
    # strictly below: ties do not count
    sure, doubtful = (
        torch.cat([torch.searchsorted(scores, edge, side="left"), tops.new_full((1,), len(scores))])
        for edge in (scores[tops] - 2 * room[tops], scores[tops])
    )
    errors = wrong[doubtful]
    accepted = sure + errors - wrong[sure]  # of those in between only wrong answers
    doubt = (1 - confidence) / len(cuts)
    proved = (
        torch.from_numpy(binom.cdf(errors.cpu().numpy(), accepted.cpu().numpy(), risk) <= doubt)
        & (accepted > 0).cpu()
    )
    if not proved.any():
        least = least_inputs(risk, confidence)
        raise NescioError(
            f"no threshold keeps the error rate at or below {risk:g} with confidence {confidence:g} on "
            f"these {len(scores)} inputs, {int(wrong[-1])} of which are answered wrongly; it takes at "
            f"least {least} accepted inputs without an error, or a larger risk"
        )
    best = int(proved.nonzero().max())
    cut = float(
        np.nextafter(float(cuts[best]), -np.inf)
    )  # a detector accepts what is at its threshold, too
    under = int(sure[best])
    return Controlled(cut, under / len(scores), int(wrong[under]), under)


def least_inputs(risk: float, confidence: float) -> int:
    """How many inputs, all answered right, prove a risk: with n of them min(n, 33) thresholds share the doubt.

    >>> least_inputs(0.1, 0.95), least_inputs(0.5, 0.95)
    (62, 8)
    """
    few = (n for n in range(1, TRIED + 1) if n * np.log1p(-risk) <= np.log((1 - confidence) / n))
    many = -np.log((1 - confidence) / (TRIED + 1)) / max(risk, TINIEST, -np.log1p(-risk))
    return next(few, int(np.ceil(many)))


def _tops(scores: Tensor, room: Tensor) -> Tensor:
    """Which of sorted scores `(N,)` to accept what is below of: some by rank, or the next lower one above a gap."""
    ranks = np.unique(np.linspace(0, len(scores) - 1, TRIED + 1).round().astype(np.int64))
    gaps = np.concatenate([[True], (scores.diff() > 2 * room[1:]).cpu().numpy()])
    last = np.maximum.accumulate(
        np.where(gaps, np.arange(len(scores)), 0)
    )  # the nearest gap at or below each
    return torch.from_numpy(np.maximum(last[ranks[1:]], ranks[:-1])).to(scores.device)
