"""The one error of bad input: it says what was expected and what was given."""

import math
import operator
import os
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from numbers import Real
from pathlib import Path
from typing import Any


class NescioError(ValueError):
    """Something from outside cannot be used; the command line shows it without a traceback.

    >>> try:
    ...     nescio.data.load("digitz")
    ... except NescioError as error:
    ...     print(str(error).partition(";")[0])
    digitz: no such file or folder, and no data set of that name
    """


class DivergedError(NescioError):
    """Training diverged: loss, logits or weights are NaN or infinite."""


def unknown_name(
    kind: str, value: object, known: Iterable[str], others: Iterable[str] = ()
) -> NescioError:
    """Return the error for a name that is in no table, with the nearest names that are.

    `others` may have been meant, too, but are not listed.

    >>> print(unknown_name("score", "entropi", ["entropy", "margin"]))
    unknown score 'entropi'; did you mean 'entropy'? Known: entropy, margin
    """
    names = sorted(known)
    near = get_close_matches(str(value), [*names, *others], 3, 0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    suggestion = f"{hint} Known: {', '.join(names)}" if names else "; there are none"
    return NescioError(f"unknown {kind} {value!r}{suggestion}")


def check_name(kind: str, value: Any, known: Collection[str]) -> Any:
    """Return a name that is in a table, or raise `unknown_name`.

    >>> check_name("method", "duq", ["softmax", "duq"])
    'duq'
    """
    if value not in known:
        raise unknown_name(kind, value, known)
    return value


def check_bool(name: str, value: Any) -> bool:
    """Return a bool, or raise.

    >>> check_bool("per_class", True)
    True
    """
    if not isinstance(value, bool):
        raise NescioError(f"{name} must be True or False, got {value!r}")
    return value


def check_path(name: str, value: Any) -> Path:
    """Return a path, or raise if it is none.

    >>> check_path("checkpoint", 5)
    Traceback (most recent call last):
    nescio.errors.NescioError: checkpoint must be a path, a str or a pathlib.Path, got 5
    """
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise NescioError(f"{name} must be a path, a str or a pathlib.Path, got {_shown(value)}")
    return Path(value)


def check_float(
    name: str, given: Any, least: float = 0.0, most: float = 1e100, inside: bool = False
) -> float:
    """Return a real number of any type as a float, or raise if it is out of range.

    `inside` excludes the ends of the range.

    >>> check_float("beta", -1)
    Traceback (most recent call last):
    nescio.errors.NescioError: beta must be a number from 0 to 1e+100, got -1
    >>> check_float("fraction", 1, most=1, inside=True)
    Traceback (most recent call last):
    nescio.errors.NescioError: fraction must be a number strictly between 0 and 1, got 1
    """
    try:
        value = math.nan if isinstance(given, bool) or not isinstance(given, Real) else float(given)
    except OverflowError:  # of an int with hundreds of digits
        value = math.inf
    if not least <= value <= most or (inside and value in (least, most)):
        low, high = _end(least), _end(most)
        ends = f"strictly between {low} and {high}" if inside else f"from {low} to {high}"
        raise NescioError(f"{name} must be a number {ends}, got {_shown(given)}")
    return value


def check_int(name: str, given: Any, least: int = 1, below: int = 2**63) -> int:
    """Return an integer of any type (Python's, numpy's) as an int, or raise if it is out of range.

    >>> check_int("epochs", 0)
    Traceback (most recent call last):
    nescio.errors.NescioError: epochs must be an int ≥ 1, got 0
    """
    try:
        # numpy's bool has an index of its own in older versions
        is_bool = type(given).__name__ in ("bool", "bool_")
        value = least - 1 if is_bool else operator.index(given)
    except TypeError:
        value = least - 1
    if not least <= value < below:
        most = f" and < {below}" if value >= below else ""
        raise NescioError(f"{name} must be an int ≥ {least}{most}, got {_shown(given)}")
    return value


def _end(value: float) -> str:
    """The end of a range, in so many digits that one just below 1 is not shown as 1."""
    return f"{value:g}" if float(f"{value:g}") == value else f"{value:.12g}"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes out no more than 4300 digits
        return "a number of thousands of digits"
