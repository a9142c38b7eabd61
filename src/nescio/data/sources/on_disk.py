"""Where data files are looked for, and which of a set's files are there."""

import os
from pathlib import Path

import pooch

from nescio.data.sources.catalogue import CATALOGUE, Source


def folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """The folders to look in, in order: `root` alone if it is given, else `$NESCIO_DATA`, then the user's cache."""
    if root is not None:
        return [Path(root)]
    told = os.environ.get("NESCIO_DATA")
    return [*([Path(told)] if told else []), Path(pooch.os_cache("nescio"))]


def found(name: str, root: str | os.PathLike[str] | None) -> tuple[Source, tuple[Path, ...]] | None:
    """The first source of a set whose files are all there, and their paths."""
    for folder in folders(root):
        for source in CATALOGUE[name].sources:
            paths = [_present(folder / file) for file in source.files]
            if all(paths):
                return source, tuple(path for path in paths if path is not None)
    return None


def _present(path: Path) -> Path | None:
    """The path, or its twin that is compressed where it is not, or the other way round."""
    twin = (
        path.with_suffix("")
        if path.suffix in (".gz", ".bz2")
        else path.with_name(path.name + ".gz")
    )
    return next((one for one in (path, twin) if os.path.exists(one)), None)
