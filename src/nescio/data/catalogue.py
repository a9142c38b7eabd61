"""Every data set by name, as `catalogue.toml` has it: where its files are, and where from."""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nescio.errors import NescioError, check_name

Progress = Callable[[str, int, int | None], None]  # a file's name, bytes so far, bytes in all


@dataclass(frozen=True)
class Remote:
    """One file to download, with its published checksum."""

    file: str
    url: str
    checksum: str


@dataclass(frozen=True)
class Layout:
    """What the columns of a table mean.

    Attributes:
        label: the column of classes; None is the last one.
        names: the class of each text of the label column, in order; {} takes the texts.
        facts: columns kept beside the inputs and not fed to a network.
        split: the column that says "train" or "test"; None splits by seed.
        categorical: columns whose numbers are codes.
    """

    label: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[str] = ()
    split: str | None = None
    categorical: Sequence[str] = ()


@dataclass(frozen=True)
class Entry:
    """One set: of `sources`, files by format, the first that is there is read; none if embedded."""

    kind: str
    about: str
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    columns: Sequence[str] = ()
    layout: Layout | None = None
    remotes: tuple[Remote, ...] = ()

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> "Entry":
        """Return the entry of one table of `catalogue.toml`."""
        layout, classes = facts.pop("layout", None), tuple(facts.pop("classes", ()))
        url, md5s = facts.pop("url", ""), facts.pop("md5", {}).items()
        remotes = (Remote(file, f"{url}/{Path(file).name}", f"md5:{md5}") for file, md5 in md5s)
        layout = None if layout is None else Layout(**layout)
        return cls(**facts, classes=classes, layout=layout, remotes=tuple(remotes))


_TABLES = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE = {name: Entry.from_dict(facts) for name, facts in _TABLES.items()}
NAMES = tuple(CATALOGUE)  # what `load` takes


@dataclass(frozen=True)
class Status:
    """Whether a set can be loaded now, from where ("embedded" or a path), and be downloaded."""

    name: str
    kind: str
    present: bool
    where: Path | str | None
    about: str
    downloadable: bool


def folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders to look in: `root`, else `$NESCIO_DATA`, then the user's cache."""
    if root is not None:
        return [Path(root)]
    from pooch import os_cache  # here: importing nescio.data does not wait for what it loads

    environment = os.environ.get("NESCIO_DATA")
    return [*([Path(environment)] if environment else []), Path(os_cache("nescio"))]


def find(name: str, root: str | os.PathLike[str] | None) -> tuple[str, tuple[Path, ...]] | None:
    """Return the format and the paths of the first source of a set whose files are all there."""
    for folder in folders(root):
        for kind, files in CATALOGUE[name].sources.items():
            paths = tuple(_present(folder / file) for file in files)
            if all(map(os.path.exists, paths)):
                return kind, paths
    return None


def _present(path: Path) -> Path:
    """The path, or if it is missing its twin with or without compression."""
    packed = path.suffix in (".gz", ".bz2")
    twin = path.with_suffix("") if packed else path.with_name(path.name + ".gz")
    return path if os.path.exists(path) else twin


def status(root: str | os.PathLike[str] | None = None) -> list[Status]:
    """Return the state of each set; files are looked for as `load` does, and not opened.

    >>> [one.name for one in status() if one.where == "embedded"]
    ['two_moons', 'two_gaussians', 'three_blobs', 'digits', 'breast_cancer', 'wine', 'iris']
    """
    states = []
    for name, entry in CATALOGUE.items():
        where: Path | str | None = None if entry.sources else "embedded"
        if source := find(name, root):
            first, *others = source[1]
            where = first.parent if others else first
        remote = bool(entry.remotes)
        states.append(Status(name, entry.kind, where is not None, where, entry.about, remote))
    return states


def download(
    name: str,
    root: str | os.PathLike[str] | None = None,
    base_url: str | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Download a set's published files to where `load` finds them, and return their paths.

    Args:
        name: one of `NAMES` that has a public address.
        root: the folder to put them in; by default `$NESCIO_DATA`, else the user's cache.
        base_url: a mirror with files of the same names; the checksums stay those of the original.
        progress: called with a file's name, the bytes so far, and the bytes in all or None.
        force: replace files of the same names that are not the published ones.

    >>> download("mnist")  # doctest: +SKIP
    """
    entry, folder = CATALOGUE[check_name("data set", name, NAMES)], folders(root)[0]
    if not entry.remotes:
        first = next((files[0] for files in entry.sources.values()), None)
        why = f"set NESCIO_DATA to the folder that has {first}" if first else "it is embedded"
        raise NescioError(f"{name} has no public address to download it from; {why}")
    from nescio.data.fetch import fetch  # which loads pooch and requests

    return fetch(entry.remotes, folder, base_url, progress, force)
