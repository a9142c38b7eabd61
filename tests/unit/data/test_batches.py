"""Data of any kind as batches, whole or in two random halves."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from nescio.data import Samples, batches, length
from nescio.data.batches import halves
from nescio.errors import NescioError

X, Y = torch.arange(21.0).view(7, 3), torch.arange(7)


class Items(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(X)


MAKES: dict[str, tuple[Any, int | None, bool]] = {  # data, length, labelled
    "tensor": (X, 7, False),
    "array": (X.numpy(), 7, False),
    "read-only array": (np.frombuffer(X.numpy().tobytes(), np.float32).reshape(7, 3), 7, False),
    "big-endian array": (X.numpy().astype(">f4"), 7, False),
    "strided array": (np.repeat(X.numpy(), 2, 1)[:, ::2], 7, False),
    "pair": ((X, Y), 7, True),
    "pair of arrays": ((X.numpy(), Y.numpy()), 7, True),
    "samples": (Samples(X, Y), 7, True),
    "dataset": (TensorDataset(X, Y), 7, True),
    "dataset without labels": (TensorDataset(X), 7, False),
    "dataset of tensors": (Items(list(X)), 7, False),
    "dataset of arrays and ints": (
        Items([(x.numpy(), int(y)) for x, y in zip(X, Y, strict=True)]),
        7,
        True,
    ),
    "iterable dataset": (Stream(), None, False),
    "loader": (DataLoader(TensorDataset(X, Y), 3), 7, True),
    "list of batches": ([X[:4], X[4:]], 7, False),
    "list of pairs": ([(X[:4], Y[:4]), (X[4:], Y[4:])], 7, True),
}


@pytest.mark.parametrize("make", list(MAKES))
def test_data_of_any_make_gives_the_same_inputs(make: str) -> None:
    data, count, labelled = MAKES[make]
    assert length(data) == count
    given = list(batches(data, 3))
    assert torch.equal(torch.cat([x for x, _ in given]), X)
    if labelled:
        assert torch.equal(torch.cat([y for _, y in given if y is not None]), Y)
    else:
        assert all(y is None for _, y in given)


def test_a_generator_is_read_once_and_its_length_is_not_known() -> None:
    stream = (x for x in (X[:5], X[5:]))
    assert length(stream) is None
    assert [len(x) for x, _ in batches(stream, 100)] == [5, 2]


def test_batches_are_of_the_asked_size() -> None:
    assert [len(x) for x, _ in batches(X, 3)] == [3, 3, 1]
    assert [len(x) for x, _ in batches(Samples(X, Y), 5)] == [5, 2]
    assert length(DataLoader(TensorDataset(X), 3, drop_last=True)) == 6


def test_reading_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    for make in ("dataset", "samples", "tensor"):
        list(batches(MAKES[make][0], 2))
    assert torch.equal(before, torch.get_rng_state())


def test_an_arrays_memory_is_shared_where_it_can_be() -> None:
    array = np.zeros((2, 2), dtype=np.float32)
    (x, _), *_ = batches(array, 5)
    array[0, 0] = 7
    assert x[0, 0] == 7


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("inputs.csv", "str"),
        (5, "int"),
        ({"x": X}, "dict"),
        ([1.0, 2.0], "a batch must be .* got a float"),
        ([{"x": X}], "a batch must be .* got a dict"),
        ([(X, Y, Y)], "a batch must be .* got a tuple of 3"),
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[None]]), "object"),
        (X[0], r"x\[None\]"),
        (X[:0], "empty"),
        ([], "empty"),
        ((X, Y[:3]), "for 7 inputs"),
        (
            (X, torch.nn.functional.one_hot(Y)),
            r"labels must have shape \(N,\), got \(7, 7\) for 7",
        ),
        ((X.numpy(), X.numpy()), r"got \(7, 3\)"),
        ((Y, X), r"x\[None\]"),
        (np.array(3.0), r"x\[None\]"),
        ([(X, Y[:3])], "a batch of 7 inputs"),
        (Items([torch.zeros(2), torch.zeros(3)]), "do not make a batch"),
    ],
)
def test_anything_else_is_named_and_refused(data: Any, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        list(batches(data, 4))


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", None, True, np.float32(2), [2]])
def test_what_is_no_batch_size_is_refused_at_once(size: Any) -> None:
    with pytest.raises(NescioError, match="batch_size must be"):
        batches(X, size)


@pytest.mark.parametrize("size", [np.int64(3), np.uint8(3), torch.tensor(3)])
@pytest.mark.parametrize("make", ["tensor", "samples", "dataset"])
def test_whole_numbers_of_any_make_are_batch_sizes(size: Any, make: str) -> None:
    assert [len(x) for x, _ in batches(MAKES[make][0], size)] == [3, 3, 1]


def test_a_pair_of_arrays_is_never_two_batches() -> None:
    one_hot = torch.nn.functional.one_hot(Y)
    assert length((X, one_hot)) == 7
    assert length([X, X]) == 14
    assert len(list(batches([X, X], 3))) == 2
    assert length(np.array(3.0)) is None


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
