"""A known data set by name or path."""

import os
from collections.abc import Iterable
from pathlib import Path

from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import read_csv
from nescio.data.formats.readers import FORMATS, is_table, parts_at
from nescio.data.known import Known, assemble, held_classes
from nescio.data.parts import Parts, named
from nescio.data.samples import Samples
from nescio.data.sources import embedded
from nescio.data.sources.catalogue import CATALOGUE, NAMES
from nescio.data.sources.on_disk import folders, found
from nescio.data.split import stratified
from nescio.data.tabular import Layout, tabular
from nescio.errors import NescioError, unknown_name
from nescio.seeds import check_seed


def load(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    unseen: Iterable[int | str] | int | str | None = (),
    seed: int = 0,
    impute: bool = False,
    label: str | None = None,
) -> Known:
    """A known data set, embedded or from files.

    Args:
        name: one of `NAMES`, or a path to an npz or CSV file, to a folder of images or of idx files.
        root: the folder of the data files; without it `$NESCIO_DATA`, then the user's cache.
        unseen: classes, by name or position, that are taken out and given back as `.unseen` with label −1.
        seed: decides what is drawn, and the division where a set has none of its own (70/30, a path's 80/20).
        impute: fill missing values of a table from its training rows instead of refusing them; images have none.
        label: the label column of a CSV path; the last one without it.
    """
    return load_ordered(name, root, unseen, seed, impute, label)


def load_ordered(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    unseen: Iterable[int | str] | int | str | None = (),
    seed: int = 0,
    impute: bool = False,
    label: str | None = None,
    older: bool = False,
) -> Known:
    """What `load` gives; with `older`, a path's classes in the order that earlier versions had them in."""
    if not isinstance(name, str | os.PathLike) or not str(name):
        raise NescioError(
            f"{name!r} was given for a data set; expected one of {', '.join(NAMES)}, or a path"
        )
    seed, held = check_seed(seed), held_classes(unseen)
    if label is not None and (str(name) in CATALOGUE or not is_table(Path(name))):
        raise NescioError(
            f"{name}: label column {label!r} was asked for; only a CSV file's can be chosen"
        )
    if str(name) in embedded.DRAWN:
        return embedded.drawn(str(name), held, seed)
    if str(name) in embedded.STORED:
        return embedded.stored(str(name), held, seed)
    if str(name) in CATALOGUE:
        return _from_catalogue(str(name), root, held, seed, impute)
    path = Path(name)
    if not (path.suffix or len(path.parts) > 1 or os.path.lexists(path)):
        raise unknown_name("data set", str(name), NAMES)
    require_exists(path, f", and no data set of that name; known are {', '.join(NAMES)}")
    if is_table(path):
        return tabular(path.name, read_csv(path), Layout(label), 0.2, seed, held, impute, older)
    return _known(path.name, parts_at(path, older=older), held, 0.2, seed)


def _from_catalogue(
    name: str,
    root: str | os.PathLike[str] | None,
    held: tuple[int | str, ...],
    seed: int,
    impute: bool,
) -> Known:
    entry, source_and_paths = CATALOGUE[name], found(name, root)
    if source_and_paths is None:
        raise NescioError(missing(name, root))
    source, paths = source_and_paths
    if entry.layout is not None:
        return tabular(name, read_csv(paths[0]), entry.layout, 0.3, seed, held, impute)
    return _known(name, FORMATS[source.format](paths, entry), held, 0.3, seed)


def _known(name: str, parts: Parts, held: tuple[int | str, ...], test: float, seed: int) -> Known:
    if any((part.labels < 0).any() for part in parts.samples.values()):
        raise NescioError(
            f"{name}: has no labels to learn; its inputs can be scored, or be unknown data"
        )
    shapes = {part.shape for part in parts.samples.values()}
    if len(shapes) > 1:
        raise NescioError(
            f"{name}: its parts have inputs of {' and '.join(map(str, sorted(shapes)))}; expected one shape"
        )
    train_part = parts.samples.get("train")
    if train_part is not None and bool((train_part.labels == train_part.labels[0]).all()):
        raise NescioError(
            f"{name}: all training inputs have one label; expected at least 2 classes"
        )
    parts = named(parts, name)
    if "test" in parts.samples:
        return assemble(
            name, parts.samples.get("train"), parts.samples["test"], parts.classes, held
        )
    whole: Samples = next(iter(parts.samples.values()))
    train, rest = stratified(whole.labels, test, seed, name)
    return assemble(name, whole.select(train), whole.select(rest), parts.classes, held)


def missing(name: str, root: str | os.PathLike[str] | None) -> str:
    """What to do about a set whose files are not there."""
    entry = CATALOGUE[name]
    places = " or ".join(str(folder) for folder in folders(root))
    wanted = " or ".join(" + ".join(source.files) for source in entry.sources)
    get = f"`nescio data get {name}`, or nescio.data.download({name!r}), fetches it"
    remedy = get if entry.remotes else "set NESCIO_DATA to the folder that has it"
    return f"{name}: found no {wanted} under {places}; {remedy}"
