"""Arrays from outside, checked and turned into tensors: images, tables, labels."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.arrays import numbers, plain
from nescio.errors import NescioError

Array = np.ndarray[Any, Any]
_MOST_CLASSES = 10_000  # a label above this is a number of something else


def images(array: Array, where: str, gaps: bool = False) -> Tensor:
    """Images `(N, C, H, W)`, uint8 or float32 in [0, 1], of `(N, H, W)`, `(N, H, W, 1 or 3)` or `(N, 1 or 3, H, W)`.

    With `gaps` some may hold values that are not finite.
    """
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        raise NescioError(
            f"{where}: shape {array.shape}; expected images (N, H, W), (N, H, W, 3) or (N, 3, H, W)"
        )
    if array.dtype == np.uint8:
        return torch.from_numpy(np.array(array, order="C"))
    if array.dtype.kind != "f":
        raise NescioError(f"{where}: images of {array.dtype}; expected uint8, or floats in [0, 1]")
    values = array[np.isfinite(array)] if gaps else array
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not (low >= 0 and high <= 1):  # also catches NaN
        raise NescioError(
            f"{where}: float images hold {low:g} to {high:g}; expected values in [0, 1]"
        )
    return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def table(array: Array, where: str, gaps: bool = False) -> Tensor:
    """A table `(N, F)` of numbers, as float32; with `gaps` some of them may not be finite."""
    if array.ndim != 2 or 0 in array.shape:
        raise NescioError(f"{where}: shape {array.shape}; expected a table (N, F) with N, F ≥ 1")
    if array.dtype.kind not in "fiub":
        raise NescioError(f"{where}: a table of {array.dtype}; expected numbers")
    with np.errstate(over="ignore"):
        numbers = np.array(array, dtype=np.float32, order="C")
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad) and not gaps:
        row, column = bad[0]
        raise NescioError(
            f"{where}: row {row}, column {column} holds {array[row, column]}; expected finite numbers"
        )
    return torch.from_numpy(numbers)


def inputs(array: Array, where: str, gaps: bool = False) -> Tensor:
    """A table if there are two axes, images if there are three or four."""
    check_some(array.shape, where)
    return table(array, where, gaps) if array.ndim < 3 else images(array, where, gaps)


def check_some(shape: tuple[int, ...], where: str) -> None:
    """An error if inputs `(N, …)` of that shape are none."""
    if shape and shape[0] == 0:
        raise NescioError(f"{where}: there are no inputs (shape {shape}); expected at least one")


def as_given(array: Array, where: str) -> Tensor:
    """Inputs `(N, …)` of any shape and with any values, for a network that knows what to make of them.

    Floats keep their precision, or have single; whole numbers of any type become int64.
    """
    check_some(array.shape, where)
    if array.ndim < 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise NescioError(
            f"{where}: shape {array.shape} {array.dtype}; expected numbers (N, …) with N ≥ 1"
        )
    if array.dtype.kind != "f":
        if int(array.max()) > np.iinfo(np.int64).max:
            raise NescioError(
                f"{where}: holds {array.max()}; expected whole numbers of at most 64 bits with a sign"
            )
        return torch.from_numpy(np.array(array, dtype=np.int64, order="C"))
    kind = np.float64 if array.dtype.itemsize >= 8 else np.float32
    return torch.from_numpy(np.array(array, dtype=kind, order="C"))


def labels(array: Array, count: int, where: str, classes: int | None = None) -> Tensor:
    """Labels `(N,)` from 0 to `classes − 1`, as int64; they may be floats that are whole numbers."""
    if array.dtype.kind not in "iubf" or array.shape != (count,):
        raise NescioError(
            f"{where}: labels of shape {array.shape} {array.dtype}; expected ({count},) whole numbers"
        )
    if array.dtype.kind == "f" and len(
        odd := array[~np.isfinite(array) | (array != np.floor(array))]
    ):
        raise NescioError(f"{where}: a label is {odd[0]}; expected whole numbers")
    most = (_MOST_CLASSES if classes is None else classes) - 1
    if count and (int(array.min()) < 0 or int(array.max()) > most):
        raise NescioError(
            f"{where}: labels from {array.min()} to {array.max()}; expected 0 to {most}"
        )
    return torch.from_numpy(array.astype(np.int64))


def tensor(values: Any) -> Tensor:
    """A tensor of a tensor or array, by the gate for both; an array's memory is shared where torch can."""
    if isinstance(values, Tensor):
        found: Tensor = plain(values).detach()  # data have no gradient
        return found
    return torch.from_numpy(numbers(values))
