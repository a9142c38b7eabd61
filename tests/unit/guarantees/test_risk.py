"""A threshold that bounds the error rate: what it promises, by simulation against a known truth."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from nescio.errors import NescioError
from nescio.guarantees.risk import CANDIDATES, control_risk, min_accepted


def drawn(count, seed, tied=False):
    """Scores s in [0, 1], wrong with probability s² / 2; the risk under a threshold t is t² / 6."""
    generator = torch.Generator().manual_seed(seed)
    scores, chance = torch.rand(2, count, generator=generator, dtype=torch.float64)
    correct = chance > scores.square() / 2
    return (scores * 10).ceil() / 10 if tied else scores, correct


@pytest.mark.parametrize("tied", [False, True])
def test_the_risk_is_bounded_as_often_as_promised(tied, seed):
    """Of 400 data sets at most a tenth may give a threshold whose true risk is above the bound."""
    failures, coverage = 0, []
    for number in range(400):
        controlled = control_risk(
            *drawn(4000, 1000 * seed + number, tied), risk=0.05, confidence_level=0.9
        )
        cut = min(max(controlled.threshold, 0.0), 1.0)
        cut = math.floor(cut * 10 + 1e-9) / 10 if tied else cut
        failures += cut**2 / 6 > 0.05 * (1 + 1e-9)
        coverage.append(controlled.coverage)
    assert failures <= binom.ppf(1 - 1e-6, 400, 0.1)
    # the best there is is √0.3 = 0.548; a bound that never dared would be no use
    assert 0.3 < np.mean(coverage) < 0.6


def test_it_says_what_it_did(seed):
    scores, correct = drawn(2000, seed)
    controlled = control_risk(scores, correct, risk=0.05, confidence_level=0.9)
    under = scores <= controlled.threshold
    assert (controlled.accepted, controlled.errors) == (
        int(under.sum()),
        int((under & ~correct).sum()),
    )
    assert controlled.coverage == controlled.accepted / 2000
    doubt = 0.1 / (CANDIDATES + 1)
    assert binom.cdf(controlled.errors, controlled.accepted, 0.05) <= doubt


def test_all_inputs_are_accepted_if_all_are_right():
    scores = torch.rand(500, dtype=torch.float64)
    controlled = control_risk(
        scores, torch.ones(500, dtype=torch.bool), risk=0.05, confidence_level=0.95
    )
    assert (controlled.coverage, controlled.errors) == (1.0, 0)
    assert controlled.threshold > 1e300


def test_it_says_when_there_is_none(seed):
    scores, correct = drawn(50, seed)
    least = math.ceil(math.log(0.05 / (CANDIDATES + 1)) / math.log(0.99))
    with pytest.raises(NescioError, match=f"no threshold .* at least {least} accepted inputs"):
        control_risk(scores, correct, risk=0.01, confidence_level=0.95)
    with pytest.raises(NescioError, match="no threshold"):
        control_risk(scores, torch.zeros(50, dtype=torch.bool), risk=0.5, confidence_level=0.95)


@pytest.mark.parametrize("risk", [0.02, 0.1, 0.5, 0.9])
def test_as_many_inputs_as_an_error_asks_for_are_enough_and_one_less_is_not(risk):
    least = min_accepted(risk, 0.95)
    for n in range(1, least):
        with pytest.raises(NescioError, match=f"at least {least} accepted inputs without an error"):
            control_risk(torch.arange(float(n)), torch.ones(n, dtype=torch.bool), risk, 0.95)
    controlled = control_risk(
        torch.arange(float(least)), torch.ones(least, dtype=torch.bool), risk, 0.95
    )
    assert controlled.accepted == least
