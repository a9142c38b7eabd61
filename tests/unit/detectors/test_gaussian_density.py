"""A density of one Gaussian per class against scipy's."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import nescio
from feature_data import F, drawn, fitted, head, in_batches, others, precise, separation
from nescio.data import Samples
from nescio.detectors import GaussianDensity, feature_detector


def expected(data, x):
    """−log density by scipy, in float64."""
    rows, labels = data.inputs.double().numpy(), data.labels.numpy()
    parts = []
    for label in np.unique(labels):
        own = rows[labels == label]
        spread = multivariate_normal(own.mean(0), np.cov(own.T, bias=True))
        parts.append(np.log(len(own) / len(rows)) + spread.logpdf(x.double().numpy()))
    return torch.from_numpy(-logsumexp(parts, axis=0))


def test_agrees_with_scipy(seed):
    data, x = drawn(seed), torch.cat([drawn(seed).inputs, others(seed)])
    data.inputs[data.labels == 1] *= 1.5  # a covariance of its own
    found = precise(GaussianDensity, data, floor=0).score(x.double())
    torch.testing.assert_close(found, expected(data, x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        fitted(GaussianDensity, data, floor=0).score(x), expected(data, x), rtol=1e-3, atol=1e-4
    )


def test_a_class_without_inputs_is_left_out_and_one_class_is_enough(seed):
    data = drawn(seed)
    for kept in (data.labels != 1, data.labels == 2):
        some = data.select(kept.nonzero().flatten())
        found = precise(GaussianDensity, some, floor=0).score(others(seed).double())
        torch.testing.assert_close(found, expected(some, others(seed)), rtol=1e-9, atol=1e-9)


def test_a_class_of_one_input_is_a_ball(seed):
    """Its variance is the floor: a tenth of the mean one within classes."""
    data, alone = drawn(seed), torch.full((1, F), 100.0)
    both = Samples(
        torch.cat([data.inputs[data.labels != 1], alone]),
        torch.cat([data.labels[data.labels != 1], torch.tensor([1])]),
    )
    detector = fitted(GaussianDensity, both)
    rows, labels = both.inputs.double(), both.labels
    scatter = sum(
        ((rows[labels == label] - rows[labels == label].mean(0)) ** 2).sum() for label in range(3)
    )
    ball = multivariate_normal(alone[0].numpy(), float(0.1 * scatter / len(rows) / F) * np.eye(F))
    x = alone + torch.randn(20, F)
    torch.testing.assert_close(
        detector.score(x),
        torch.from_numpy(-ball.logpdf(x.double().numpy()) + np.log(len(rows))),
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("floor", [0, 0.1])
def test_a_unit_that_known_inputs_never_turn_on_is_evidence(seed, floor):
    data = drawn(seed)
    data.inputs[:, 2] = 0
    detector = fitted(GaussianDensity, data, floor=floor)
    x = data.inputs[:50].clone()
    before = detector.score(x)
    x[:, 2] = 20.0
    assert before.isfinite().all()
    assert (detector.score(x) > before + 1).all()


def test_neither_batches_nor_order_matter(seed):
    data, x = drawn(seed), others(seed)
    once = fitted(GaussianDensity, data).score(x)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    for other in (in_batches(data, 7), data.select(order)):
        torch.testing.assert_close(
            fitted(GaussianDensity, other).score(x), once, rtol=1e-5, atol=1e-5
        )


def test_refuses_what_would_not_fit_into_memory(seed, monkeypatch):
    monkeypatch.setattr(feature_detector, "MAX_COVARIANCES", 3 * F * F - 1)
    with pytest.raises(nescio.NescioError, match=r"3 covariances of 6 features .* Mahalanobis"):
        GaussianDensity(head()).fit(drawn(seed))


def test_tells_digits_it_has_never_seen(seed):
    assert separation(GaussianDensity, seed) > 0.96  # 0.978 to 0.987 with seeds 0 to 3
