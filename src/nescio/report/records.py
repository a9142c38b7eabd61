"""Which records a report is of, and the names they are shown under."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nescio.errors import NescioError
from nescio.records import Decision, Evaluation, Examples, History, Record, read_record
from nescio.records.plain import parse_json

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class ReportContext:
    """The records of a report, each with the name it is shown under, such as its run's.

    >>> ReportContext((("mine", nescio.evaluate(net, known.test)),)).records[0][0]
    'mine'
    """

    records: tuple[tuple[str, Record], ...]

    def of(self, kind: type[R]) -> list[tuple[str, R]]:
        """Return the records of one kind."""
        return [(name, record) for name, record in self.records if isinstance(record, kind)]

    def unique(self, kind: type[R]) -> list[tuple[str, R]]:
        """Return the records of one kind, numbered where several share a name."""
        records = self.of(kind)
        names = [name for name, _ in records]
        return [
            (name if names.count(name) == 1 else f"{name} ({names[:i].count(name) + 1})", record)
            for i, (name, record) in enumerate(records)
        ]


@dataclass(frozen=True)
class Place:
    """A run's folder or a file, named by so many of the last parts of its path."""

    path: Path
    parts: int = 1

    @property
    def name(self) -> str:
        """Those parts, or the whole path if it has no more."""
        whole = self.path.with_name(self.path.stem) if self.path.is_file() else self.path
        if self.parts >= len(whole.parts):
            return str(self.path)
        return Path(*whole.parts[-self.parts :]).as_posix()


@dataclass(frozen=True)
class _Located:
    """A record, its file with links resolved, the name given for it or "", and its place."""

    file: Path
    record: Record
    given_name: str
    place: Place


def records_in(arguments: Sequence[str]) -> list[tuple[str, Record]]:
    """Return the records in files and folders, each with or without `NAME=` before it.

    A folder stands for all records in it and its subfolders. Without a name, records are named
    after their folder or file, with as many parents as make the name unique; repeats count once.

    >>> nescio.evaluate(net, known.test).save("run/evaluation.json")
    >>> [name for name, _ in records_in(["mine=run"])]
    ['mine']
    """
    located = _deduplicate([item for argument in arguments for item in _read(argument)])
    if not located:
        raise NescioError("a report needs at least one record, got none")
    for name in dict.fromkeys(item.given_name for item in located if item.given_name):
        group = [(item.place.path, item.record) for item in located if item.given_name == name]
        if difference := incompatible(group):
            expected = "runs of one method on the same data: give the others another NAME="
            problem = f"records named {name!r} are of different {difference}"
            raise NescioError(f"{problem}; expected {expected}")
    taken = {item.given_name for item in located}
    names = unique_names([item.place for item in located if not item.given_name], taken)
    return [(item.given_name or names[item.place.path], item.record) for item in located]


def check_output(arguments: Sequence[str], output: Path) -> None:
    """Raise if a page written to `output` would replace a record, or a folder of records."""
    page = output.resolve()
    if ".json" in (output.suffix.lower(), page.suffix.lower()):
        problem = f"a page must not end in .json, as records do, got {str(output)!r}"
        raise NescioError(f"{problem}; expected a name such as report.html")
    for _, path in map(_split_name, arguments):
        # an output that does not exist yet may still be a parent folder of a record
        same = output.exists() and path.exists() and output.samefile(path)
        if same or page in (path.resolve(), *path.resolve().parents):
            raise NescioError(f"the page would replace what it is made from: {str(output)!r}")


def unique_names(places: Sequence[Place], taken: Collection[str] = ()) -> dict[Path, str]:
    """Return a name for each place, with parent folders where others share it or it is taken."""
    by_path = {place.path: place for place in reversed(places)}  # the first of each
    while True:
        counts = Counter([*set(taken), *(place.name for place in by_path.values())])
        same = [place for place in by_path.values() if counts[place.name] > 1]
        ambiguous = [place for place in same if place.parts < len(place.path.parts)]
        if not ambiguous:
            return {path: place.name for path, place in by_path.items()}
        by_path |= {place.path: Place(place.path, place.parts + 1) for place in ambiguous}


