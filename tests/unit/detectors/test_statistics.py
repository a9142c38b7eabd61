"""Moments, whitening and samples of rows that stream by."""

import math

import pytest
import torch

from nescio.detectors.statistics import (
    CACHED_ROWS,
    Moments,
    Reservoir,
    min_variance,
    squares,
    whitening,
)
from nescio.errors import NescioError


def labelled_rows(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (200,), generator=generator)
    rows, mixed = (torch.randn(count, 5, generator=generator, dtype=dtype) for count in (200, 5))
    return rows @ mixed + labels[:, None], labels


def moments_of(rows, labels, batch, each, classes=4):
    found = Moments(classes, rows.shape[1], each)
    for some, own in zip(rows.split(batch), labels.split(batch), strict=True):
        found.add(some, own)
    return found.close()


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("batch", [1, 17, 200])
def test_agrees_with_all_rows_at_once(each, batch, seed, monkeypatch):
    # so that batches wait, are merged and are divided, and there are several strips
    monkeypatch.setattr("nescio.detectors.statistics.CHUNK", 40)
    monkeypatch.setattr("nescio.detectors.statistics.MIN_STRIP", 2)
    rows, labels = labelled_rows(seed)
    found = moments_of(rows, labels, batch, each)
    assert found.count.tolist() == labels.bincount(minlength=4).tolist()
    scatter = []
    for label in range(3):
        own = rows[labels == label]
        torch.testing.assert_close(found.mean[label], own.mean(0))
        scatter.append(own.T.cov(correction=0) * len(own))
    expected = torch.stack([*scatter, torch.zeros(5, 5).double()]) if each else sum(scatter)
    torch.testing.assert_close(found.scatter, expected)
    mean, whole = found.overall
    torch.testing.assert_close(mean, rows.mean(0))
    torch.testing.assert_close(whole, rows.T.cov(correction=0) * len(rows))


def test_a_large_mean_costs_no_digits(monkeypatch):
    monkeypatch.setattr("nescio.detectors.statistics.CHUNK", 20)
    rows, labels = labelled_rows(0)
    near, far = moments_of(rows, labels, 20, False), moments_of(rows + 1e7, labels, 20, False)
    torch.testing.assert_close(far.scatter, near.scatter, rtol=1e-6, atol=1e-6)


def test_rows_that_wait_are_copies(seed):
    """A model may write its next features where the last were, or return a view of a large one."""
    rows, labels = labelled_rows(seed)
    found, room = Moments(4, 5), torch.empty(17, 5, dtype=rows.dtype)
    for some, own in zip(rows.split(17), labels.split(17), strict=True):
        found.add(room[: len(some)].copy_(some), own)
    torch.testing.assert_close(found.close().scatter, moments_of(rows, labels, 200, False).scatter)


def test_a_large_batch_keeps_the_digits_of_its_mean(seed):
    generator = torch.Generator().manual_seed(seed)
    rows, labels = 10_000 + torch.randn(120_000, 3, generator=generator), torch.arange(120_000) % 3
    found = moments_of(rows, labels, 120_000, False)
    expected = torch.stack([rows[labels == label].double().mean(0) for label in range(3)])
    torch.testing.assert_close(
        found.mean[:3], expected, rtol=1e-6, atol=0
    )  # 6e-8 is a single's last digit


def test_moments_refuse_what_is_not_finite_and_too_little():
    rows, labels = labelled_rows(0)
    rows[3, 2] = torch.inf
    with pytest.raises(NescioError, match="NaN or infinite"):
        moments_of(rows, labels, 20, False)
    with pytest.raises(NescioError, match="1 input to learn from"):
        moments_of(rows[:1], labels[:1], 1, False)


def test_whitens(seed):
    rows = torch.randn(500, 5, generator=torch.Generator().manual_seed(seed)).double().cumsum(1)
    covariance = rows.T.cov()
    factor, log_volume = whitening(covariance, min_variance(covariance, 0.0))
    torch.testing.assert_close((rows @ factor).T.cov(), torch.eye(5).double())
    torch.testing.assert_close(log_volume, -covariance.logdet() / 2)


def test_what_hardly_varies_counts_with_the_min_variance():
    covariance = torch.diag(torch.tensor([4.0, 1e-9, 0.0, 1.0])).double()
    least = min_variance(covariance, 0.1)
    assert math.isclose(least, 0.125)
    factor, log_volume = whitening(covariance, least)
    torch.testing.assert_close(
        factor @ factor.T, torch.diag(torch.tensor([0.25, 8.0, 8.0, 1.0])).double()
    )
    torch.testing.assert_close(log_volume, torch.tensor(-0.5 * math.log(4 * 0.125**2)).double())


def test_there_is_a_min_variance_of_anything():
    assert 0 < min_variance(torch.diag(torch.tensor([4.0, 0.0])), 0.0) < 1e-6
    assert min_variance(torch.zeros(3, 3), 0.1) == 1.0


def test_squares_are_those_of_float64_for_any_number_of_rows_and_however_far():
    for count in (1, CACHED_ROWS, CACHED_ROWS + 1, 3 * CACHED_ROWS):
        rows = (
            torch.randn(count, 4)
            * torch.tensor([1.0, 1e-3, 1e25, 1.0])[torch.arange(count) % 4, None]
        )
        torch.testing.assert_close(squares(rows), rows.double().square().sum(1), rtol=1e-12, atol=0)


def filled(size, rows, batch, seed=0):
    kept = Reservoir(size, seed)
    for some in rows.split(batch):
        kept.add(some)
    return kept


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_short_stream_is_kept_whole_and_in_order(batch):
    rows = torch.randn(20, 3)
    assert torch.equal(filled(20, rows, batch).rows, rows)
    assert torch.equal(filled(50, rows, batch).rows, rows)


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 7, 40])
def test_each_row_of_a_long_stream_is_kept_as_often(batch):
    times = torch.zeros(40)
    for seed in range(500):
        kept = filled(10, torch.arange(40.0)[:, None], batch, seed).rows.flatten().long()
        assert len(set(kept.tolist())) == 10
        times[kept] += 1
    # binomial(500, 1/4): a standard deviation of 9.7
    assert ((times - 125).abs() < 5 * 9.7).all()


@pytest.mark.parametrize("batch", [1, 3])
def test_of_three_rows_each_is_the_one_kept_as_often(batch):
    """Where one too many or too few to choose from shows most."""
    kept = [int(filled(1, torch.arange(3.0)[:, None], batch, seed).rows) for seed in range(600)]
    # binomial(600, 1/3): a standard deviation of 11.5
    assert all(abs(kept.count(row) - 200) < 4 * 11.5 for row in range(3))


def test_same_seed_same_rows():
    rows = torch.randn(500, 2)
    one, two, other = (filled(50, rows, 64, seed).rows for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_nothing_and_no_room():
    assert len(Reservoir(3).rows) == 0
    with pytest.raises(NescioError, match="size"):
        Reservoir(0)
