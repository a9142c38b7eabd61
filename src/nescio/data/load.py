"""Data sets by name or path: known ones, and the inputs of a file or folder as they are."""

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import torch

from nescio.data import embedded, known
from nescio.data.catalogue import CATALOGUE, NAMES, Layout, find, folders
from nescio.data.class_order import plain_name
from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import read_csv
from nescio.data.formats.images import is_image, read_image_folder, read_images
from nescio.data.formats.npz import read_npy, read_npz
from nescio.data.formats.published import PUBLISHED, idx_set_in, read_idx, read_idx_set
from nescio.data.samples import Parts, Samples
from nescio.data.table import WARN, ZEROS, Encoding
from nescio.errors import NescioError, check_name
from nescio.seeds import check_seed

TEST_FRACTION, PATH_TEST_FRACTION = 0.3, 0.2  # of sets without a split of their own


def load(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    unseen: Iterable[int | str] | int | str | None = (),
    seed: int = 0,
    impute: bool = False,
    label: str | None = None,
) -> known.Known:
    """Load a known data set, embedded or from files.

    Args:
        name: one of `NAMES`, or a path to an npz or CSV file, a folder of images or of idx files.
        root: the folder of the data files; by default `$NESCIO_DATA`, then the user's cache.
        unseen: classes, by name or position, to leave out and return as `.unseen` with label −1.
        seed: random seed of what is drawn, and of the train/test split of a set that has none.
        impute: fill missing values of a table from its training rows instead of refusing them.
        label: the label column of a CSV path; by default the last one.

    >>> digits = load("digits", unseen=[7, 8, 9])
    >>> digits.train
    Samples('digits train', 885 × (1, 8, 8), torch.float32)
    >>> digits.unseen
    Samples('digits unseen', 533 × (1, 8, 8), torch.float32)
    """
    if not isinstance(name, str | os.PathLike) or not str(name):
        raise NescioError(f"name must be one of {', '.join(NAMES)}, or a path, got {name!r}")
    seed, unseen = check_seed(seed), known.unseen_classes(unseen)
    name, path = str(name), Path(name)
    if name in CATALOGUE or not is_table(path):
        check_no_label(name, label)
    if name in embedded.LOADERS:
        return embedded.LOADERS[name](name, unseen, seed)
    if name in CATALOGUE:
        entry, kind, paths = CATALOGUE[name], *_find(name, root)
        if entry.layout is not None:
            how = TEST_FRACTION, seed, unseen, impute
            return known.known_table(name, read_csv(paths[0]), entry.layout, *how)
        if kind == "npz":
            parts = read_npz(paths[0], entry.classes, entry.columns)
        else:
            parts = PUBLISHED[kind](paths, entry.classes)
        return _known(name, parts, unseen, TEST_FRACTION, seed)
    require_exists(path, "" if os.path.lexists(path) else _near(path))
    if is_table(path):
        how = PATH_TEST_FRACTION, seed, unseen, impute
        return known.known_table(path.name, read_csv(path), Layout(label), *how)
    return _known(path.name, parts_at(path), unseen, PATH_TEST_FRACTION, seed)


def _near(path: Path) -> str:
    """Return what else an error says of a path where nothing is: what may have been meant."""
    folder = path.parent
    beside = [str(entry) for entry in folder.iterdir()] if folder.is_dir() else []
    near = get_close_matches(str(path), [*NAMES, *beside], 3, 0.7)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return f" or folder, and no data set of that name{hint} Data sets: {', '.join(NAMES)}"


def _find(name: str, root: str | os.PathLike[str] | None) -> tuple[str, tuple[Path, ...]]:
    if source := find(name, root):
        return source
    places = " or ".join(map(str, folders(root)))
    expected = " or ".join(" + ".join(files) for files in CATALOGUE[name].sources.values())
    get = f"`nescio data get {name}`, or nescio.data.download({name!r}), fetches it"
    remedy = get if CATALOGUE[name].remotes else "set NESCIO_DATA to the folder that has it"
    raise NescioError(f"{name}: found no {expected} under {places}; {remedy}")


def _known(name: str, parts: Parts, unseen: known.Classes, test: float, seed: int) -> known.Known:
    if any((part.labels < 0).any() for part in parts.samples.values()):
        raise NescioError(f"{name}: has no labels to learn; it can be scored, or be unknown data")
    shapes = sorted({part.shape for part in parts.samples.values()})
    if len(shapes) > 1:
        got = " and ".join(map(str, shapes))
        raise NescioError(f"{name}: the parts must have inputs of one shape, got {got}")
    train = parts.samples.get("train")
    if train is not None and bool((train.labels == train.labels[0]).all()):
        raise NescioError(f"{name}: must have at least 2 classes, got one label in training")
    parts = parts if parts.classes else _named(parts, name)
    if "test" in parts.samples:
        train, tested = parts.samples.get("train"), parts.samples["test"]
    else:
        samples = next(iter(parts.samples.values()))
        train, tested = map(samples.select, known.stratified(samples.labels, test, seed, name))
    return known.assemble(name, train, tested, parts.classes, unseen)


