"""What the metrics accept: every array from outside passes here once, or an error says what was wrong with it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.arrays import as_array
from nescio.errors import NescioError

Array = NDArray[Any]

ROW_SUM_TOLERANCE = 1e-4
ROUNDING = 1e-6  # a mean of float32 probabilities may come out as 1.0000001


def vector(name: str, values: ArrayLike, kinds: str, expected: str) -> Array:
    """A non-empty array of shape (N,) whose dtype is of one of the kinds."""
    array = as_array(values)
    if array.ndim != 1 or array.size == 0:
        raise NescioError(f"{name} has shape {array.shape}; expected (N,) with N > 0")
    if array.dtype.kind not in kinds:
        raise NescioError(f"{name} has dtype {array.dtype}; expected {expected}")
    return array


def no_nan(name: str, array: Array) -> None:
    """Raise if a NaN is among the values, and say where the first one is."""
    if array.dtype.kind == "f" and (nan := np.isnan(array)).any():
        first = tuple(int(i) for i in np.unravel_index(nan.argmax(), array.shape))
        where = first[0] if array.ndim == 1 else first
        raise NescioError(
            f"{name} has {int(nan.sum())} NaN of {array.size} values, the first at {where}; expected none"
        )


def score_vector(name: str, values: ArrayLike) -> Array:
    """Scores (N,) in their own dtype; ±inf is allowed because it has a rank, NaN has none."""
    array = vector(name, values, "fiu", "real numbers")
    no_nan(name, array)
    return array


def score_pair(known_scores: ArrayLike, unknown_scores: ArrayLike) -> tuple[Array, Array]:
    """The scores of both sides in one dtype: float32 beside float32 stays float32, which sorts twice as fast."""
    known = score_vector("known_scores", known_scores)
    unknown = score_vector("unknown_scores", unknown_scores)
    common = np.result_type(known, unknown)
    return known.astype(common, copy=False), unknown.astype(common, copy=False)


def confidence_vector(values: ArrayLike) -> Array:
    """Confidences (N,) as floats in [0, 1]."""
    array = vector("confidence", values, "fiu", "real numbers")
    no_nan("confidence", array)
    in_range("confidence", array, 0.0, 1.0)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def correct_vector(values: ArrayLike) -> NDArray[np.bool_]:
    """Right (true, 1) or wrong (false, 0) for each input."""
    array = vector("correct", values, "biu", "bool, or integers 0 and 1")
    if array.dtype.kind != "b":
        in_range("correct", array, 0, 1)
    return array.astype(bool)


def integer_vector(name: str, values: ArrayLike, low: int, classes: int | None = None) -> Array:
    """Class numbers (N,), from low to classes − 1."""
    array = vector(name, values, "iu", "integers")
    in_range(name, array, low, None if classes is None else classes - 1)
    return array


def probability_rows(name: str, values: ArrayLike, log: bool = False) -> Array:
    """Probabilities (N, C), or their logarithms: each row sums to 1."""
    array = as_array(values)
    if array.ndim != 2 or array.size == 0:
        raise NescioError(f"{name} has shape {array.shape}; expected (N, C) with N > 0 and C > 0")
    if array.dtype.kind not in "fiu":
        raise NescioError(f"{name} has dtype {array.dtype}; expected real numbers")
    no_nan(name, array)
    in_range(name, array, -np.inf if log else 0.0, 0.0 if log else 1.0)
    sums = (np.exp(array) if log else array).sum(axis=1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        what = "probabilities exp(log_probs)" if log else "probabilities"
        raise NescioError(
            f"row {worst} of {name}: the {what} sum to {sums[worst]:.6g}; expected 1 ± {ROW_SUM_TOLERANCE}"
        )
    return array


def in_range(name: str, array: Array, low: float, high: float | None) -> None:
    """Raise if a value lies outside [low, high] by more than float rounding."""
    smallest, largest = array.min().item(), array.max().item()
    if smallest < low - ROUNDING or (high is not None and largest > high + ROUNDING):
        expected = f"at least {low}" if high is None else f"values in [{low}, {high}]"
        raise NescioError(
            f"{name} has values from {smallest:.8g} to {largest:.8g}; expected {expected}"
        )


def same_length(name: str, array: Array, other_name: str, other: Array) -> None:
    """Raise if two arrays that speak of the same inputs differ in their number."""
    if len(array) != len(other):
        raise NescioError(
            f"{name} has {len(array)} inputs and {other_name} has {len(other)}; expected as many"
        )
