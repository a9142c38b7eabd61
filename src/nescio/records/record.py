"""A frozen result as plain data, JSON in and out."""

import dataclasses
import json
import math
import os
import platform
import types
import typing
from dataclasses import dataclass
from importlib import metadata
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

from nescio.errors import NescioError
from nescio.files import replacing
from nescio.records.checks import check_not_negative
from nescio.records.command import command
from nescio.records.parsing import parsed
from nescio.records.short import short

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """A frozen result. Subclasses are dataclasses of plain values, tuples and other frozen dataclasses."""

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Record.__repr__  # type: ignore[method-assign]  # else a dataclass makes one with every number

    def __repr__(self) -> str:
        return short(self, self.headline())

    def headline(self) -> str:
        """What matters most, in a few words; few records have one."""
        return ""

    def to_json(self) -> str:
        """The record as JSON text; what is undefined is null, and nothing in it is NaN or infinite."""
        body = {"record": type(self).__name__, "format": FORMAT, **to_plain(self)}
        return as_json(body)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The record in a JSON text, checked field by field."""
        try:
            body = parsed(text)
        except NescioError as error:
            raise NescioError(f"{_not_of(cls)}: {error}") from error
        if not isinstance(body, dict) or body.pop("record", None) != cls.__name__:
            raise NescioError(_not_of(cls))
        if (version := body.pop("format", None)) != FORMAT:
            raise NescioError(
                f"{cls.__name__} record of format {version!r}; this version of nescio reads format {FORMAT}"
            )
        made: Self = from_plain(cls, body, cls.__name__)
        return made

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the record; the file is whole or not there.

        It takes the place of a record of its kind, and with `force` of anything.
        """
        text = self.to_json()
        with replacing(path, "w", force) as file:
            file.write(text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a record back."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NescioError(f"cannot read {os.fspath(path)!r}: {error}") from error
        try:
            return cls.from_json(text)
        except NescioError as error:
            raise NescioError(f"{os.fspath(path)!r}: {error}") from error


@dataclass(frozen=True)
class Provenance:
    """Where a record comes from: enough to make it again."""

    seed: int
    settings: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    command: str | None = (
        None  # what was typed; None of what was made from Python, or before it was kept
    )

    PACKAGES: ClassVar = ("nescio", "torch", "numpy", "scikit-learn")

    def __post_init__(self) -> None:
        check_not_negative(self, "seconds")

    @classmethod
    def now(cls, seed: int, settings: dict[str, Any], seconds: float) -> Self:
        """Provenance of work just done, with the versions of what did it, and the command."""
        versions = {"python": platform.python_version()}
        for package in cls.PACKAGES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:  # run from a source tree
                versions[package] = "unknown"
        return cls(seed, to_plain(settings), seconds, versions, command())


def as_json(body: dict[str, Any]) -> str:
    """Plain data as text, always the same way."""
    return json.dumps(body, indent=1, allow_nan=False, ensure_ascii=False)


def _not_of(kind: type[Record]) -> str:
    """That something is not a record of a kind."""
    return f"not {'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__} record"


def to_plain(value: Any) -> Any:
    """Dataclasses, tuples and dicts as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {_text(str(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):  # numpy's too, as are the reals
        return int(value)
    if not isinstance(value, Real):
        raise NescioError(f"a {type(value).__name__} cannot be kept as plain data: {value!r}")
    if not math.isfinite(value):
        raise NescioError("a record holds NaN or an infinity; what is undefined should be None")
    return float(value)


def _text(value: str) -> str:
    """Text that a file can hold: bytes of a file's name that are no text are left open, as `?`."""
    return value.encode(errors="replace").decode()


def from_plain(kind: Any, value: Any, where: str) -> Any:
    """A value of the annotated kind, or an error naming the field."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        # what has a default came later, and an older file lacks it
        needed = {
            field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING
        }
        if not isinstance(value, dict) or not needed <= set(value) <= set(names):
            raise NescioError(f"{where}: expected the fields {', '.join(names)}")
        return kind(
            **{
                name: from_plain(hints[name], item, f"{where}.{name}")
                for name, item in value.items()
            }
        )  # type: ignore[operator]
    if origin in (typing.Union, types.UnionType):
        return (
            None
            if value is None
            else from_plain(next(k for k in inner if k is not type(None)), value, where)
        )
    if origin is tuple and isinstance(value, list):
        return tuple(from_plain(inner[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {key: from_plain(inner[1], item, f"{where}[{key!r}]") for key, item in value.items()}
    if kind is Any:
        return to_plain(value)  # an error if it is infinite, as a number with many digits is
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, where)
    if (
        isinstance(kind, type)
        and isinstance(value, kind)
        and (kind is bool or not isinstance(value, bool))
    ):
        return value
    raise NescioError(f"{where}: expected {kind}, not {value!r}")


def _finite(value: float, where: str) -> float:
    """Python reads numbers that no float can hold as infinite, or as whole numbers."""
    try:
        if math.isfinite(number := float(value)):
            return number
    except OverflowError:
        pass
    raise NescioError(f"{where}: expected a number that is finite")