def _named(parts: Parts, name: str) -> Parts:
    """Number labels without names anew, so that no class is one without training inputs."""
    train = parts.samples.get("train") or next(iter(parts.samples.values()))
    present = torch.from_numpy(np.unique(train.labels.numpy()))
    names, renumbered = tuple(map(str, present.tolist())), {}
    for what, samples in parts.samples.items():
        others = samples.labels[~torch.isin(samples.labels, present)]
        if len(others):
            wrong = f"label {int(others[0])}, which no training input has"
            expected = f"expected one of {', '.join(names)}"
            raise NescioError(f"{name}: the {what} part has {wrong}; {expected}")
        labels = torch.searchsorted(present, samples.labels)
        renumbered[what] = samples.with_labels(labels, samples.name)
    return Parts(renumbered, names)


def read(
    path: str | os.PathLike[str],
    label: str | None = None,
    encoding: Encoding | None = None,
    classes: Sequence[str] | None = None,
    impute: bool = False,
    part: str | None = None,
    unseen_category: str = WARN,
) -> Samples:
    """Read the samples in an idx, npz, npy or CSV file, an image, or a folder of images.

    Args:
        path: what to read; npz keys and folders are as for `load`.
        label: a CSV's label column; without it every column is a feature and all labels are −1.
        encoding: a table's `Known.encoding`, to encode these rows as the training rows were.
        classes: class names in the order of the labels; a label of none of them becomes −1.
        impute: for a table without an encoding, fill missing values from its own rows.
        part: "train" or "test" of a file that has both; by default "test".
        unseen_category: how to encode categories never seen in training, as in `Encoding.encode`.

    >>> import numpy as np
    >>> np.savez("new.npz", inputs=x.numpy())
    >>> read("new.npz").inputs
    tensor([[-3., -2.],
            [40., 40.]])
    """
    parts = read_parts(path, label, encoding, impute, unseen_category=unseen_category)
    part = part or ("test" if "test" in parts.samples else next(iter(parts.samples)))
    samples = parts.samples[check_name(f"part of {path}", part, parts.samples)]
    return relabelled(samples, parts.classes, classes, Path(path).name)


def read_parts(
    path: str | os.PathLike[str],
    label: str | None = None,
    encoding: Encoding | None = None,
    impute: bool = False,
    any_shape: bool = False,
    unseen_category: str = ZEROS,
) -> Parts:
    """Return what `read` chooses from, with the file's own labels and class names if it has any.

    With `any_shape` the `inputs` of an npz file are taken as they are.
    """
    path = require_exists(path)
    if not is_table(path):
        check_no_label(path, label)
        return parts_at(path, any_shape)
    table = read_csv(path)
    column = None if label is None else known.label_column(table, label, str(path))
    inputs = table if column is None else table.without(column)
    try:
        encoding = encoding or Encoding.fitted(inputs, impute)
        x = encoding.encode(inputs, unseen_category=unseen_category)
    except NescioError as error:
        raise NescioError(f"{path}: {error}") from error
    if column is None:
        return Parts({"all": Samples(x, torch.full((len(x),), -1))})
    names, labels = known.class_labels(table, column, str(path))
    return Parts({"all": Samples(x, labels)}, names)


def check_no_label(path: str | os.PathLike[str], label: str | None) -> None:
    """Raise if a label column was asked for of what is no CSV file."""
    if label is not None:
        raise NescioError(f"{path}: label column {label!r} can only be chosen of a CSV file")


def is_table(path: Path) -> bool:
    """Return whether the name says CSV, plain or compressed."""
    return path.name.lower().endswith((".csv", ".csv.gz", ".csv.bz2"))


def parts_at(path: Path, any_shape: bool = False) -> Parts:
    """Return what a path holds, by its name, or by what is in it if it is a folder."""
    if path.is_dir():
        files = idx_set_in(path)
        return read_image_folder(path) if files is None else read_idx_set(files)
    if path.suffix.lower() == ".npz":
        return read_npz(path, any_shape=any_shape)
    if path.suffix.lower() == ".npy":
        return read_npy(path)
    if is_image(path):
        return Parts({"all": Samples(read_images([path]), torch.tensor([-1]))})
    if "ubyte" in path.name or "idx" in path.name:
        return read_idx(path)
    kinds = ".csv (also .csv.gz, .csv.bz2), .npz, .npy, an idx file (…-ubyte, .idx)"
    images = "a PNG or JPEG image (.png, .jpg, .jpeg)"
    raise NescioError(f"{path}: of no known format; expected {kinds}, {images} or a folder")


def relabelled(
    samples: Samples, names: tuple[str, ...], classes: Sequence[str] | None, name: str
) -> Samples:
    """Return samples whose labels, positions in `names`, became positions in `classes`, or −1.

    Labels without names stand for classes that are called by numbers, else for positions.
    """
    labels = samples.labels
    if classes is None or (labels < 0).any():
        return samples.with_labels(labels, name)
    if not names and not all(name.isdecimal() for name in classes):
        return samples.with_labels(labels.where(labels < len(classes), -1), name)
    names = names or tuple(map(str, range(int(labels.max()) + 1)))
    position = {plain_name(name): i for i, name in enumerate(classes)}
    position |= {name: i for i, name in enumerate(classes)}
    new = [position.get(name, position.get(plain_name(name), -1)) for name in names]
    return samples.with_labels(torch.tensor(new)[labels], name)
