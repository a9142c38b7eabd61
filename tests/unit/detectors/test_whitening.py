"""Rows times a whitening factor have unit covariance, but for directions that vary by less than the least."""

import math

import torch

from nescio.detectors.whitening import PIECE, least_variance, squares, whitening


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
    torch.testing.assert_close(
        factor @ factor.T, torch.diag(torch.tensor([0.25, 8.0, 8.0, 1.0])).double()
    )
    torch.testing.assert_close(log_volume, torch.tensor(-0.5 * math.log(4 * 0.125**2)).double())


def test_there_is_a_least_variance_of_anything():
    assert 0 < least_variance(torch.diag(torch.tensor([4.0, 0.0])), 0.0) < 1e-6
    assert least_variance(torch.zeros(3, 3), 0.1) == 1.0


def test_squares_are_those_of_float64_for_any_number_of_rows_and_however_far():
    for count in (1, PIECE, PIECE + 1, 3 * PIECE):
        rows = (
            torch.randn(count, 4)
            * torch.tensor([1.0, 1e-3, 1e25, 1.0])[torch.arange(count) % 4, None]
        )
        torch.testing.assert_close(squares(rows), rows.double().square().sum(1), rtol=1e-12, atol=0)
