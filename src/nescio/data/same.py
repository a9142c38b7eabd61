"""Whether two sets of data are one and the same, or one is part of the other, however each is given."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset, TensorDataset

from nescio.data.arrays import tensor
from nescio.data.samples import Samples
from nescio.errors import NescioError

LOOKED_AT = 256  # inputs of each set that are looked for in another
COLUMNS = 16  # values of an input, those that vary most, by which it is looked for


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
    """An error if what a threshold is to be settled on is what was learned from, or most of it is."""
    odd = (
        "and new known inputs would look odd; give other data to learn from (train, --train), or none, to have the "
        "known inputs divided"
    )
    if same(known, train):
        raise NescioError(f"the detector would be calibrated on what it learned from, {odd}")
    one, other = _within(known), _within(train)
    if _in_memory(one) and _in_memory(other) and _rows(one).shape[1:] == _rows(other).shape[1:]:
        share, usual = shared(one, other)
        if share > max(0.5, 2 * usual):
            raise NescioError(f"{share:.0%} of the inputs to calibrate on are among those to learn from, {odd}")


def shared(one: Any, other: Any) -> tuple[float, float]:
    """The share of inputs that are in the other set, too, and of those that are in the other more than once.

    If both sets were drawn alike, the two shares are: the rows of a table may repeat. Some inputs of each set are
    looked for, by those values that vary most.
    """
    some = _some(one).double()
    columns = some.var(0, correction=0).topk(min(COLUMNS, some.shape[1])).indices
    every = _keys(_columns(other, columns)).sort().values
    found, again = (_keys(rows[:, columns]) for rows in (some, _some(other)))
    times = [torch.searchsorted(every, keys, right=True) - torch.searchsorted(every, keys) for keys in (found, again)]
    return float((times[0] > 0).double().mean()), float((times[1] > 1).double().mean())


def _within(data: Any) -> Any:
    """The inputs, where they are in memory; else what they are read from."""
    while isinstance(data, tuple | TensorDataset | Samples) or (isinstance(data, DataLoader) and _takes_all(data)):
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


def _takes_all(loader: DataLoader[Any]) -> bool:
    """Whether a loader goes through its data set, and not through a part of it that a sampler of the user's chooses."""
    own, batched = loader.sampler, loader.batch_sampler
    grouped = batched is None or (type(batched) is BatchSampler and batched.sampler is own)
    return grouped and type(own) in (SequentialSampler, RandomSampler)


def _in_memory(data: Any) -> bool:
    rows = _within(data.dataset) if isinstance(data, Subset) else data
    return isinstance(rows, Tensor) and rows.dim() > 1 and len(data) > 0


def _rows(data: Any) -> Tensor:
    """All inputs in memory, also those that a subset leaves out."""
    found: Tensor = data if isinstance(data, Tensor) else _within(data.dataset)
    return found


def _some(data: Any) -> Tensor:
    """Some inputs, evenly spread, as rows `(n, F)`."""
    number = len(data)
    places = torch.linspace(0, number - 1, min(number, LOOKED_AT)).round().long()
    index = places if isinstance(data, Tensor) else torch.as_tensor(data.indices)[places]
    return _rows(data)[index.to(_rows(data).device)].flatten(1).cpu()


def _columns(data: Any, columns: Tensor) -> Tensor:
    """Some values of all inputs, `(N, k)`."""
    found = _rows(data).flatten(1)[:, columns.to(_rows(data).device)]
    return (found if isinstance(data, Tensor) else found[torch.as_tensor(data.indices, device=found.device)]).cpu()


def _keys(rows: Tensor) -> Tensor:
    """One number for each row `(N, k)`, the same for the same rows, and hardly ever for others."""
    found = torch.zeros(len(rows), dtype=torch.float64)
    for column in rows.double().unbind(1):  # each step rounds on its own, so that it does so alike in every set
        found = found.mul_(0.6180339887498949).add_(column)
    return found
