"""Arrays from outside, checked and turned into tensors: images, tables, labels."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.arrays import Array, numbers, plain
from nescio.errors import NescioError

MAX_CLASSES = 10_000  # a larger label is a number of something else


def tensor(values: Any) -> Tensor:
    """Return a tensor of a tensor or array; an array's memory is shared where torch can."""
    values = plain(values) if isinstance(values, Tensor) else torch.from_numpy(numbers(values))
    shared: Tensor = values.detach()  # data have no gradient
    return shared


def tensor_bytes(values: Tensor) -> Tensor:
    """Return the bytes of a tensor `(bytes,)` in uint8, without a copy where it is contiguous.

    >>> tensor_bytes(torch.tensor([1, 258], dtype=torch.int16))
    tensor([1, 0, 2, 1], dtype=torch.uint8)
    """
    stored = values.detach().cpu().contiguous()
    # torch calls a single value contiguous whatever its stride, but views no bytes unless that is 1
    return stored.as_strided((stored.numel(),), (1,)).view(torch.uint8)


def as_inputs(array: Array, where: str, allow_missing: bool = False) -> Tensor:
    """Return a table (two axes) or images (three or four), finite unless `allow_missing`."""
    check_nonempty(array.shape, where)
    return (_table if array.ndim < 3 else _images)(array, where, allow_missing)


def _images(array: Array, where: str, allow_missing: bool) -> Tensor:
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        shapes = "(N, H, W), (N, H, W, 3) or (N, 3, H, W)"
        raise NescioError(f"{where}: images must have shape {shapes}, got {array.shape}")
    if array.dtype == np.uint8:
        return torch.from_numpy(np.array(array, order="C"))
    if array.dtype.kind != "f":
        raise NescioError(f"{where}: images must be uint8 or floats in [0, 1], got {array.dtype}")
    values = array[np.isfinite(array)] if allow_missing else array
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not (low >= 0 and high <= 1):  # also catches NaN
        raise NescioError(f"{where}: float images must be in [0, 1], got {low:g} to {high:g}")
    return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def _table(array: Array, where: str, allow_missing: bool) -> Tensor:
    if array.ndim != 2 or 0 in array.shape:
        raise NescioError(f"{where}: a table must have shape (N, F), N, F ≥ 1, got {array.shape}")
    if array.dtype.kind not in "fiub":
        raise NescioError(f"{where}: a table must hold numbers, got {array.dtype}")
    with np.errstate(over="ignore"):
        values = np.array(array, dtype=np.float32, order="C")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad) and not allow_missing:
        row, column = bad[0]
        place = f"{array[row, column]} in row {row}, column {column}"
        raise NescioError(f"{where}: values must be finite, got {place}")
    return torch.from_numpy(values)


def check_nonempty(shape: tuple[int, ...], where: str) -> None:
    """Raise if inputs `(N, …)` of that shape are none."""
    if shape and shape[0] == 0:
        raise NescioError(f"{where}: there are no inputs (shape {shape}); expected at least one")


def as_any_inputs(array: Array, where: str) -> Tensor:
    """Return inputs `(N, …)` of any shape and values, for a network that knows how to take them.

    Double precision is kept, other floats become float32; integers of any type become int64.
    """
    check_nonempty(array.shape, where)
    if array.ndim < 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        got = f"{array.shape} {array.dtype}"
        raise NescioError(f"{where}: inputs must be numbers (N, …) with N ≥ 1, got {got}")
    if array.dtype.kind != "f":
        if int(array.max()) > np.iinfo(np.int64).max:
            raise NescioError(f"{where}: integers must fit in int64, got {array.max()}")
        return torch.from_numpy(np.array(array, dtype=np.int64, order="C"))
    dtype = np.float64 if array.dtype.itemsize >= 8 else np.float32
    return torch.from_numpy(np.array(array, dtype=dtype, order="C"))


def as_labels(array: Array, count: int, where: str, classes: int | None = None) -> Tensor:
    """Return labels `(N,)` from 0 to `classes − 1`, as int64; floats must have no fractions."""
    if array.dtype.kind not in "iubf" or array.shape != (count,):
        got = f"{array.shape} {array.dtype}"
        raise NescioError(f"{where}: labels must be ({count},) integers, got {got}")
    fractional = ~np.isfinite(array) | (array != np.floor(array))
    if fractional.any():
        raise NescioError(f"{where}: labels must be integers, got {array[fractional][0]}")
    last = (MAX_CLASSES if classes is None else classes) - 1
    if count and (int(array.min()) < 0 or int(array.max()) > last):
        got = f"{array.min()} to {array.max()}"
        raise NescioError(f"{where}: labels must be 0 to {last}, got {got}")
    return torch.from_numpy(array.astype(np.int64))


def of_binary_loss(labels: Tensor) -> Tensor:
    """Return targets of a binary loss, floats 0 and 1 or of shape `(N, 1)`, as int labels `(N,)`.

    All other labels are returned as they are.
    """
    labels = labels[:, 0] if labels.dim() == 2 and labels.shape[1] == 1 else labels
    binary = labels.is_floating_point() and bool(((labels == 0) | (labels == 1)).all())
    return labels.long() if binary else labels
