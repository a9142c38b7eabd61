"""A threshold under which answers are wrong no more often than allowed, with confidence (Geifman & El-Yaniv 2017)."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from nescio.errors import NescioError

TRIED = 32  # thresholds that are tried, each with its share of the doubt


@dataclass(frozen=True)
class Controlled:
    """A threshold, and what it did on the data it was found by."""

    threshold: float
    coverage: float  # share of the inputs that it accepts
    errors: int  # wrong answers among them
    accepted: int


def controlling(scores: Tensor, right: Tensor, risk: float, confidence: float) -> Controlled:
    """The threshold with most coverage whose error rate among accepted inputs is at most `risk`, with confidence.

    Tried are 32 of the scores `(N,)`, evenly spread in rank, and no threshold at all. Given one of the scores, those
    below it are independent of it and of each other, so that the number of wrong ones is binomial: too few of them to
    come from a higher risk, at a 33rd of the doubt, prove it. All thresholds accept what is *below* one of the scores.

    Args:
        scores: of labelled held-out inputs.
        right: `(N,)`, which of their answers are right.
        risk: the error rate to allow, in (0, 1).
        confidence: with which probability over the choice of such data it must hold, in (0, 1).
    """
    scores, order = scores.sort()
    wrong = (~right[order]).long().cumsum(0)
    ranks = torch.from_numpy(np.unique(np.linspace(0, len(scores) - 1, TRIED + 1)[1:].round().astype(np.int64)))
    cuts = torch.cat([scores[ranks], scores.new_full((1,), torch.inf)])
    accepted = torch.searchsorted(scores, cuts, side="left")  # strictly below: ties with the cut do not count
    errors = torch.where(accepted > 0, wrong[accepted.clamp(min=1) - 1], 0)
    doubt = (1 - confidence) / len(cuts)
    proved = torch.from_numpy(binom.cdf(errors.numpy(), accepted.numpy(), risk) <= doubt) & (accepted > 0)
    if not proved.any():
        least = int(np.ceil(np.log(doubt) / np.log1p(-risk)))
        raise NescioError(f"no threshold keeps the error rate at or below {risk:g} with confidence {confidence:g} on "
                          f"these {len(scores)} inputs, {int(wrong[-1])} of which are answered wrongly; it takes at "
                          f"least {least} accepted inputs without an error, or a larger risk")  # fmt: skip
    best = int(proved.nonzero().max())
    cut = float(np.nextafter(float(cuts[best]), -np.inf))  # a detector accepts what is at its threshold, too
    return Controlled(cut, int(accepted[best]) / len(scores), int(errors[best]), int(accepted[best]))
