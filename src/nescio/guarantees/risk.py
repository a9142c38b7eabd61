"""A threshold whose error rate is bounded, at a confidence level (Geifman & El-Yaniv 2017)."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from nescio.errors import NescioError
from nescio.guarantees.rounding import slack

CANDIDATES = 32  # thresholds to try, besides none at all
TINIEST = 1e-300  # a smaller risk takes more inputs than there are numbers


@dataclass(frozen=True)
class Controlled:
    """A threshold, and what it did on the calibration data."""

    threshold: float
    coverage: float  # fraction of the inputs that it accepts
    errors: int  # wrong answers among them
    accepted: int


def control_risk(
    scores: Tensor, correct: Tensor, risk: float, confidence_level: float, noise: float = 0.0
) -> Controlled:
    """Return the threshold of most coverage whose error rate is at most `risk`.

    Candidates are 32 of the scores `(N,)`, evenly spread in rank, and no threshold at all. Given
    one of the scores, those below it are independent of it and of each other, so that the number of
    wrong ones is binomial: too few to come from a higher risk, at a 33rd of the doubt, prove it.
    Thresholds accept what is *below* a score by more than rounding: all twice the `slack` below it
    are accepted; of those nearer only wrong answers count. So that there are none, each candidate
    moves down, at most to the next, to a wider gap; that looks at no score below the gap, and
    leaves those independent.

    Args:
        scores: of labelled calibration inputs.
        correct: `(N,)`, which of their answers are correct.
        risk: the error rate to allow, in (0, 1).
        confidence_level: probability, over such data, with which the bound must hold, in (0, 1).
        noise: how much scores changed between batches; see `rounding.noise`.
    """
    scores, order = scores.double().sort()
    # wrong answers among the first k
    wrong = torch.nn.functional.pad((~correct[order]).long().cumsum(0), (1, 0))
    room = slack(scores, noise)
    tops = _candidates(scores, room)
    thresholds = torch.cat([scores[tops] - room[tops], scores.new_full((1,), torch.inf)])
    everything = tops.new_full((1,), len(scores))
    # strictly below: ties do not count
    sure, doubtful = (
        torch.cat([torch.searchsorted(scores, edge, side="left"), everything])
        for edge in (scores[tops] - 2 * room[tops], scores[tops])
    )
    errors = wrong[doubtful]
    accepted = sure + errors - wrong[sure]  # of those in between only wrong answers
    doubt = (1 - confidence_level) / len(thresholds)
    chance = torch.from_numpy(binom.cdf(errors.cpu().numpy(), accepted.cpu().numpy(), risk))
    proved = (chance <= doubt) & (accepted > 0).cpu()
    if not proved.any():
        raise NescioError(
            f"no threshold keeps the error rate at or below {risk:g} at confidence level "
            f"{confidence_level:g} on these {len(scores)} inputs, {int(wrong[-1])} of which are "
            f"answered wrongly; it takes at least {min_accepted(risk, confidence_level)} accepted "
            "inputs without an error, or a larger risk"
        )
    best = int(proved.nonzero().max())
    # a detector accepts what is at its threshold, too
    threshold = float(np.nextafter(float(thresholds[best]), -np.inf))
    under = int(sure[best])
    return Controlled(threshold, under / len(scores), int(wrong[under]), under)


def min_accepted(risk: float, confidence_level: float) -> int:
    """Return how many inputs, all answered correctly, prove a risk; up to 33 share the doubt.

    >>> min_accepted(0.1, 0.95), min_accepted(0.5, 0.95)
    (62, 8)
    """
    doubt = 1 - confidence_level
    few = (n for n in range(1, CANDIDATES + 1) if n * np.log1p(-risk) <= np.log(doubt / n))
    many = -np.log(doubt / (CANDIDATES + 1)) / max(risk, TINIEST, -np.log1p(-risk))
    return next(few, int(np.ceil(many)))


def _candidates(scores: Tensor, room: Tensor) -> Tensor:
    """Return which of sorted scores `(N,)` to try: some by rank, or the next lower above a gap."""
    ranks = np.unique(np.linspace(0, len(scores) - 1, CANDIDATES + 1).round().astype(np.int64))
    gaps = np.concatenate([[True], (scores.diff() > 2 * room[1:]).cpu().numpy()])
    nearest_gap = np.maximum.accumulate(np.where(gaps, np.arange(len(scores)), 0))  # at or below
    return torch.from_numpy(np.maximum(nearest_gap[ranks[1:]], ranks[:-1])).to(scores.device)
