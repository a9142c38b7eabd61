"""Counts from outside, checked."""

import operator

from nescio.errors import NescioError


def at_least_one(value: int, name: str) -> int:
    """The value as a plain int, numpy's whole numbers too; an error if it is none, or below 1."""
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise NescioError(f"{name}={value!r}; expected a whole number, at least 1")
    return count
