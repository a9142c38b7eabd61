"""The promise of a conformal threshold, by simulation and in closed form."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from nescio.errors import NescioError
from nescio.guarantees.conformal import (
    Calibrated,
    conformal_threshold,
    min_calibration_inputs,
    p_values,
)

N, ACCEPT = 99, 0.9


@pytest.fixture
def draws(seed):
    """Scores of many calibration sets, and one new input each; rounded, so that there are ties."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(20_000, N + 1, generator=generator, dtype=torch.float64)
    return scores[:, :N], scores[:, N]


@pytest.mark.parametrize("rounded", [False, True])
def test_no_more_known_inputs_are_rejected_than_promised(draws, rounded):
    calibration, new = ((10 * part).round() if rounded else part for part in draws)
    cuts = torch.tensor([conformal_threshold(row, ACCEPT) for row in calibration[:5000]])
    accepted = int((new[:5000] <= cuts).sum())
    # without ties exactly 0.9 = 90 / 100: a bound at 1e-6 on either side tests the rank itself
    assert accepted >= binom.ppf(1e-6, 5000, ACCEPT)
    if not rounded:
        assert accepted <= binom.ppf(1 - 1e-6, 5000, ACCEPT)


def test_p_values_are_uniform_for_known_inputs(draws):
    calibration, new = draws
    p = torch.cat(
        [p_values(one[None], row.sort().values) for row, one in zip(calibration, new, strict=True)]
    )
    for alpha in (0.01, 0.05, 0.1, 0.5, 0.9):
        share = int((p <= alpha + 1e-12).sum())
        assert binom.ppf(1e-6, 20_000, alpha) <= share <= binom.ppf(1 - 1e-6, 20_000, alpha)


def test_threshold_and_p_value_agree(draws):
    """What has a p-value of at most 1 − accept lies above the threshold, and nothing else does."""
    calibration, new = draws
    row = calibration[0].sort().values
    p = p_values(new, row)
    assert torch.equal(new > conformal_threshold(row, ACCEPT), p <= 1 - ACCEPT + 1e-12)


def test_how_many_inputs_a_promise_takes():
    for accept in (1e-9, 0.3, 0.5, 0.9, 0.95, 0.99, 0.999, 1 - 1e-6):
        least = min_calibration_inputs(accept)
        assert conformal_threshold(torch.arange(least).double(), accept) == least - 1 or least == 1
        if least > 1:
            with pytest.raises(NescioError, match=f"at least {least}$"):
                conformal_threshold(torch.arange(least - 1).double(), accept)
    assert min_calibration_inputs(0.95) == 19
    with pytest.raises(NescioError, match="guarantees accept=1"):
        conformal_threshold(torch.arange(10.0), 1)


def test_p_values_by_hand():
    p = p_values(torch.tensor([-1.0, 2.0, 2.5, 9.0]), torch.tensor([1.0, 2.0, 2.0, 3.0]).double())
    np.testing.assert_allclose(p, [1, 4 / 5, 2 / 5, 1 / 5])
    assert not math.isnan(p.sum())


def test_thresholds_and_p_values_per_class():
    scores = torch.tensor([1.0, 2.0, 3.0, 4.0]).double()
    one = Calibrated(torch.tensor(3.0).double(), scores, torch.empty(0).long())
    predicted = torch.tensor([0, 1, 1])
    new = torch.tensor([2.5, 2.5, 9.0]).double()
    assert one.thresholds(predicted, 2).tolist() == [3.0, 3.0, 3.0]
    assert torch.equal(one.p_values(new, predicted), p_values(new, scores))
    each = Calibrated(torch.tensor([2.0, 4.0]).double(), scores, torch.tensor([0, 0, 1, 1]))
    assert each.thresholds(predicted, 2).tolist() == [2.0, 4.0, 4.0]
    np.testing.assert_allclose(each.p_values(new, predicted), [1 / 3, 1, 1 / 3])
    with pytest.raises(NescioError, match="2 thresholds for a model of 3 classes"):
        each.thresholds(predicted, 3)
