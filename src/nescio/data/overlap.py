"""Whether two sets of data are the same, or one is part of the other, however each is given."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils import data as loading

from nescio.arrays import is_array
from nescio.data.arrays import tensor, tensor_bytes
from nescio.data.samples import Samples
from nescio.errors import NescioError
from nescio.metrics.percent import percent

CHUNK = 512  # inputs at a time, in the cache
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
        return  # others have an error for this
    dtype = _common_dtype(_all_rows(one).dtype, _all_rows(other).dtype)
    calibration, learned = (Counter(_row_hashes(data, dtype)) for data in (one, other))
    shared = sum(count for row, count in calibration.items() if row in learned) / len(one)
    repeated = max(
        sum(count for count in rows.values() if count > 1) / rows.total()
        for rows in (calibration, learned)
    )
    if shared > MAX_SHARED and repeated < MAX_REPEATED:
        found = f"{percent(shared, 0)} of the calibration inputs are among the training inputs"
        raise NescioError(f"{found}, {why}")


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
    grouped = batched is None or (
        type(batched) is loading.BatchSampler and batched.sampler is sampler
    )
    return grouped and type(sampler) in (loading.SequentialSampler, loading.RandomSampler)


def _in_memory(data: Any) -> bool:
    rows = _inputs(data.dataset) if isinstance(data, loading.Subset) else data
    return isinstance(rows, Tensor) and rows.dim() > 1 and len(data) > 0


def _all_rows(data: Any) -> Tensor:
    """Return all inputs in memory, also those that a subset leaves out."""
    rows: Tensor = data if isinstance(data, Tensor) else _inputs(data.dataset)
    return rows


def _row_hashes(data: Any, dtype: torch.dtype) -> list[int]:
    """Return a hash of each input, the same for the same numbers."""
    rows, hashes = _all_rows(data), []
    index = None if isinstance(data, Tensor) else torch.as_tensor(data.indices, device=rows.device)
    for start in range(0, len(data), CHUNK):
        chunk = slice(start, start + CHUNK)
        part = _cast(rows[chunk if index is None else index[chunk]], dtype) + 0  # −0 becomes 0
        hashes += [hash(row.tobytes()) for row in tensor_bytes(part).view(len(part), -1).numpy()]
    return hashes


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
