"""Whether two sets of data are one and the same, or one is part of the other, however each is given."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from nescio.arrays import is_array
from nescio.data.arrays import tensor
from nescio.data.samples import Samples
from nescio.errors import NescioError
from nescio.metrics.percent import percent

LOOKED_AT = 256  # inputs of a set that are looked for in another
WIDTHS, COMPARED = (
    (16, 64, 256),
    4096,
)  # values of an input that make its key, and inputs that are compared whole
PIECE = 4096  # inputs whose keys are made at once, in the cache
_PARTS = (slice(1), slice(None))  # the first input tells most sets apart
MOST, FEW = (
    0.5,
    0.1,
)  # share of inputs that may be in both sets, and of those that repeat, as the rows of a table do


def same(one: Any, other: Any) -> bool:
    """Whether two sets hold the same inputs in the same order, with or without labels, or come from the same object.

    Nothing is read but what is in memory: of data sets and iterables of other makes only the object itself counts.

    >>> x = torch.arange(6.0).reshape(3, 2)
    >>> same(x, (x.numpy().copy(), np.arange(3))), same(x, x + 1), same(None, None)
    (True, False, False)
    """
    one, other = _within(one), _within(other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or (
            one.dtype != other.dtype and torch.uint8 not in (one.dtype, other.dtype)
        ):
            return False
        kind = _shorter(one.dtype, other.dtype)
        return all(
            torch.equal(_in(kind, one[part]), _in(kind, other[part]).to(one.device))
            for part in _PARTS
        )
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
        share = _found(one, other, 1)
        if share > MOST and max(_found(other, other, 2), _found(one, one, 2)) < FEW:
            raise NescioError(
                f"{percent(share, 0)} of the inputs to calibrate on are among those to learn from, {odd}"
            )


def _within(data: Any) -> Any:
    """The inputs, where they are in memory; else what they are read from."""
    while isinstance(data, tuple | TensorDataset | Samples) or (
        isinstance(data, DataLoader) and _takes_all(data)
    ):
        if isinstance(data, Samples):
            data = data._stored
        elif isinstance(data, DataLoader):
            data = data.dataset
        else:
            parts = data.tensors if isinstance(data, TensorDataset) else data
            if not parts or not is_array(parts[0]):
                return data
            data = parts[0]
    return tensor(data).detach() if is_array(data) else data


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


def _found(one: Any, other: Any, times: int) -> float:
    """The share of inputs of one set, as far as some of them tell, that are in the other at least so many times.

    They are looked for by a key of some values next to each other, where they vary most, of more if many have the same
    key; what is found is then compared whole.
    """
    kind = _shorter(_rows(one).dtype, _rows(other).dtype)
    places = torch.linspace(0, len(one) - 1, min(len(one), LOOKED_AT)).round().long()
    some = _in(kind, _taken(one, places)).double()
    for width in WIDTHS:
        part = _varied(some, width)
        wanted = _keys(some[:, part])
        keys, order = wanted.sort()
        every = _keys(_in(kind, _columns(other, part)))
        place = torch.searchsorted(keys, every).clamp(max=len(keys) - 1)
        hits = (keys[place] == every).nonzero().flatten()
        if len(hits) <= COMPARED:
            break
    hits = hits[:COMPARED]
    alike = (_in(kind, _taken(other, hits)).double() == some[order[place[hits]]]).all(1)
    met = torch.bincount(place[hits][alike], minlength=len(keys))[
        torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    ]
    return float((met >= times).double().mean())


def _taken(data: Any, places: Tensor) -> Tensor:
    """The inputs at some places, as rows `(n, F)`."""
    index = places if isinstance(data, Tensor) else torch.as_tensor(data.indices)[places]
    return _rows(data)[index.to(_rows(data).device)].flatten(1).cpu()


def _varied(some: Tensor, width: int) -> slice:
    """Where so many values next to each other of rows `(n, F)` vary most."""
    width = min(width, some.shape[1])
    start = int(some.var(0, correction=0).nan_to_num(0.0).unfold(0, width, 1).sum(1).argmax())
    return slice(start, start + width)


def _columns(data: Any, part: slice) -> Tensor:
    """Some values of all inputs, `(N, k)`; by all their axes where to flatten them would copy them whole."""
    rows = _rows(data)
    if rows.is_contiguous():
        found = rows.flatten(1)[:, part]
    else:
        places = torch.arange(part.start, part.stop, device=rows.device)
        axes: list[Any] = [slice(None), *torch.unravel_index(places, rows.shape[1:])]
        found = rows[tuple(axes)]
    return (
        found
        if isinstance(data, Tensor)
        else found[torch.as_tensor(data.indices, device=found.device)]
    ).cpu()


def _keys(rows: Tensor) -> Tensor:
    """One number for each row `(N, k)`, the same for the same rows, and hardly ever for others."""
    weights = np.random.default_rng(0).random(rows.shape[1])
    found = np.zeros(len(rows))
    for start in range(0, len(rows), PIECE):
        part, columns = (
            found[start : start + PIECE],
            rows[start : start + PIECE].double().T.contiguous().numpy(),
        )
        for column, weight in zip(columns, weights, strict=True):
            part += (
                column * weight
            )  # each step rounds on its own, so that it does so alike in every set
    return torch.from_numpy(found)


def _shorter(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    """The type with fewer digits, in which both can be compared; of whole numbers the one that holds both."""
    if not one.is_floating_point and not other.is_floating_point:
        return torch.promote_types(one, other)
    one, other = (
        torch.float32 if kind == torch.uint8 else kind for kind in (one, other)
    )  # as images are given out
    return max(
        one, other, key=lambda kind: torch.finfo(kind).eps if kind.is_floating_point else 0.0
    )


def _in(kind: torch.dtype, rows: Tensor) -> Tensor:
    """Rows in a type to compare them in; bytes of images beside floats are those that a model is given."""
    scaled = rows.dtype == torch.uint8 and kind.is_floating_point
    return (rows.float().div_(255) if scaled else rows).to(kind)
