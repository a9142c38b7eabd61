"""Data that are given twice are known for the same, whatever they are wrapped in."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset

from nescio.data import Samples
from nescio.data.batches import halves
from nescio.data.overlap import check_disjoint, same_inputs
from nescio.errors import NescioError

X, Y = torch.arange(12.0).reshape(6, 2), torch.arange(6) % 3
WAYS = {
    "tensor": lambda x, y: x.clone(),
    "array": lambda x, y: x.numpy().copy(),
    "pair": lambda x, y: (x.clone(), y),
    "samples": lambda x, y: Samples(x.clone(), y),
    "dataset": lambda x, y: TensorDataset(x.clone(), y),
    "loader": lambda x, y: DataLoader(TensorDataset(x.clone(), y), 2),
    "loader of samples": lambda x, y: DataLoader(Samples(x.clone(), y), 2),
}


@pytest.mark.parametrize("one", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("other", WAYS.values(), ids=WAYS)
def test_inputs_are_compared_by_value(one, other):
    assert same_inputs(one(X, Y), other(X, Y))
    assert not same_inputs(one(X, Y), other(X + 1, Y))
    changed = X.clone()
    changed[5, 1] = -1
    assert not same_inputs(one(X, Y), other(changed, Y))
    assert not same_inputs(one(X[:5], Y[:5]), other(X, Y))


def test_others_are_the_same_only_if_they_are_one_object():
    listed = [X[:3], X[3:]]
    assert same_inputs(listed, listed)
    assert not same_inputs(listed, [X[:3], X[3:]])
    loader = DataLoader(torch.utils.data.Subset(TensorDataset(X, Y), [0, 1]))
    assert same_inputs(loader, DataLoader(loader.dataset, 2, shuffle=True))
    assert not same_inputs(None, None)
    first, second = halves(X)
    assert not same_inputs(first, second)


def test_types_count():
    assert not same_inputs(X, X.double())
    assert same_inputs(X.numpy(), np.asarray(X))


@pytest.fixture
def rows(seed):
    return torch.randn(600, 20, generator=torch.Generator().manual_seed(seed))


LEAKS = {
    "in another order": lambda x: (x, x.flip(0)),
    "in another type": lambda x: (x, x.double()),
    "a part": lambda x: (x[100:250], x),
    "a subset": lambda x: (Subset(TensorDataset(x), range(100)), TensorDataset(x)),
    "of a subset": lambda x: (
        x[100:250],
        DataLoader(Subset(TensorDataset(x), list(range(400))), 32),
    ),
    "but for few": lambda x: (torch.cat([x[:80], x[:20] + 1]), x),
}


@pytest.mark.parametrize("given", LEAKS.values(), ids=LEAKS)
def test_what_is_mostly_part_of_the_other_is_refused(given, rows):
    with pytest.raises(
        NescioError, match="of the calibration inputs are among the training inputs"
    ):
        check_disjoint(*given(rows))


def test_other_inputs_of_the_same_kind_are_not(rows):
    check_disjoint(rows[:300], rows[300:])
    halved = TensorDataset(rows)
    check_disjoint(Subset(halved, range(300)), Subset(halved, range(300, 600)))
    check_disjoint(rows[0], rows)  # of another shape, which others have an error for
    check_disjoint(rows[:0], rows)


def test_a_loader_takes_what_its_sampler_chooses(rows):
    data = TensorDataset(rows)
    first, second = (
        DataLoader(data, 64, sampler=SubsetRandomSampler(part))
        for part in (range(300), range(300, 600))
    )
    check_disjoint(first, second)
    assert same_inputs(first, first)
    assert same_inputs(DataLoader(data, 64, shuffle=True), DataLoader(data, 32))


def test_rows_of_a_table_may_repeat(seed):
    """Of 64 kinds of rows nearly each is in both halves, often twice; of 100, each once in one."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(0, 2, (1000, 6), generator=generator).float()
    check_disjoint(table[:300], table[300:])
    grid = torch.cartesian_prod(torch.arange(10.0), torch.arange(10.0))
    check_disjoint(grid[torch.randint(0, 100, (200,), generator=generator)], grid)


def test_few_levels_do_not_hide_a_leak(seed):
    """Many rows are alike in some values then, but not in all."""
    generator = torch.Generator().manual_seed(seed)
    bits = (torch.rand(3000, 100, generator=generator) < 0.5).float()
    levels = torch.nn.functional.one_hot(
        torch.randint(0, 10, (5000, 8), generator=generator), 10
    ).flatten(1)
    for rows in (bits, levels.float(), levels):
        check_disjoint(rows[: len(rows) // 2], rows[len(rows) // 2 :])
        with pytest.raises(NescioError, match="100 % of the calibration inputs"):
            check_disjoint(rows[:500], rows)


FEW = {
    "0 and 1": lambda draw: draw(2, 64).float(),
    "−1 and 1": lambda draw: 2.0 * draw(2, 64) - 1,
    "powers of two": lambda draw: 2.0 ** draw(8, 32),
    "truths": lambda draw: draw(2, 40).bool(),
    "large whole numbers": lambda draw: draw(1000, 4) + 10**12,
    "small doubles": lambda draw: 1e-60 * draw(10**6, 4).double(),
}


@pytest.mark.parametrize("make", FEW.values(), ids=FEW)
def test_values_of_any_kind_are_compared(make, seed):
    """Of many rows that differ in few bits none is missed; a third in both sets is no leak."""
    generator = torch.Generator().manual_seed(seed)
    rows = make(
        lambda levels, width: torch.randint(0, levels, (60_000, width), generator=generator)
    )
    train, known = rows[:50_000], rows[torch.randperm(50_000, generator=generator)[:2000]]
    with pytest.raises(NescioError, match=r"100 % of the calibration inputs"):
        check_disjoint(known, train)
    check_disjoint(torch.cat([known[:1000], rows[50_000:52_000]]), train)


def test_whole_numbers_are_compared_in_a_type_that_holds_both():
    rows = torch.arange(256).reshape(64, 4)
    check_disjoint(rows.byte(), rows + 256)


def test_rows_that_agree_in_what_varies_most_are_not_the_same(seed):
    generator = torch.Generator().manual_seed(seed)
    person = 100 * torch.randn(300, 16, generator=generator)
    first, second = (
        torch.cat([person, torch.randn(300, 50, generator=generator)], 1) for _ in range(2)
    )
    check_disjoint(first, second)


def test_gaps_and_sets_of_one_are_compared(rows):
    holed = rows.clone()
    holed[:40] = torch.nan
    check_disjoint(holed[:300], holed[300:])
    check_disjoint(rows[:1], rows[1:2])
    with pytest.raises(NescioError, match="100 %"):
        check_disjoint(rows[5:6], rows)
