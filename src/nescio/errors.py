"""The one error of bad input: it says what was given and what was expected."""

import math
import operator
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any


class NescioError(ValueError):
    """Something given from outside cannot be used; the command line shows it without a traceback."""


class DivergedError(NescioError):
    """A training run whose numbers ran away: loss, logits or weights are NaN or infinite."""


def unknown_name(kind: str, given: object, known: Iterable[str]) -> NescioError:
    """The error for a name that is in no table, with the nearest names that are.

    >>> raise unknown_name("score", "entropi", ["entropy", "margin"])
    Traceback (most recent call last):
    nescio.errors.NescioError: unknown score 'entropi'; did you mean 'entropy'? Known: entropy, margin
    """
    names = sorted(known)
    near = get_close_matches(str(given), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    known = f"{hint} Known: {', '.join(names)}" if names else "; there are none"
    return NescioError(f"unknown {kind} {given!r}{known}")


def check_float(
    name: str, given: Any, least: float = 0.0, most: float = 1e100, inside: bool = False
) -> float:
    """A real number of any make in a range, or the error that names it; `inside` leaves out the ends of the range.

    >>> number("beta", -1)
    Traceback (most recent call last):
    nescio.errors.NescioError: beta must be a number from 0 to 1e+100, not -1
    >>> number("share", 1, most=1, inside=True)
    Traceback (most recent call last):
    nescio.errors.NescioError: share must be a number between 0 and 1, which are excluded, not 1
    """
    try:
        value = math.nan if isinstance(given, bool) or not isinstance(given, Real) else float(given)
    except OverflowError:  # of a whole number with hundreds of digits
        value = math.inf
    if not least <= value <= most or (inside and value in (least, most)):
        low, high = _end(least), _end(most)
        ends = (
            f"between {low} and {high}, which are excluded" if inside else f"from {low} to {high}"
        )
        raise NescioError(f"{name} must be a number {ends}, not {_shown(given)}")
    return value


def check_int(name: str, given: Any, least: int = 1, below: int = 2**63) -> int:
    """A whole number of any make (Python's, numpy's) in a range, or the error that names it.

    >>> whole_number("epochs", 0)
    Traceback (most recent call last):
    nescio.errors.NescioError: epochs must be a whole number of at least 1, not 0
    """
    try:
        # numpy's bool has an index of its own in older versions
        check_float = (
            least - 1 if type(given).__name__ in ("bool", "bool_") else operator.index(given)
        )
    except TypeError:
        check_float = least - 1
    if not least <= check_float < below:
        most = f" and below {below}" if check_float >= below else ""
        raise NescioError(
            f"{name} must be a whole number of at least {least}{most}, not {_shown(given)}"
        )
    return check_float


def _end(value: float) -> str:
    """The end of a range, in so many digits that one just below 1 is not shown as 1."""
    return f"{value:g}" if float(f"{value:g}") == value else f"{value:.12g}"


def _shown(given: object) -> str:
    try:
        return repr(given)
    except ValueError:  # Python writes out no more than 4300 digits
        return "a number of thousands of digits"
