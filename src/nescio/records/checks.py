"""What must hold within a record. Each is checked when a record is made or read, so that no later step must cope."""

from collections.abc import Collection, Iterator, Sized
from typing import Any, NoReturn

from nescio.errors import NescioError

LARGEST = 1e100  # coordinate of which a figure can be drawn
ROUNDING = 1e-6  # by which a sum of shares may exceed 1


def check_together(what: object, /, **lists: Sized | None) -> None:
    """An error if lists that go together are not of one length, or are empty; None is a list that was not kept."""
    _check_lengths(what, lists, "the same, and none empty", empty=False)


def check_lengths(what: object, /, **lists: Sized | None) -> None:
    """The same, but all may be empty."""
    _check_lengths(what, lists, "the same", empty=True)


def _check_lengths(
    what: object, lists: dict[str, Sized | None], expected: str, empty: bool
) -> None:
    lengths = {name: len(one) for name, one in lists.items() if one is not None}
    if len(set(lengths.values())) > 1 or (not empty and 0 in lengths.values()):
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise NescioError(
            f"a record is damaged: lengths of what goes together in {_a(what)}: {told}; "
            f"expected {expected}"
        )


def check_shares(what: object, *names: str) -> None:
    """An error if a number of these fields, or of the lists in them, is no share, from 0 to 1."""
    for name in names:
        if any(not -ROUNDING <= number <= 1 + ROUNDING for number in _numbers(getattr(what, name))):
            damaged(what, name, "shares, from 0 to 1")


def check_counts(what: object, *names: str, least: int = 0) -> None:
    """An error if a number of these fields, or of the lists in them, is less than a count can be."""
    for name in names:
        if any(not least <= number < 2**63 for number in _numbers(getattr(what, name))):
            damaged(what, name, f"whole numbers of at least {least}")


def check_not_negative(what: object, *names: str) -> None:
    """An error if a number of these fields, or of the lists in them, is below 0, as no time or distance is."""
    for name in names:
        if any(number < 0 for number in _numbers(getattr(what, name))):
            damaged(what, name, "nothing below 0")


def check_positive(what: object, *names: str) -> None:
    """An error if a number of these fields, or of the lists in them, is 0 or below, as no factor is."""
    for name in names:
        if any(number <= 0 for number in _numbers(getattr(what, name))):
            damaged(what, name, "more than 0")


def check_word(what: object, name: str, words: Collection[str]) -> None:
    """An error if a field says something else than it may."""
    if getattr(what, name) not in words:
        damaged(what, name, " or ".join(map(repr, words)))


def check_size(what: object, name: str, *sizes: int) -> None:
    """An error if a list has none of these lengths; None is a list that was not kept."""
    if (found := getattr(what, name)) is not None and len(found) not in sizes:
        damaged(what, name, f"{' or '.join(map(str, sizes))} of them")


def check_pairs(
    what: object, name: str, found: Collection[Collection[float]], least: int = 0
) -> None:
    """An error if points of the plane do not have two numbers each that can be reckoned with, or are too few."""
    if len(found) < least or any(
        len(point) != 2 or max(map(abs, point)) > LARGEST for point in found
    ):
        damaged(what, name, f"pairs of numbers of at most {LARGEST:g}, {least} or more")


def check_image(what: object, name: str, image: Collection[Any] | None) -> None:
    """An error if an image is not channels × rows × columns, one channel or three, with some of each."""
    if image is None:
        return
    sizes = {(len(rows), len(row)) for rows in image for row in rows}
    if len(image) not in (1, 3) or len(sizes) != 1 or 0 in next(iter(sizes)) or not all(image):
        damaged(what, name, "one channel or three of equal rows")


def damaged(what: object, name: str, expected: str) -> NoReturn:
    """The error for a field that is what it cannot be."""
    given = repr(getattr(what, name))
    told = given if len(given) <= 60 else f"{given[:60]}…"
    raise NescioError(f"a record is damaged: {name} of {_a(what)} is {told}; expected {expected}")


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
