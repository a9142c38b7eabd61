"""Rows times a whitening factor have unit covariance, but for directions that vary by less than the least."""

import math

import torch

from nescio.detectors.whitening import least_variance, whitening


def test_whitens(seed):
    rows = torch.randn(500, 5, generator=torch.Generator().manual_seed(seed)).double().cumsum(1)
    covariance = rows.T.cov()
    factor, log_volume = whitening(covariance, least_variance(covariance, 0.0))
    torch.testing.assert_close((rows @ factor).T.cov(), torch.eye(5).double())
    torch.testing.assert_close(log_volume, -covariance.logdet() / 2)


def test_what_hardly_varies_counts_with_the_least_variance():
    covariance = torch.diag(torch.tensor([4.0, 1e-9, 0.0, 1.0])).double()
    least = least_variance(covariance, 0.1)
    assert math.isclose(least, 0.125)
    factor, log_volume = whitening(covariance, least)
    torch.testing.assert_close(factor @ factor.T, torch.diag(torch.tensor([0.25, 8.0, 8.0, 1.0])).double())
    torch.testing.assert_close(log_volume, torch.tensor(-0.5 * math.log(4 * 0.125**2)).double())


def test_there_is_a_least_variance_of_anything():
    assert 0 < least_variance(torch.diag(torch.tensor([4.0, 0.0])), 0.0) < 1e-6
    assert least_variance(torch.zeros(3, 3), 0.1) == 1.0
