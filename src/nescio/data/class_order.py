"""Names of classes in the order in which people count: 2 before 10, k2 before k10."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

_WHOLE = re.compile(r"-?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
_MOST = Decimal(10) ** 15  # whole numbers up to here are told apart by floats


def in_order(texts: Iterable[str]) -> dict[str, str]:
    """The class that each text stands for, in the order of classes.

    Numbers go by value, and whole ones among floats are written as such. Other texts are compared with the digits
    inside them as numbers, those that are whole numbers before all others.

    >>> list(in_order(["k10", "k2"])), in_order(["10.0", "2.0"])
    (['k2', 'k10'], {'2.0': '2', '10.0': '10'})
    """
    distinct = set(texts)
    if all(_NUMBER.fullmatch(text) for text in distinct):
        return {
            text: plain_name(text)
            for text in sorted(distinct, key=lambda text: (Decimal(text), text))
        }
    return {text: text for text in sorted(distinct, key=_rank)}


def in_older_order(texts: Iterable[str]) -> dict[str, str]:
    """As earlier versions had the labels of a table: texts as they are, whole numbers first and by value."""
    return {text: text for text in sorted(set(texts), key=lambda text: (*_value(text), text))}


def plain_name(text: str) -> str:
    """A whole number that is written as a float, written as a whole number; any other text as it is.

    >>> plain_name("2.000e+00"), plain_name("2.5"), plain_name("02"), plain_name("dog")
    ('2', '2.5', '02', 'dog')
    """
    if _WHOLE.fullmatch(text) or not _NUMBER.fullmatch(text):
        return text
    value = Decimal(text)
    return str(int(value)) if value.copy_abs() < _MOST and value == int(value) else text


def _rank(text: str) -> tuple[Any, ...]:
    parts = re.split(r"(\d+)", text)  # text and digits in turn
    return *_value(text), [Decimal(one) if at % 2 else one for at, one in enumerate(parts)], text


def _value(text: str) -> tuple[bool, Decimal]:
    whole = _WHOLE.fullmatch(text) is not None
    return not whole, Decimal(text if whole else 0)  # int() refuses more than 4300 digits
