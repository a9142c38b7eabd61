"""A record in a few lines: what it is, and the facts in it that fit; curves and tables by their size alone."""

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

WIDTH = 100
WORDS = 60  # characters of a text
FEW = 6  # numbers or names that are listed


def short(record: Any, headline: str = "") -> str:
    """A frozen dataclass as its name, a headline, and a line or more of fields."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    told = ", ".join(
        f"{name}={_value(value)}" for name, value in fields.items() if value is not None
    )
    lines = textwrap.wrap(told, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join([f"{type(record).__name__}{f': {headline}' if headline else ''}", *lines])


def _value(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return _within(value)
    if isinstance(value, str):
        return repr(value if len(value) <= WORDS else f"{value[: WORDS - 1]}…")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return _listed([f"{key}: {_value(item)}" for key, item in value.items()], "{}")
    if isinstance(value, tuple | list):
        if any(isinstance(one, tuple | list | Mapping) for one in value):
            return f"<{len(value)}>"
        return _listed([_called(one) for one in value], "[]")
    return repr(value)


def _called(value: Any) -> str:
    """One of several: a dataclass by its name, or that of its score, or else its kind."""
    if not dataclasses.is_dataclass(value):
        return _value(value)
    return str(
        getattr(value, "name", None) or getattr(value, "score", None) or type(value).__name__
    )


def _within(value: Any) -> str:
    """A dataclass in a record: only its plain facts."""
    facts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    plain = [
        f"{name}={_value(one)}" for name, one in facts.items() if isinstance(one, str | float | int)
    ]
    return f"{type(value).__name__}({', '.join(plain)})"


def _listed(words: list[str], marks: str) -> str:
    """Some words between two marks, or their number if they are many, or long."""
    told = f"{marks[0]}{', '.join(words)}{marks[1]}"
    return told if len(words) <= FEW and len(told) <= 2 * WORDS else f"<{len(words)}>"
