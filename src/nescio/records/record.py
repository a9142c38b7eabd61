"""A frozen result as plain data, JSON in and out."""

import dataclasses
import json
import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from nescio.errors import NescioError, check_path, unknown_name
from nescio.files import RECORDS, atomic_write
from nescio.records.checks import Checked
from nescio.records.plain import from_plain, parse_json, to_plain

FORMAT = 1  # version of the files that records are written to
ELSEWHERE = "Records of the papers' experiments are shown by `python -m papers report`"
LINE_WIDTH = 100  # of a summary
MAX_CHARACTERS = 60  # of a text
MAX_LISTED = 6  # numbers or names


@dataclass(frozen=True)
class Record(Checked):
    """A frozen result: a dataclass of plain values, tuples and other frozen dataclasses.

    A subclass registers itself by its name: `read_record` finds every kind that is imported.

    >>> record = nescio.evaluate(net, known.test, scores="entropy")
    >>> record.save("evaluation.json")
    >>> nescio.records.Evaluation.load("evaluation.json") == record
    True
    """

    KINDS: ClassVar[dict[str, type["Record"]]] = {}
    OF_MODEL: ClassVar[bool] = True  # whether the name it is shown under is a model's
    NEEDED: ClassVar[tuple[str, ...]] = ()  # fields without which a report has nothing to show

    def __init_subclass__(cls) -> None:
        Record.KINDS[cls.__name__] = cls
        RECORDS.add(cls.__name__)
        # else a dataclass makes one with every number
        cls.__repr__ = Record.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return summary(self, self.headline())

    def headline(self) -> str:
        """What matters most, in a few words; few records have one."""
        return ""

    def to_json(self) -> str:
        """The record as JSON text; what is undefined is null, and nothing in it is NaN."""
        return as_json(plain_record(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a record from JSON text, checked field by field."""
        a = f"{'an' if cls.__name__[0] in 'AEIO' else 'a'} {cls.__name__}"
        try:
            body = parse_json(text)
        except NescioError as error:
            raise NescioError(f"not {a} record: {error}") from error
        if not isinstance(body, dict) or body.pop("record", None) != cls.__name__:
            raise NescioError(f"not {a} record")
        if (version := body.pop("format", None)) != FORMAT:
            raise NescioError(
                f"{cls.__name__} record of format {version!r}; this version reads format {FORMAT}"
            )
        record: Self = from_plain(cls, body, cls.__name__)
        return record

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the record; the file is whole or not there.

        It replaces a record of its kind, and with `force` anything.
        """
        text = self.to_json()
        with atomic_write(path, "w", force) as file:
            file.write(text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a record from a file."""
        text = _read(path)
        try:
            return cls.from_json(text)
        except NescioError as error:
            raise NescioError(f"{os.fspath(path)!r}: {error}") from error


def read_record(path: str | os.PathLike[str]) -> Record:
    """Read the record in a file, of any kind that is imported.

    >>> nescio.evaluate(net, known.test, scores="entropy").save("evaluation.json")
    >>> type(read_record("evaluation.json")).__name__
    'Evaluation'
    """
    text = _read(path)
    where = os.fspath(path)
    try:
        body = parse_json(text)
    except NescioError as error:
        raise NescioError(f"cannot read {where!r}: {error}") from error
    name = body.get("record") if isinstance(body, dict) else None
    if not name:
        raise NescioError(f"{where!r} is not a nescio record")
    if not isinstance(name, str) or name not in Record.KINDS:
        unknown = unknown_name(f"kind of record in {where!r}", name, Record.KINDS)
        raise NescioError(f"{unknown}. {ELSEWHERE}")
    return Record.KINDS[name].load(path)


def plain_record(value: Any) -> Any:
    """Return a record as its file has it; also records by name, or other plain data."""
    if isinstance(value, dict):
        return {name: plain_record(record) for name, record in value.items()}
    if not isinstance(value, Record):
        return to_plain(value)
    return {"record": type(value).__name__, "format": FORMAT, **to_plain(value)}


def as_json(body: Any) -> str:
    """Return plain data as text, always the same way."""
    return json.dumps(body, indent=1, allow_nan=False, ensure_ascii=False)


def _read(path: str | os.PathLike[str]) -> str:
    file = check_path("the file of a record", path)
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NescioError(f"cannot read {os.fspath(path)!r}: {error}") from error


def summary(record: Any, headline: str = "") -> str:
    """Return a frozen dataclass in a few lines: its name, a headline, and the facts that fit.

    Curves and tables are shown by their size alone.
    """
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
