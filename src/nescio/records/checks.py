"""What must hold within a record: checked when one is made or read, so no later step must cope.

A field says by its annotation what its numbers, or those of the lists in it, may be: `Fraction`,
`Count`, `Positive`, `NonNegative`, or a `Constraint` of its own.
"""

import typing
from collections.abc import Callable, Collection, Iterator, Sized
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NoReturn

from nescio.errors import NescioError

MAX_COORDINATE = 1e100  # of which a figure can be drawn
ROUNDING = 1e-6  # by which a sum of fractions may exceed 1


@dataclass(frozen=True)
class Constraint:
    """What the value of a field must fulfil, and how an error says so.

    >>> even = Constraint(lambda value: value % 2 == 0, "an even number")
    >>> even.holds(4)
    True
    """

    holds: Callable[[Any], bool]
    expected: str


def _each(holds: Callable[[float], bool], expected: str) -> Constraint:
    return Constraint(lambda value: all(map(holds, _numbers(value))), expected)


def one_of(*words: str | None) -> Constraint:
    """A field that says one of these words."""
    return Constraint(lambda value: value in words, " or ".join(map(repr, words)))


def of_length(*sizes: int) -> Constraint:
    """A list of one of these lengths; None is a list that was not kept."""
    expected = f"{' or '.join(map(str, sizes))} of them"
    return Constraint(lambda value: value is None or len(value) in sizes, expected)


# of a field: a number in [0, 1]
Fraction = Annotated[float, _each(lambda n: -ROUNDING <= n <= 1 + ROUNDING, "fractions in [0, 1]")]
# of a field: an int of at least 0
Count = Annotated[int, _each(lambda n: 0 <= n < 2**63, "whole numbers of at least 0")]
CountFromOne = Annotated[int, _each(lambda n: 1 <= n < 2**63, "whole numbers of at least 1")]
NonNegative = Annotated[float, _each(lambda n: n >= 0, "nothing below 0")]  # of a field: at least 0
PositiveFraction = Annotated[float, _each(lambda n: 0 < n <= 1 + ROUNDING, "fractions in (0, 1]")]
Positive = Annotated[float, _each(lambda n: n > 0, "more than 0")]  # of a field: more than 0
Pair = tuple[float, ...]  # of two, as `check_pairs` makes sure


class Checked:
    """A dataclass whose fields are held against their annotations; `check` may look at several.

    >>> @dataclass(frozen=True)
    ... class Accepted(Checked):
    ...     accepted: Fraction
    >>> Accepted(0.95)
    Accepted(accepted=0.95)
    """

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, constraints in _constraints_of(kind):
            value = getattr(self, name)
            for constraint in constraints:
                if not constraint.holds(value):
                    damaged(self, name, constraint.expected)
        self.check()

    def check(self) -> None:
        """Raise an error if fields do not go together; few have more than annotations."""


@cache
def _constraints_of(kind: type) -> list[tuple[str, list[Constraint]]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    pairs = ((name, list(_constraints(hint))) for name, hint in hints.items())
    return [(name, constraints) for name, constraints in pairs if constraints]


def _constraints(hint: Any) -> Iterator[Constraint]:
    yield from (part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Constraint))
    for inner in typing.get_args(hint):
        if not isinstance(inner, Constraint):
            yield from _constraints(inner)


def check_together(what: object, /, **lists: Sized | None) -> None:
    """Raise an error if lists that go together differ in length, or are empty.

    >>> check_together(known, x=[1, 2], y=[3, 4])
    """
    _check_lengths(what, lists, "equal lengths, and none empty", allow_empty=False)


def check_lengths(what: object, /, **lists: Sized | None) -> None:
    """Raise an error if lists that go together differ in length; None is one that was not kept.

    >>> check_lengths(known, x=[1, 2], y=[3, 4], labels=None)
    """
    _check_lengths(what, lists, "equal lengths", allow_empty=True)


def _check_lengths(
    what: object, lists: dict[str, Sized | None], expected: str, allow_empty: bool
) -> None:
    lengths = {name: len(values) for name, values in lists.items() if values is not None}
    if len(set(lengths.values())) > 1 or (not allow_empty and 0 in lengths.values()):
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise NescioError(
            f"a record is damaged: lengths of lists in {_a(what)}: {listed}; expected {expected}"
        )


def check_pairs(what: object, name: str, points: Collection[Pair], least: int = 0) -> None:
    """Raise an error if points of the plane are no pairs of moderate numbers, or are too few."""
    sound = (len(point) == 2 and max(map(abs, point)) <= MAX_COORDINATE for point in points)
    if len(points) < least or not all(sound):
        damaged(what, name, f"pairs of numbers of at most {MAX_COORDINATE:g}, {least} or more")


def check_image(what: object, name: str, image: Collection[Any] | None) -> None:
    """Raise an error if an image is not channels × rows × columns, one channel or three."""
    if image is None:
        return
    sizes = {(len(rows), len(row)) for rows in image for row in rows}
    if len(image) not in (1, 3) or len(sizes) != 1 or 0 in next(iter(sizes)) or not all(image):
        damaged(what, name, "one channel or three of equal rows")


def damaged(what: object, name: str, expected: str) -> NoReturn:
    """Raise the error for a field that is what it cannot be."""
    value = repr(getattr(what, name))
    value = value if len(value) <= 60 else f"{value[:60]}…"
    raise NescioError(f"a record is damaged: {name} of {_a(what)} is {value}; expected {expected}")


def _numbers(value: Any) -> Iterator[float]:
    """All numbers of a field, which may be one, or lists of such; None is what was not kept."""
    if isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif value is not None:
        yield value


def _a(what: object) -> str:
    kind = type(what).__name__
    return f"{'an' if kind[0] in 'AEIO' else 'a'} {kind}"
