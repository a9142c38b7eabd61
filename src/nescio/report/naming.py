"""What records go by: names that no two models share."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from nescio.records import Decision, Evaluation, Examples, History, Record


@dataclass(frozen=True)
class Place:
    """The folder of a run, or a file; and how many of the last parts of its path it goes by."""

    path: Path
    parts: int = 1

    @property
    def name(self) -> str:
        """Those parts; the whole path if there are no more."""
        whole = self.path.with_name(self.path.stem) if self.path.is_file() else self.path
        return (
            str(self.path)
            if self.parts >= len(whole.parts)
            else Path(*whole.parts[-self.parts :]).as_posix()
        )


def names_of(places: Sequence[Place], taken: Collection[str] = ()) -> dict[Path, str]:
    """A name for each place, longer by the folders above it where others share it or it is taken."""
    found = {place.path: place for place in reversed(places)}  # the first of each
    while shared := _shared(list(found.values()), taken):
        found |= {place.path: Place(place.path, place.parts + 1) for place in shared}
    return {path: place.name for path, place in found.items()}


def _shared(places: Sequence[Place], taken: Collection[str]) -> list[Place]:
    """Those that need a longer name, and have one."""
    count = Counter(place.name for place in places)
    return [
        place
        for place in places
        if (count[place.name] > 1 or place.name in taken) and place.parts < len(place.path.parts)
    ]


def not_alike(found: Sequence[tuple[Path, Record]]) -> str | None:
    """In what records cannot be those of runs of one method on the same data, and which; None if they can be.

    Args:
        found: each with the place of its run. One run may well be judged on several data.
    """
    # the history of members that were trained one after the other is of the members' method
    for kinds in (
        [one for one in found if isinstance(one[1], History)],
        [one for one in found if not isinstance(one[1], History)],
    ):
        methods = {
            method: path
            for path, one in kinds
            if isinstance(method := getattr(one, "method", None), str)
        }
        if len(methods) > 1:
            return f"methods: {_listed(methods)}"
    data: dict[Path, set[str]] = {}
    for path, record in found:
        if isinstance(record, Evaluation | Decision | Examples):
            known = record.known if isinstance(record.known, str) else record.known.name
            data.setdefault(path, set()).add(known)
    if data and not set.intersection(*data.values()):
        return f"known data: {_listed({name: path for path, names in data.items() for name in sorted(names)})}"
    return None


def _listed(places: dict[str, Path]) -> str:
    return ", ".join(f"{name} in {str(path)!r}" for name, path in places.items())
