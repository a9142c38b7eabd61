"""Checks of the arrays that metrics take: every array from outside passes here once."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.arrays import Array, as_array
from nescio.errors import NescioError

ROW_SUM_TOLERANCE = 1e-4
ROUNDING = 1e-6  # a mean of float32 probabilities may come out as 1.0000001


def checked(
    name: str, values: ArrayLike, kinds: str = "fiu", expected: str = "real numbers", axes: int = 1
) -> Array:
    """Return a non-empty array (N,), or (N, C), without NaN, of one of the kinds of dtype.

    ±inf is allowed: it has a rank, NaN has none.
    """
    array = as_array(values)
    if array.ndim != axes or array.size == 0:
        shape = "(N,) with N > 0" if axes == 1 else "(N, C) with N > 0 and C > 0"
        raise NescioError(f"{name} has shape {array.shape}; expected {shape}")
    if array.dtype.kind not in kinds:
        raise NescioError(f"{name} has dtype {array.dtype}; expected {expected}")
    if array.dtype.kind == "f" and (nan := np.isnan(array)).any():
        first = tuple(int(i) for i in np.unravel_index(nan.argmax(), array.shape))
        count = f"{int(nan.sum())} NaN of {array.size} values"
        place = first[0] if axes == 1 else first
        raise NescioError(f"{name} has {count}, the first at {place}; expected none")
    return array


def score_pair(known_scores: ArrayLike, unknown_scores: ArrayLike) -> tuple[Array, Array]:
    """Return the scores of both sides in one dtype; float32 stays, it sorts twice as fast."""
    known = checked("known_scores", known_scores)
    unknown = checked("unknown_scores", unknown_scores)
    common = np.result_type(known, unknown)
    return known.astype(common, copy=False), unknown.astype(common, copy=False)


def confidence_vector(values: ArrayLike) -> Array:
    """Return confidences (N,) as floats in [0, 1]."""
    array = checked("confidence", values)
    check_range("confidence", array, 0.0, 1.0)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def correct_vector(values: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each answer is correct, from bool or from 0 and 1."""
    array = checked("correct", values, "biu", "bool, or integers 0 and 1")
    if array.dtype.kind != "b":
        check_range("correct", array, 0, 1)
    return array.astype(bool)


def integer_vector(name: str, values: ArrayLike, low: int, classes: int | None = None) -> Array:
    """Return class numbers (N,), from low to classes − 1."""
    array = checked(name, values, "iu", "integers")
    check_range(name, array, low, None if classes is None else classes - 1)
    return array


def probability_rows(name: str, values: ArrayLike, log: bool = False) -> Array:
    """Return probabilities (N, C), or their logarithms, whose rows sum to 1."""
    array = checked(name, values, axes=2)
    check_range(name, array, -np.inf if log else 0.0, 0.0 if log else 1.0)
    sums = (np.exp(array) if log else array).sum(axis=1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        what = "probabilities exp(log_probs)" if log else "probabilities"
        expected = f"expected 1 ± {ROW_SUM_TOLERANCE}"
        raise NescioError(f"row {worst} of {name}: the {what} sum to {sums[worst]:.6g}; {expected}")
    return array


def check_range(name: str, array: Array, low: float, high: float | None) -> None:
    """Raise if a value lies outside [low, high] by more than float rounding."""
    smallest, largest = array.min().item(), array.max().item()
    if smallest < low - ROUNDING or (high is not None and largest > high + ROUNDING):
        expected = f"at least {low}" if high is None else f"values in [{low}, {high}]"
        got = f"values from {smallest:.8g} to {largest:.8g}"
        raise NescioError(f"{name} has {got}; expected {expected}")


def check_length(name: str, array: Array, other_name: str, other: Array) -> None:
    """Raise if two arrays that describe the same inputs differ in length."""
    if len(array) != len(other):
        counts = f"{name} has {len(array)} inputs and {other_name} has {len(other)}"
        raise NescioError(f"{counts}; expected as many")
