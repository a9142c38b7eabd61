"""Readers by format: those the catalogue names, and the one a path's looks ask for."""

from collections.abc import Callable
from pathlib import Path

from nescio.data.catalogue import Entry
from nescio.data.npz import read_npy, read_npz
from nescio.data.parts import Parts
from nescio.errors import NescioError

FORMATS: dict[str, Callable[[tuple[Path, ...], Entry], Parts]] = {
    "npz": lambda paths, entry: read_npz(paths[0], entry.classes, entry.columns),
}


def is_table(path: Path) -> bool:
    """Whether the name says CSV, plain or compressed."""
    return path.name.lower().endswith((".csv", ".csv.gz", ".csv.bz2"))


def parts_at(path: Path) -> Parts:
    """What a path holds, by its suffix."""
    if path.suffix == ".npz":
        return read_npz(path)
    if path.suffix == ".npy":
        return read_npy(path)
    raise NescioError(f"{path}: expected .npz, .npy, .csv, idx files or a folder of images")
