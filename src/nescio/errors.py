"""The one error of bad input: it says what was given and what was expected."""

from collections.abc import Iterable
from difflib import get_close_matches


class NescioError(ValueError):
    """Something given from outside cannot be used; the command line shows it without a traceback."""


def unknown_name(kind: str, given: object, known: Iterable[str]) -> NescioError:
    """The error for a name that is in no table, with the nearest names that are.

    >>> raise unknown_name("score", "entropi", ["entropy", "margin"])
    Traceback (most recent call last):
    nescio.errors.NescioError: unknown score 'entropi'; did you mean 'entropy'? Known: entropy, margin
    """
    names = sorted(known)
    near = get_close_matches(str(given), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return NescioError(f"unknown {kind} {given!r}{hint} Known: {', '.join(names)}")