def incompatible(records: Sequence[tuple[Path, Record]]) -> str | None:
    """Return how records, each with its run's place, differ in method or data; None if they agree.

    One run may be evaluated on several data sets.
    """

    def listed(places: dict[str, Path]) -> str:
        return ", ".join(f"{name} in {str(path)!r}" for name, path in places.items())

    # the history of ensemble members trained one by one names the members' method
    for history in (True, False):
        methods = {}
        for path, record in records:
            method = getattr(record, "method", None)
            if isinstance(record, History) == history and isinstance(method, str):
                methods[method] = path
        if len(methods) > 1:
            return f"methods: {listed(methods)}"
    data: dict[Path, set[str]] = {}
    for path, record in records:
        if isinstance(record, Evaluation | Decision | Examples):
            known = record.known if isinstance(record.known, str) else record.known.name
            data.setdefault(path, set()).add(known)
    if data and not set.intersection(*data.values()):
        places = {name: path for path, names in data.items() for name in sorted(names)}
        return f"known data: {listed(places)}"
    return None


def _split_name(argument: str) -> tuple[str, Path]:
    """Return the name before `=`, if there is one, and the path."""
    name, equals, path = argument.partition("=")
    if not equals or os.path.exists(argument):
        name, path = "", argument
    if not path:  # Path("") would be the working directory
        raise NescioError(f"{argument!r} names no file or folder; expected [NAME=]RECORDS")
    return name, Path(path)


def _read(argument: str) -> list[_Located]:
    name, path = _split_name(argument)
    if not path.exists():
        raise NescioError(f"no file or folder {str(path)!r}; expected a record or a folder of them")
    if not path.is_dir():
        return [_Located(path.resolve(), read_record(path), name, _place(path))]
    if located := _read_folder(path, name, path):
        return located
    hint = "`nescio train`, `evaluate`, `audit` and others write records, *.json"
    raise NescioError(f"no record in the folder {str(path)!r} or its subfolders; {hint}")


def _place(path: Path, parts: int = 1) -> Place:
    return Place(path.parent.resolve() / path.name if path.is_file() else path.resolve(), parts)


def _deduplicate(located: Sequence[_Located]) -> list[_Located]:
    """Keep each file once per name given for it, at its outermost place, as that of a run."""
    best: dict[tuple[Path, str], _Located] = {}
    named = {item.file for item in located if item.given_name}
    for item in located:
        if item.given_name or item.file not in named:
            other = best.setdefault((item.file, item.given_name), item)
            if len(item.place.path.parts) < len(other.place.path.parts):
                best[item.file, item.given_name] = item
    return list(best.values())


def _read_folder(folder: Path, name: str, top: Path, run: Place | None = None) -> list[_Located]:
    """Read a folder and its subfolders; what is within a run has the run's name."""
    place = run or _place(folder, max(1, len(folder.relative_to(top).parts)))
    files = [path for path in sorted(folder.glob("*.json")) if path.is_file() and _is_record(path)]
    records = [read_record(file) for file in files]
    histories = sum(isinstance(record, History) for record in records)
    several = histories > 1 or incompatible([(Path(), record) for record in records]) is not None
    is_run, places = histories > 0, [place] * len(files)
    if run is None and several:  # one folder with records of several models
        is_run, places = False, [_place(file, place.parts + 1) for file in files]
    triples = zip(files, records, places, strict=True)
    located = [_Located(file.resolve(), record, name, where) for file, record, where in triples]
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            located += _read_folder(path, name, top, place if is_run else run)
    return located


def _is_record(path: Path) -> bool:
    """Whether a JSON file is a record; raises if it is no JSON."""
    try:
        body = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NescioError(f"cannot read {str(path)!r}: {error}") from error
    return isinstance(body, dict) and "record" in body
