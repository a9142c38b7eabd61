"""JSON text as plain data: what could not be written again is refused here, and not met later."""

import json
from typing import Any

from nescio.errors import NescioError

MAX_DEPTH = 100  # lists within lists; no record of ours has more than some ten


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
        inner = (item for one in level for item in (one.values() if isinstance(one, dict) else one))
        level = [item for item in inner if isinstance(item, dict | list)]
    if level:
        raise RecursionError
