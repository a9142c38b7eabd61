"""Which records a report is of: files, the folder of a run, or a folder of such."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nescio.errors import NescioError
from nescio.records import History, Record, read_record
from nescio.records.json_text import parse_json as parsed
from nescio.report.naming import Place, names_of, not_alike

Named = list[tuple[str, Record]]


@dataclass(frozen=True)
class _Found:
    """A record, where it is, and what it goes by: the name that was given for it or, without one, its place's."""

    file: Path  # links followed
    record: Record
    given: str
    place: Place


def records_in(given: Sequence[str]) -> Named:
    """Records with the names to show them under, from files and folders, each with or without `NAME=` before it.

    A folder stands for all records in it and in the folders in it. Without a name, records go by their folder's, or by
    their file's, with so many folders above it as tell it from others. What is given twice is there once.
    """
    found = _once([one for word in given for one in _of_word(word)])
    if not found:
        raise NescioError("a report takes one or more records; given: none")
    for name in dict.fromkeys(one.given for one in found if one.given):
        _check_alike(name, [one for one in found if one.given == name])
    names = names_of([one.place for one in found if not one.given], {one.given for one in found})
    return [(one.given or names[one.place.path], one.record) for one in found]


def check_output(given: Sequence[str], output: Path) -> None:
    """An error if a page written there would take the place of a record, or of a folder with some.

    Args:
        given: as in `records_in`.
        output: where the page is to be written.
    """
    page = output.resolve()
    if ".json" in (output.suffix.lower(), page.suffix.lower()):
        raise NescioError(
            f"a page does not end in .json, as records do: {str(output)!r}; expected such as report.html"
        )
    for _, path in map(_named, given):
        # an output that is not there yet may still be a folder on the way to a record, once links are followed
        if page in (path.resolve(), *path.resolve().parents) or (
            output.exists() and path.exists() and output.samefile(path)
        ):
            raise NescioError(
                f"the page would take the place of what it is made from: {str(output)!r}"
            )


def _named(word: str) -> tuple[str, Path]:
    """The name before `=`, if there is one, and the place after it."""
    name, mark, place = word.partition("=")
    if not mark or os.path.exists(word):
        name, place = "", word
    if not place:  # as a path this would be the folder one is in
        raise NescioError(f"{word!r} names no file or folder; expected [NAME=]RECORDS")
    return name, Path(place)


def _of_word(word: str) -> list[_Found]:
    name, path = _named(word)
    if not path.exists():
        raise NescioError(
            f"there is no file or folder {str(path)!r}; expected a record, or a folder with some"
        )
    if path.is_dir():
        return _in_folder(path, name)
    return [_Found(path.resolve(), read_record(path), name, _place(path))]


def _place(path: Path, parts: int = 1) -> Place:
    return Place(path.parent.resolve() / path.name if path.is_file() else path.resolve(), parts)


def _once(found: Sequence[_Found]) -> list[_Found]:
    """Each file once, or once for each name that was given for it; of its places the outermost, as that of a run."""
    best: dict[tuple[Path, str], _Found] = {}
    named = {one.file for one in found if one.given}
    for one in found:
        if one.given or one.file not in named:
            other = best.setdefault((one.file, one.given), one)
            if len(one.place.path.parts) < len(other.place.path.parts):
                best[one.file, one.given] = one
    return list(best.values())


def _check_alike(name: str, found: Sequence[_Found]) -> None:
    if differ := not_alike([(one.place.path, one.record) for one in found]):
        raise NescioError(
            f"what is taken together as {name!r} is of different {differ}; expected runs of one method "
            "on the same data: give others another NAME="
        )


def _in_folder(folder: Path, name: str) -> list[_Found]:
    inside = _from(folder, name, folder)
    if not inside:
        raise NescioError(
            f"there is no record in the folder {str(folder)!r}, nor in those in it; `nescio train`, "
            "`evaluate`, `audit` and others write records, *.json"
        )
    return inside


def _from(folder: Path, name: str, top: Path, run: Place | None = None) -> list[_Found]:
    """The records of a folder and of those in it; what is within a run, as its detector, goes by the run's name."""
    place = run or _place(folder, max(1, len(folder.relative_to(top).parts)))
    files = _beside(folder)
    records = [read_record(file) for file in files]
    of_run = any(isinstance(record, History) for record in records)
    places = [place] * len(files)
    if run is None and _of_many(records):
        of_run, places = False, [_place(file, place.parts + 1) for file in files]
    inside = [
        _Found(file.resolve(), record, name, there)
        for file, record, there in zip(files, records, places, strict=True)
    ]
    return inside + [
        one for path in _below(folder) for one in _from(path, name, top, place if of_run else run)
    ]


def _of_many(records: Sequence[Record]) -> bool:
    """Whether records that stand in one folder are of several models."""
    trainings = sum(isinstance(record, History) for record in records)
    return trainings > 1 or not_alike([(Path(), record) for record in records]) is not None


def _below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]


def _beside(folder: Path) -> list[Path]:
    """The files of records that stand in a folder; other JSON files are left alone, broken ones are not."""
    return [path for path in sorted(folder.glob("*.json")) if path.is_file() and _is_record(path)]


def _is_record(path: Path) -> bool:
    try:
        body = parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NescioError(f"cannot read {str(path)!r}: {error}") from error
    return isinstance(body, dict) and "record" in body
