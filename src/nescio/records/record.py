"""A frozen result as plain data, JSON in and out."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from nescio.errors import NescioError, unknown_name
from nescio.files import RECORDS, atomic_write
from nescio.records.checks import Checked
from nescio.records.plain import from_plain, parse_json, to_plain
from nescio.records.summary import summary

FORMAT = 1
ELSEWHERE = "Records of the papers' experiments are shown by `python -m papers report`"


@dataclass(frozen=True)
class Record(Checked):
    """A frozen result: a dataclass of plain values, tuples and other frozen dataclasses.

    A subclass registers itself by its name: `read_record` finds every kind that is imported.
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
        return as_json({"record": type(self).__name__, "format": FORMAT, **to_plain(self)})

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
    """Read the record in a file, of any kind that is imported."""
    where = os.fspath(path)
    text = _read(path)
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


def as_json(body: dict[str, Any]) -> str:
    """Return plain data as text, always the same way."""
    return json.dumps(body, indent=1, allow_nan=False, ensure_ascii=False)


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NescioError(f"cannot read {os.fspath(path)!r}: {error}") from error
