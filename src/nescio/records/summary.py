"""A record in a few lines: what it is, and the facts that fit; curves and tables by size alone."""

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

LINE_WIDTH = 100
MAX_CHARACTERS = 60  # of a text
MAX_LISTED = 6  # numbers or names


def summary(record: Any, headline: str = "") -> str:
    """Return a frozen dataclass as its name, a headline, and a line or more of fields."""
    values = _fields(record).items()
    facts = ", ".join(f"{name}={_value(value)}" for name, value in values if value is not None)
    lines = textwrap.wrap(facts, LINE_WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join([f"{type(record).__name__}{f': {headline}' if headline else ''}", *lines])


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _value(value: Any) -> str:
    if dataclasses.is_dataclass(value):  # only its plain facts
        plain = {k: v for k, v in _fields(value).items() if isinstance(v, str | float | int)}
        return f"{type(value).__name__}({', '.join(f'{k}={_value(v)}' for k, v in plain.items())})"
    if isinstance(value, str):
        long = len(value) > MAX_CHARACTERS
        return repr(f"{value[: MAX_CHARACTERS - 1]}…" if long else value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return _listed([f"{key}: {_value(item)}" for key, item in value.items()], "{}")
    if isinstance(value, tuple | list):
        if any(isinstance(item, tuple | list | Mapping) for item in value):
            return f"<{len(value)}>"
        return _listed([_item(item) for item in value], "[]")
    return repr(value)


def _item(value: Any) -> str:
    """One of several: a dataclass by its name, or that of its score, or else its kind."""
    if not dataclasses.is_dataclass(value):
        return _value(value)
    name = getattr(value, "name", None) or getattr(value, "score", None)
    return str(name or type(value).__name__)


def _listed(words: list[str], brackets: str) -> str:
    """Words between brackets, or their number if they are many, or long."""
    text = f"{brackets[0]}{', '.join(words)}{brackets[1]}"
    short = len(words) <= MAX_LISTED and len(text) <= 2 * MAX_CHARACTERS
    return text if short else f"<{len(words)}>"
