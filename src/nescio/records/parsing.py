"""JSON text as plain data: what could not be written again, or gone through, is refused here, and not met later."""

import json
from typing import Any

from nescio.errors import NescioError

DEEPEST = 100  # lists within lists; no record of ours has more than some ten


def parsed(text: str) -> Any:
    r"""What a JSON text says, or an error that says why it is none of ours.

    That is also text with NaN, with a name given twice, with half a character, or nested so deep that it serves only
    to break what reads it.

    >>> parsed('{"a": "\\ud83d\\ude00", "b": [1, 2.5]}')
    {'a': '😀', 'b': [1, 2.5]}
    >>> parsed('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    nescio.errors.NescioError: no JSON of ours ('a' is given twice)
    """
    try:
        body = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_once)
        _check_depth(body)
        if (
            r"\ud" in text.lower()
        ):  # as halves of a character are written, with or without the other half
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise NescioError(
            f"no JSON of ours (it holds half a character, {error.object[error.start]!r})"
        ) from error
    except RecursionError as error:
        raise NescioError("no JSON of ours (it is nested too deep)") from error
    except ValueError as error:
        raise NescioError(f"no JSON of ours ({error})") from error
    return body


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)!r} is given twice"
        )
    return found


def _check_depth(body: Any) -> None:
    level = [body] if isinstance(body, dict | list) else []
    for _ in range(DEEPEST):
        inner = (item for one in level for item in (one.values() if isinstance(one, dict) else one))
        level = [item for item in inner if isinstance(item, dict | list)]
    if level:
        raise RecursionError
