"""What is at hand: every data set, and where its files are."""

import os
from dataclasses import dataclass
from pathlib import Path

from nescio.data.sources.catalogue import CATALOGUE
from nescio.data.sources.on_disk import found


@dataclass(frozen=True)
class Status:
    """One data set: whether it can be loaded now, from where ("embedded", or a path), and whether it can be fetched."""

    name: str
    kind: str
    present: bool
    where: Path | str | None
    about: str
    downloadable: bool


def status(root: str | os.PathLike[str] | None = None) -> list[Status]:
    """The state of each set in the catalogue; files are looked for as `load` does, and not opened."""
    states = []
    for name, entry in CATALOGUE.items():
        held = found(name, root)
        where = None if held is None else held[1][0] if len(held[1]) == 1 else held[1][0].parent
        place: Path | str | None = where if entry.sources else "embedded"
        states.append(
            Status(name, entry.kind, place is not None, place, entry.about, bool(entry.remotes))
        )
    return states
