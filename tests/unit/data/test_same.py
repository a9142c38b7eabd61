"""Data that are given twice are known for the same, whatever they are wrapped in."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nescio.data import Samples
from nescio.data.halves import halves
from nescio.data.same import same

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
    assert same(one(X, Y), other(X, Y))
    assert not same(one(X, Y), other(X + 1, Y))
    changed = X.clone()
    changed[5, 1] = -1
    assert not same(one(X, Y), other(changed, Y))
    assert not same(one(X[:5], Y[:5]), other(X, Y))


def test_others_are_the_same_only_if_they_are_one_object():
    listed = [X[:3], X[3:]]
    assert same(listed, listed)
    assert not same(listed, [X[:3], X[3:]])
    loader = DataLoader(torch.utils.data.Subset(TensorDataset(X, Y), [0, 1]))
    assert same(loader, DataLoader(loader.dataset, 2, shuffle=True))
    assert not same(None, None)
    first, second = halves(X)
    assert not same(first, second)


def test_types_count():
    assert not same(X, X.double())
    assert same(X.numpy(), np.asarray(X))
