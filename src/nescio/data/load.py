"""A known data set by name or path."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import read_csv
from nescio.data.known import Classes, Known, assemble, known_table, stratified, unseen_classes
from nescio.data.read import check_no_label, is_table, parts_at, read_source
from nescio.data.samples import Parts
from nescio.data.sources import embedded
from nescio.data.sources.catalogue import CATALOGUE, NAMES, Layout, find, folders
from nescio.errors import NescioError, unknown_name
from nescio.seeds import check_seed

TEST_FRACTION, PATH_TEST_FRACTION = 0.3, 0.2  # of sets without a split of their own


def load(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    unseen: Iterable[int | str] | int | str | None = (),
    seed: int = 0,
    impute: bool = False,
    label: str | None = None,
) -> Known:
    """Load a known data set, embedded or from files.

    Args:
        name: one of `NAMES`, or a path to an npz or CSV file, a folder of images or of idx files.
        root: the folder of the data files; by default `$NESCIO_DATA`, then the user's cache.
        unseen: classes, by name or position, to leave out and return as `.unseen` with label −1.
        seed: random seed of what is drawn, and of the train/test split of a set that has none.
        impute: fill missing values of a table from its training rows instead of refusing them.
        label: the label column of a CSV path; by default the last one.
    """
    if not isinstance(name, str | os.PathLike) or not str(name):
        raise NescioError(f"name must be one of {', '.join(NAMES)}, or a path, got {name!r}")
    seed, unseen = check_seed(seed), unseen_classes(unseen)
    if str(name) in CATALOGUE or not is_table(Path(name)):
        check_no_label(name, label)
    if str(name) in embedded.LOADERS:
        return embedded.LOADERS[str(name)](str(name), unseen, seed)
    if str(name) in CATALOGUE:
        entry, kind, paths = CATALOGUE[str(name)], *_find(str(name), root)
        if entry.layout is None:
            return _known(str(name), read_source(kind, paths, entry), unseen, TEST_FRACTION, seed)
        how = TEST_FRACTION, seed, unseen, impute
        return known_table(str(name), read_csv(paths[0]), entry.layout, *how)
    path = Path(name)
    if not (path.suffix or len(path.parts) > 1 or os.path.lexists(path)):
        raise unknown_name("data set", str(name), NAMES)
    require_exists(path, f", and no data set of that name; known are {', '.join(NAMES)}")
    if is_table(path):
        how = PATH_TEST_FRACTION, seed, unseen, impute
        return known_table(path.name, read_csv(path), Layout(label), *how)
    return _known(path.name, parts_at(path), unseen, PATH_TEST_FRACTION, seed)


def _find(name: str, root: str | os.PathLike[str] | None) -> tuple[str, tuple[Path, ...]]:
    if found := find(name, root):
        return found
    places = " or ".join(map(str, folders(root)))
    wanted = " or ".join(" + ".join(files) for files in CATALOGUE[name].sources.values())
    get = f"`nescio data get {name}`, or nescio.data.download({name!r}), fetches it"
    remedy = get if CATALOGUE[name].remotes else "set NESCIO_DATA to the folder that has it"
    raise NescioError(f"{name}: found no {wanted} under {places}; {remedy}")


def _known(name: str, parts: Parts, unseen: Classes, test: float, seed: int) -> Known:
    if any((part.labels < 0).any() for part in parts.samples.values()):
        raise NescioError(f"{name}: has no labels to learn; it can be scored, or be unknown data")
    shapes = sorted({part.shape for part in parts.samples.values()})
    if len(shapes) > 1:
        given = " and ".join(map(str, shapes))
        raise NescioError(f"{name}: the parts must have inputs of one shape, got {given}")
    train = parts.samples.get("train")
    if train is not None and bool((train.labels == train.labels[0]).all()):
        raise NescioError(f"{name}: must have at least 2 classes, got one label in training")
    parts = parts if parts.classes else _named(parts, name)
    if "test" in parts.samples:
        train, tested = parts.samples.get("train"), parts.samples["test"]
    else:
        samples = next(iter(parts.samples.values()))
        train, tested = map(samples.select, stratified(samples.labels, test, seed, name))
    return assemble(name, train, tested, parts.classes, unseen)


def _named(parts: Parts, name: str) -> Parts:
    """Number labels without names anew, so that no class is one without training inputs."""
    train = parts.samples.get("train") or next(iter(parts.samples.values()))
    present = torch.from_numpy(np.unique(train.labels.numpy()))
    names, renumbered = tuple(map(str, present.tolist())), {}
    for what, samples in parts.samples.items():
        others = samples.labels[~torch.isin(samples.labels, present)]
        if len(others):
            wrong = f"label {int(others[0])}, which no training input has"
            wanted = f"expected one of {', '.join(names)}"
            raise NescioError(f"{name}: the {what} part has {wrong}; {wanted}")
        labels = torch.searchsorted(present, samples.labels)
        renumbered[what] = samples.with_labels(labels, samples.name)
    return Parts(renumbered, names)
