"""Any record from its file: which kind it is, the file says."""

import os
from pathlib import Path

from nescio.errors import NescioError, unknown_name
from nescio.records.parsing import parsed
from nescio.records.record import Record


def read_record(path: str | os.PathLike[str]) -> Record:
    """The record in a file, whatever its kind."""
    kinds = {kind.__name__: kind for kind in Record.__subclasses__()}
    try:
        body = parsed(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NescioError(f"cannot read {os.fspath(path)!r}: {error}") from error
    name = body.get("record") if isinstance(body, dict) else None
    if not isinstance(name, str) or name not in kinds:
        where = os.fspath(path)
        raise (
            unknown_name(f"kind of record in {where!r}", name, kinds)
            if name
            else NescioError(f"{where!r} is no record of nescio")
        )
    return kinds[name].load(path)
