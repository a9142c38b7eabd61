"""Names of classes and files in natural order: 2 before 10, k2 before k10."""

import re
from collections.abc import Iterable
from decimal import Decimal  # int() refuses more than 4300 digits
from typing import Any

_INTEGER = re.compile(r"-?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
_MAX_EXACT = Decimal(10) ** 15  # integers up to here are distinguished by floats


def in_order(texts: Iterable[str]) -> dict[str, str]:
    """Return the class that each text stands for, in the order of classes.

    Numbers go by value, and integers written as floats lose the fraction. Other texts are compared
    with the digits inside them as numbers, integers before all others.

    >>> list(in_order(["k10", "k2"])), in_order(["10.0", "2.0"])
    (['k2', 'k10'], {'2.0': '2', '10.0': '10'})
    """
    distinct = set(texts)
    if all(_NUMBER.fullmatch(text) for text in distinct):
        numeric = sorted(distinct, key=lambda text: (Decimal(text), text))
        return {text: plain_name(text) for text in numeric}
    return {text: text for text in sorted(distinct, key=_natural)}


def plain_name(text: str) -> str:
    """Return an integer that is written as a float as an integer, any other text as it is.

    >>> plain_name("2.000e+00"), plain_name("2.5"), plain_name("02"), plain_name("dog")
    ('2', '2.5', '02', 'dog')
    """
    if _INTEGER.fullmatch(text) or not _NUMBER.fullmatch(text):
        return text
    value = Decimal(text)
    return str(int(value)) if value.copy_abs() < _MAX_EXACT and value == int(value) else text


def _natural(text: str) -> tuple[Any, ...]:
    """A key to sort by: integers first and by value, then text with the digits in it as numbers."""
    integer = _INTEGER.fullmatch(text) is not None
    pieces = re.split(r"(\d+)", text)  # text and digits alternate
    keys = [Decimal(piece) if at % 2 else piece for at, piece in enumerate(pieces)]
    return not integer, Decimal(text if integer else 0), keys, text
