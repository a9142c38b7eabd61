"""Whether two sets of data are one and the same, however each is given."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nescio.data.arrays import tensor
from nescio.data.samples import Samples
from nescio.errors import NescioError


def same(one: Any, other: Any) -> bool:
    """Whether two sets hold the same inputs in the same order, with or without labels, or come from the same object.

    Nothing is read but what is in memory: of data sets and iterables of other makes only the object itself counts.

    >>> x = torch.arange(6.0).reshape(3, 2)
    >>> same(x, (x.numpy().copy(), np.arange(3))), same(x, x + 1), same(None, None)
    (True, False, False)
    """
    one, other = _within(one), _within(other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and torch.equal(one[:1], other[:1].to(one.device)) and torch.equal(one, other.to(one.device))
    return one is not None and one is other


def check_apart(known: Any, train: Any) -> None:
    """An error if what a threshold is to be settled on is what was learned from."""
    if same(known, train):
        raise NescioError("the detector would be calibrated on what it learned from, and new known inputs would look "
                          "odd; give other data as train=…, or none, to have `known` divided")  # fmt: skip


def _within(data: Any) -> Any:
    """The inputs, where they are in memory; else what they are read from."""
    while isinstance(data, DataLoader | tuple | TensorDataset | Samples):
        if isinstance(data, Samples):
            data = data.inputs
        elif isinstance(data, DataLoader):
            data = data.dataset
        else:
            parts = data.tensors if isinstance(data, TensorDataset) else data
            if not parts or not isinstance(parts[0], Tensor | np.ndarray):
                return data
            data = parts[0]
    return tensor(data) if isinstance(data, np.ndarray) else data
