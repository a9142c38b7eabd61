"""Frozen dataclasses as plain data and JSON text, and back, checked field by field."""

import dataclasses
import json
import math
import types
import typing
from numbers import Integral, Real
from typing import Any

from nescio.errors import NescioError

MAX_DEPTH = 100  # lists within lists; no record of ours has more than some ten


def to_plain(value: Any) -> Any:
    """Return dataclasses, tuples and dicts as what JSON knows.

    >>> to_plain({"shape": (2, 3)})
    {'shape': [2, 3]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: to_plain(getattr(value, field.name)) for field in fields}
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
        raise NescioError(f"a {type(value).__name__} is no plain data: {value!r}")
    if not math.isfinite(value):
        raise NescioError("a record holds NaN or an infinity; what is undefined should be None")
    return float(value)


def _text(value: str) -> str:
    """Text that a file can hold: bytes of a file's name that are no text become `?`."""
    return value.encode(errors="replace").decode()


def from_plain(kind: Any, value: Any, where: str) -> Any:
    """Return a value of the annotated kind, or raise an error naming the field.

    >>> from_plain(tuple[int, ...], [2, 3], "shape")
    (2, 3)
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, where)
    if origin in (typing.Union, types.UnionType):
        kind = next(k for k in inner if k is not type(None))
        return None if value is None else from_plain(kind, value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(from_plain(inner[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {key: from_plain(inner[1], item, f"{where}[{key!r}]") for key, item in value.items()}
    if kind is Any:
        return to_plain(value)  # an error if it is infinite, as a number with many digits is
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, where)
    is_kind = isinstance(kind, type) and isinstance(value, kind)
    if is_kind and (kind is bool or not isinstance(value, bool)):
        return value
    raise NescioError(f"{where}: expected {kind}, got {value!r}")


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    names = [field.name for field in fields]
    if not isinstance(value, dict) or not needed <= set(value) <= set(names):
        raise NescioError(f"{where}: expected the fields {', '.join(names)}")
    items = {n: from_plain(hints[n], item, f"{where}.{n}") for n, item in value.items()}
    return kind(**items)


def _finite(value: float, where: str) -> float:
    """Python reads numbers that no float can hold as infinite, or as integers."""
    try:
        if math.isfinite(number := float(value)):
            return number
    except OverflowError:
        pass
    raise NescioError(f"{where}: expected a finite number")


def parse_json(text: str) -> Any:
    r"""Return what a JSON text says, or raise an error if it is none of ours.

    That is also text with NaN, with a name given twice, with half a character, or nested so deep
    that it serves only to break what reads it.

    >>> parse_json('{"a": "\\ud83d\\ude00", "b": [1, 2.5]}')
    {'a': '😀', 'b': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    nescio.errors.NescioError: not valid JSON ('a' is given twice)
    """
    try:
        body = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
        _check_depth(body)
        if r"\ud" in text.lower():  # as halves of a character are written
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise NescioError(f"not valid JSON (it holds half a character, {half!r})") from error
    except RecursionError as error:
        raise NescioError("not valid JSON (it is nested too deep)") from error
    except ValueError as error:
        raise NescioError(f"not valid JSON ({error})") from error
    return body


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys: set[str] = set()
    for name, _ in pairs:
        if name in keys:
            raise ValueError(f"{name!r} is given twice")
        keys.add(name)
    return dict(pairs)


def _check_depth(body: Any) -> None:
    level = [body] if isinstance(body, dict | list) else []
    for _ in range(MAX_DEPTH):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [item for part in parts for item in part if isinstance(item, dict | list)]
    if level:
        raise RecursionError
