"""A bounded sample of a stream: all of a short one, and any row of a long one with the same chance."""

import pytest
import torch

from nescio.detectors.reservoir import Reservoir
from nescio.errors import NescioError


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
