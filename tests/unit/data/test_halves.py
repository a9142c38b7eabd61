"""Two halves of data: every input in one of them, by chance, whatever the batches; and refused if the order changes."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nescio.data.batches import halves
from nescio.errors import NescioError


def values(half):
    return torch.cat([x for x, _ in half]).flatten().tolist()


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 1537])
def test_every_input_is_in_one_half(count):
    first, second = halves(torch.arange(float(count))[:, None])
    one, two = (
        [value for x, _ in half for value in x.flatten().tolist()] for half in (first, second)
    )
    assert sorted(one + two) == list(range(count))
    assert abs(len(one) - len(two)) <= 1


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_is_the_same_for_any_batches(batch):
    x = torch.arange(200.0)[:, None]
    loader = DataLoader(TensorDataset(x, torch.arange(200)), batch)
    for one, other in zip(halves(x), halves(loader), strict=True):
        assert values(one) == values(other)
    for x, y in halves(loader)[1]:
        assert torch.equal(x.flatten(), y.float())


def test_an_order_that_alternates_does_not_matter():
    """Of two classes that take turns each half has about as many."""
    first, _ = halves(torch.arange(1000.0)[:, None] % 2)
    assert 200 < sum(values(first)) < 300  # of 500 coins, a standard deviation of 11


def test_other_seeds_divide_otherwise_and_a_half_can_be_read_again():
    x = torch.arange(100.0)[:, None]
    assert values(halves(x, 0)[0]) != values(halves(x, 1)[0])
    first, _ = halves(x)
    assert values(first) == values(first)


def test_data_shuffled_anew_each_time_are_refused():
    loader = DataLoader(TensorDataset(torch.arange(100.0)[:, None]), 10, shuffle=True)
    first, second = halves(loader)
    values(first)
    with pytest.raises(NescioError, match="another order"):
        values(second)


def test_data_that_can_be_read_only_once_are_refused():
    with pytest.raises(NescioError, match="read only once"):
        halves(iter([torch.ones(4, 1)]))


def test_data_of_which_only_the_rest_is_shuffled_are_refused():
    class Sly:
        def __iter__(self):
            yield torch.zeros(4, 1)
            yield torch.randperm(100)[:, None].float()

    first, second = halves(Sly())
    values(first)
    with pytest.raises(NescioError, match="another order"):
        values(second)


def test_batches_are_as_small_as_asked_for():
    assert all(len(x) <= 8 for half in halves(torch.rand(100, 1), batch_size=8) for x, _ in half)
