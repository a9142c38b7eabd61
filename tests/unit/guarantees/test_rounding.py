"""Rounding: scores that tie up to rounding errors are treated alike, and guarantees hold."""

import pytest
import torch
from scipy.stats import binom

from nescio.guarantees.conformal import p_values, surprise
from nescio.guarantees.risk import control_risk
from nescio.guarantees.rounding import noise, rounded_up, slack


@pytest.mark.parametrize("jitter", [0.0, 1e-7])
def test_the_risk_is_bounded_as_often_as_promised_of_ties_that_rounding_moves(jitter, seed):
    """Scores 0.1 … 1, wrong with probability s² / 2; new ones are rounded differently."""
    generator = torch.Generator().manual_seed(seed)
    levels = torch.arange(1, 11, dtype=torch.float64) / 10
    failures, coverage = 0, []
    for _ in range(400):
        scores, chance, moved = torch.rand(3, 4000, generator=generator, dtype=torch.float64)
        scores = (10 * scores).ceil() / 10
        correct = chance > scores.square() / 2
        controlled = control_risk(
            scores + jitter * (2 * moved - 1), correct, risk=0.05, confidence_level=0.9
        )
        for new in (levels - jitter, levels + jitter):
            taken = levels[new <= controlled.threshold]
            failures += bool((taken.square() / 2).mean() > 0.05 * (1 + 1e-9)) / 2
        coverage.append(controlled.coverage)
    assert failures <= binom.ppf(1 - 1e-6, 400, 0.1)
    assert sum(coverage) / 400 > 0.3  # of the most that can be, 0.4, where the risk is 0.0375


@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_many_scores_without_ties_lose_next_to_nothing(offset):
    """Of 60 000 normal ones: shares accepted, p-values, and the coverage at a bounded risk."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(60_000, generator=generator, dtype=torch.float64)
    correct = torch.rand(60_000, generator=generator) > torch.special.ndtr(scores - 1) / 2
    scores = scores + offset
    calibration = rounded_up(scores).sort().values
    cut = scores.quantile(0.95)
    assert abs(float(p_values(cut[None], calibration)) - 0.05) < 2e-4
    controlled = control_risk(scores, correct, risk=0.05, confidence_level=0.95)
    under = scores <= controlled.threshold
    assert (under & ~correct).sum() / under.sum() <= 0.05
    running = (~correct[scores.argsort()]).double().cumsum(0) / torch.arange(1, 60_001)
    best = float((running <= 0.05).nonzero().max()) / 60_000
    assert best - 0.07 < controlled.coverage < best  # ranks that are tried lie 0.03 apart


def test_slack_by_hand():
    scores = torch.tensor([-2.0, 0.0, 100.0])
    room = 2e-5 * (90 + 1.8)  # of what lies between the quantiles 0.05 and 0.95
    torch.testing.assert_close(slack(scores), torch.full((3,), room, dtype=torch.float64))
    far = torch.tensor([-1e6, -1e6 + 1], dtype=torch.float64)
    torch.testing.assert_close(slack(far), -1e-6 * far)
    torch.testing.assert_close(slack(scores, noise=1.0), torch.full((3,), 4.0, dtype=torch.float64))
    torch.testing.assert_close(rounded_up(scores), scores.double() + room)
    assert (rounded_up(torch.randn(1000).sort().values).diff() >= 0).all()


def test_noise_is_that_of_scores_which_are_no_outliers():
    scores = torch.arange(101.0)  # with a spread of 90
    few = torch.tensor([3.0, 90.0, 1e6])
    assert noise(torch.tensor([1e-6, 2e-6, 0.1]), few, scores) == pytest.approx(2e-6)
    assert noise(torch.tensor([0.1]), few[2:], scores) == 0


def test_one_outlier_does_not_cost_a_bounded_risk():
    torch.manual_seed(0)
    scores = torch.randn(2000, dtype=torch.float64)
    correct = scores < 1
    before = control_risk(scores, correct, risk=0.05, confidence_level=0.95).coverage
    scores[scores.argmax()] = 1e9
    assert control_risk(
        scores, correct, risk=0.05, confidence_level=0.95
    ).coverage == pytest.approx(before, abs=0.04)


def test_surprise_is_the_same_within_rounding_of_calibration_scores():
    tied = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).repeat_interleave(20)
    jitter = 1e-7 * torch.linspace(-1, 1, 20, dtype=torch.float64).repeat(3)
    calibration = rounded_up(tied + jitter)
    near = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    exact = surprise(near, tied)
    for move in (-1e-7, 0.0, 1e-7):
        assert torch.equal(surprise(near + move, calibration), exact)
