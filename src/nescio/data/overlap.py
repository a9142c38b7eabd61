"""Whether two sets of data are the same, or one is part of the other, however each is given."""

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

SAMPLED_INPUTS = 256  # inputs of a set that are looked for in another
KEY_WIDTHS = (16, 64, 256)  # values of an input that make its key
MAX_COMPARED = 4096  # inputs that are compared in full
CHUNK = 4096  # inputs whose keys are made at once, in the cache
MAX_SHARED = 0.5  # fraction of inputs that may be in both sets
MAX_REPEATED = (
    0.1  # of those that occur twice, as the rows of a table do, beyond which none is refused
)


def same_inputs(one: Any, other: Any) -> bool:
    """Return whether two sets hold the same inputs in the same order, or are the same object.

    Only what is in memory is read: of other datasets and iterables only the object itself counts.

    >>> x = torch.arange(6.0).reshape(3, 2)
    >>> same_inputs(x, (x.numpy().copy(), np.arange(3))), same_inputs(x, x + 1)
    (True, False)
    >>> same_inputs(None, None)
    False
    """
    one, other = _inputs(one), _inputs(other)
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is not None and one is other
    images = torch.uint8 in (one.dtype, other.dtype)
    if one.shape != other.shape or (one.dtype != other.dtype and not images):
        return False
    dtype = _common_dtype(one.dtype, other.dtype)
    return all(
        torch.equal(_cast(one[part], dtype), _cast(other[part], dtype).to(one.device))
        for part in (slice(1), slice(None))  # the first input distinguishes most sets
    )


def check_disjoint(known: Any, train: Any) -> None:
    """Raise if calibration data are the training data, or most of them are among these."""
    why = (
        "so its threshold would be too low for new known inputs; pass other training data (train, "
        "--train), or none, to split the known inputs"
    )
    if same_inputs(known, train):
        raise NescioError(f"the detector would be calibrated on what it learned from, {why}")
    one, other = _inputs(known), _inputs(train)
    if not (_in_memory(one) and _in_memory(other)):
        return
    if _all_rows(one).shape[1:] != _all_rows(other).shape[1:]:
        return
    fraction = _fraction_found(one, other, 1)
    if fraction <= MAX_SHARED:
        return
    if max(_fraction_found(data, data, 2) for data in (other, one)) < MAX_REPEATED:
        shared = f"{percent(fraction, 0)} of the calibration inputs are among the training inputs"
        raise NescioError(f"{shared}, {why}")


def _inputs(data: Any) -> Any:
    """Return the inputs, where they are in memory; else what they are read from."""
    while True:
        if isinstance(data, Samples):
            data = data._stored
        elif isinstance(data, DataLoader) and _takes_all(data):
            data = data.dataset
        elif isinstance(data, tuple | TensorDataset):
            parts = data.tensors if isinstance(data, TensorDataset) else data
            if not parts or not is_array(parts[0]):
                return data
            data = parts[0]
        else:
            return tensor(data) if is_array(data) else data


def _takes_all(loader: DataLoader[Any]) -> bool:
    """Return whether a loader reads its whole data set, not what a user's sampler chooses."""
    sampler, batched = loader.sampler, loader.batch_sampler
    grouped = batched is None or (type(batched) is BatchSampler and batched.sampler is sampler)
    return grouped and type(sampler) in (SequentialSampler, RandomSampler)


def _in_memory(data: Any) -> bool:
    rows = _inputs(data.dataset) if isinstance(data, Subset) else data
    return isinstance(rows, Tensor) and rows.dim() > 1 and len(data) > 0


def _all_rows(data: Any) -> Tensor:
    """Return all inputs in memory, also those that a subset leaves out."""
    rows: Tensor = data if isinstance(data, Tensor) else _inputs(data.dataset)
    return rows


def _fraction_found(one: Any, other: Any, times: int) -> float:
    """Estimate the fraction of inputs of one set that are in the other at least so many times.

    A sample of them is looked for by a key of adjacent values, where they vary most, of more values
    if many have the same key; what is found is then compared in full.
    """
    dtype = _common_dtype(_all_rows(one).dtype, _all_rows(other).dtype)
    positions = torch.linspace(0, len(one) - 1, min(len(one), SAMPLED_INPUTS)).round().long()
    sample = _cast(_take(one, positions), dtype).double()
    for width in KEY_WIDTHS:
        columns = _most_varied(sample, width)
        sample_keys = _keys(sample[:, columns])
        keys, order = sample_keys.sort()
        other_keys = _keys(_cast(_columns(other, columns), dtype))
        place = torch.searchsorted(keys, other_keys).clamp(max=len(keys) - 1)
        hits = (keys[place] == other_keys).nonzero().flatten()
        if len(hits) <= MAX_COMPARED:
            break
    hits = hits[:MAX_COMPARED]
    equal = (_cast(_take(other, hits), dtype).double() == sample[order[place[hits]]]).all(1)
    counts = torch.bincount(place[hits][equal], minlength=len(keys))
    found = counts[torch.searchsorted(keys, sample_keys).clamp(max=len(keys) - 1)]
    return float((found >= times).double().mean())


def _take(data: Any, positions: Tensor) -> Tensor:
    """Return the inputs at some positions, as rows `(n, F)`."""
    index = positions if isinstance(data, Tensor) else torch.as_tensor(data.indices)[positions]
    return _all_rows(data)[index.to(_all_rows(data).device)].flatten(1).cpu()


def _most_varied(rows: Tensor, width: int) -> slice:
    """Return where so many adjacent values of rows `(n, F)` vary most."""
    width = min(width, rows.shape[1])
    start = int(rows.var(0, correction=0).nan_to_num(0.0).unfold(0, width, 1).sum(1).argmax())
    return slice(start, start + width)


def _columns(data: Any, part: slice) -> Tensor:
    """Return some values of all inputs, `(N, k)`, without a copy of all inputs."""
    rows = _all_rows(data)
    if rows.is_contiguous():
        values = rows.flatten(1)[:, part]
    else:
        places = torch.arange(part.start, part.stop, device=rows.device)
        axes: list[Any] = [slice(None), *torch.unravel_index(places, rows.shape[1:])]
        values = rows[tuple(axes)]
    if not isinstance(data, Tensor):
        values = values[torch.as_tensor(data.indices, device=values.device)]
    return values.cpu()


def _keys(rows: Tensor) -> Tensor:
    """Return one number for each row `(N, k)`: equal for equal rows, hardly ever for others."""
    weights = np.random.default_rng(0).random(rows.shape[1])
    keys = np.zeros(len(rows))
    for start in range(0, len(rows), CHUNK):
        chunk = keys[start : start + CHUNK]
        columns = rows[start : start + CHUNK].double().T.contiguous().numpy()
        for column, weight in zip(columns, weights, strict=True):
            chunk += column * weight  # each step rounds on its own, and so alike in every set
    return torch.from_numpy(keys)


def _common_dtype(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    """Return the dtype to compare in: the less precise of floats, one that holds both integers."""
    if not one.is_floating_point and not other.is_floating_point:
        return torch.promote_types(one, other)
    # images are returned as float32
    dtypes = [torch.float32 if dtype == torch.uint8 else dtype for dtype in (one, other)]
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps if dtype.is_floating_point else 0.0)


def _cast(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return rows in a dtype; bytes of images beside floats become what a model is given."""
    scaled = rows.dtype == torch.uint8 and dtype.is_floating_point
    return (rows.float().div_(255) if scaled else rows).to(dtype)
