"""Which records a report is of: files, the folder of a run, or a folder of such."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from nescio.errors import NescioError
from nescio.records import History, Record, read_record

Named = list[tuple[str, Record]]


def records_in(given: Sequence[str]) -> Named:
    """Records with the names to show them under, from files and folders, each with or without `NAME=` before it.

    A folder stands for all records in it and in the folders in it. Without a name, records go by their folder's, or by
    their file's.
    """
    found: Named = []
    for word in given:
        name, path = _named(word)
        if not path.exists():
            raise NescioError(f"there is no file or folder {str(path)!r}; expected a record, or a folder with some")
        found += _in_folder(path, name) if path.is_dir() else [(name or path.stem, read_record(path))]
    if not found:
        raise NescioError("a report takes one or more records; given: none")
    return found


def check_output(given: Sequence[str], output: Path) -> None:
    """An error if a page written there would take the place of a record, or of a folder with some.

    Args:
        given: as in `records_in`.
        output: where the page is to be written.
    """
    page = output.resolve()
    if ".json" in (output.suffix.lower(), page.suffix.lower()):
        raise NescioError(f"a page does not end in .json, as records do: {str(output)!r}; expected such as report.html")
    for _, path in map(_named, given):
        # an output that is not there yet may still be a folder on the way to a record, once links are followed
        if page in (path.resolve(), *path.resolve().parents) or (
            output.exists() and path.exists() and output.samefile(path)
        ):
            raise NescioError(f"the page would take the place of what it is made from: {str(output)!r}")


def _named(word: str) -> tuple[str, Path]:
    """The name before `=`, if there is one, and the place after it."""
    name, mark, place = word.partition("=")
    if not mark or os.path.exists(word):
        name, place = "", word
    if not place:  # as a path this would be the folder one is in
        raise NescioError(f"{word!r} names no file or folder; expected [NAME=]RECORDS")
    return name, Path(place)


def _in_folder(folder: Path, name: str) -> Named:
    inside = _from(folder, name, folder)
    if not inside:
        raise NescioError(f"there is no record in the folder {str(folder)!r}, nor in those in it; `nescio train`, "
                          "`evaluate`, `audit` and others write records, *.json")  # fmt: skip
    return inside


def _from(folder: Path, name: str, top: Path) -> Named:
    """The records of a folder and of those in it; what is within a run, as its detector, goes by the run's name."""
    called = name or (folder.resolve().name if folder == top else folder.relative_to(top).as_posix())
    inside = _beside(folder, called)
    of_run = any(isinstance(record, History) for _, record in inside)
    return inside + [one for path in _below(folder) for one in _from(path, called if of_run else name, top)]


def _below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]


def _beside(folder: Path, name: str) -> Named:
    """The records that stand in a folder; other JSON files are left alone, broken ones are not."""
    files = [path for path in sorted(folder.glob("*.json")) if path.is_file()]
    return [(name, read_record(path)) for path in files if _is_record(path)]


def _is_record(path: Path) -> bool:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise NescioError(f"cannot read {str(path)!r}: {error}") from error
    return isinstance(body, dict) and "record" in body
