"""Whether two sets of data are the same, or one is part of the other, however each is given."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import data as loading

from nescio.arrays import is_array
from nescio.data.arrays import tensor
from nescio.data.samples import Samples
from nescio.errors import NescioError
from nescio.metrics.percent import percent

SAMPLE = 256  # calibration inputs that are looked for among the training inputs
KEY_WIDTHS, MAX_COMPARED = (16, 64, 256), 4096  # values of a key; inputs that are compared whole
CHUNK = 4096  # inputs whose keys are made at once, in the cache
MAX_SHARED = 0.5  # fraction of calibration inputs that may be among the training inputs
MAX_REPEATED = 0.1  # more inputs that occur twice, as rows of a table do, make sharing no leak


def same_inputs(one: Any, other: Any) -> bool:
    """Return whether two sets hold the same inputs in the same order, or are the same object.

    Only what is in memory is read: of other datasets and iterables only the object itself counts.

    >>> x = torch.arange(6.0).reshape(3, 2)
    >>> same_inputs(x, (x.numpy().copy(), torch.arange(3))), same_inputs(x, x + 1)
    (True, False)
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
    remedy = "pass other training data (train, --train), or none, to split the known inputs"
    why = f"so its threshold would be too low for new known inputs; {remedy}"
    if same_inputs(known, train):
        raise NescioError(f"the detector would be calibrated on what it learned from, {why}")
    one, other = _in_memory(known), _in_memory(train)
    if one is None or other is None or one.shape[1:] != other.shape[1:]:
        return
    shared = _fraction_found(one, other, 1)
    if shared > MAX_SHARED and all(_fraction_found(x, x, 2) < MAX_REPEATED for x in (other, one)):
        problem = f"{percent(shared, 0)} of the calibration inputs are among the training inputs"
        raise NescioError(f"{problem}, {why}")


def _inputs(data: Any) -> Any:
    """Return the inputs, where they are in memory; else what they are read from."""
    while True:
        if isinstance(data, Samples):
            data = data._stored
        elif isinstance(data, loading.DataLoader) and _takes_all(data):
            data = data.dataset
        elif isinstance(data, tuple | loading.TensorDataset):
            parts = data.tensors if isinstance(data, loading.TensorDataset) else data
            if not parts or not is_array(parts[0]):
                return data
            data = parts[0]
        else:
            return tensor(data) if is_array(data) else data


def _takes_all(loader: loading.DataLoader[Any]) -> bool:
    """Return whether a loader reads its whole data set, not what a user's sampler chooses."""
    sampler, batched = loader.sampler, loader.batch_sampler
    plain = type(batched) is loading.BatchSampler and batched.sampler is sampler
    known = type(sampler) in (loading.SequentialSampler, loading.RandomSampler)
    return known and (plain or batched is None)


def _in_memory(data: Any) -> Tensor | None:
    """Return the inputs `(N, …)`, N ≥ 1, if they are in memory; those of a subset are copied."""
    rows = _inputs(data)
    if isinstance(rows, loading.Subset):
        whole, index = _inputs(rows.dataset), torch.as_tensor(rows.indices, dtype=torch.int64)
        rows = whole[index.to(whole.device)] if isinstance(whole, Tensor) else None
    return rows if isinstance(rows, Tensor) and rows.dim() > 1 and len(rows) > 0 else None


def _fraction_found(one: Tensor, other: Tensor, times: int) -> float:
    """Return the fraction of one set, by a sample, that is in the other at least so many times.

    Inputs are looked for by a key of some adjacent values, where they vary most, of more values if
    many have the same key; what is found is then compared whole.
    """
    dtype = _common_dtype(one.dtype, other.dtype)
    places = torch.linspace(0, len(one) - 1, min(len(one), SAMPLE)).round().long()
    sample = _cast(_rows(one, places), dtype).double()
    for width in KEY_WIDTHS:
        columns = _most_varied(sample, width)
        sample_keys = _keys(sample[:, columns])
        keys, order = sample_keys.sort()
        every = _keys(_cast(_columns(other, columns), dtype))
        place = torch.searchsorted(keys, every).clamp(max=len(keys) - 1)
        hits = (keys[place] == every).nonzero().flatten()
        if len(hits) <= MAX_COMPARED:
            break
    hits = hits[:MAX_COMPARED]
    equal = (_cast(_rows(other, hits), dtype).double() == sample[order[place[hits]]]).all(1)
    counts = torch.bincount(place[hits][equal], minlength=len(keys))
    met = counts[torch.searchsorted(keys, sample_keys).clamp(max=len(keys) - 1)]
    return float((met >= times).double().mean())


def _rows(inputs: Tensor, places: Tensor) -> Tensor:
    """Return the inputs at some places, as rows `(n, F)`."""
    return inputs[places.to(inputs.device)].flatten(1).cpu()


def _most_varied(rows: Tensor, width: int) -> slice:
    """Return where so many adjacent values of rows `(n, F)` vary most."""
    width = min(width, rows.shape[1])
    variance = rows.var(0, correction=0).nan_to_num(0.0)
    start = int(variance.unfold(0, width, 1).sum(1).argmax())
    return slice(start, start + width)


def _columns(inputs: Tensor, columns: slice) -> Tensor:
    """Return some values of all inputs, `(N, k)`, without copying the inputs whole."""
    if inputs.is_contiguous():
        return inputs.flatten(1)[:, columns].cpu()
    places = torch.arange(columns.start, columns.stop, device=inputs.device)
    axes: list[Any] = [slice(None), *torch.unravel_index(places, inputs.shape[1:])]
    return inputs[tuple(axes)].cpu()


def _keys(rows: Tensor) -> Tensor:
    """Return a number for each row `(N, k)`, equal for equal rows, and hardly ever for others."""
    weights = np.random.default_rng(0).random(rows.shape[1])
    keys = np.zeros(len(rows))
    for start in range(0, len(rows), CHUNK):
        columns = rows[start : start + CHUNK].double().T.contiguous().numpy()
        for column, weight in zip(columns, weights, strict=True):
            # each step rounds on its own, so that it does so alike in every set
            keys[start : start + CHUNK] += column * weight
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
