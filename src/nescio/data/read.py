"""The inputs in a file or folder, as they are: to score, or to be the unknown of a comparison."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from nescio.data.class_order import plain_name
from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import read_csv
from nescio.data.formats.images import is_image, read_image_folder, read_images
from nescio.data.formats.npz import read_npy, read_npz
from nescio.data.formats.published import PUBLISHED, idx_set_in, read_idx, read_idx_set
from nescio.data.known import class_labels, label_column
from nescio.data.samples import Parts, Samples
from nescio.data.sources.catalogue import Entry
from nescio.data.table import WARN, ZEROS, Encoding
from nescio.errors import NescioError, unknown_name


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
    """
    parts = read_parts(path, label, encoding, impute, unseen_category=unseen_category)
    chosen = part or ("test" if "test" in parts.samples else next(iter(parts.samples)))
    if chosen not in parts.samples:
        raise unknown_name(f"part of {path}", chosen, parts.samples)
    return relabelled(parts.samples[chosen], parts.classes, classes, Path(path).name)


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
    column = None if label is None else label_column(table, label, str(path))
    inputs = table if column is None else table.without(column)
    try:
        encoding = encoding or Encoding.fitted(inputs, impute)
        x = encoding.encode(inputs, unseen_category=unseen_category)
    except NescioError as error:
        raise NescioError(f"{path}: {error}") from error
    if column is None:
        return Parts({"all": Samples(x, torch.full((len(x),), -1))})
    names, labels = class_labels(table, column, str(path))
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


def read_source(kind: str, paths: tuple[Path, ...], entry: Entry) -> Parts:
    """Read a set of the catalogue from files of one of its formats."""
    if kind == "npz":
        return read_npz(paths[0], entry.classes, entry.columns)
    return PUBLISHED[kind](paths, entry.classes)


def relabelled(
    samples: Samples, names: tuple[str, ...], classes: Sequence[str] | None, name: str
) -> Samples:
    """Return samples whose labels, positions in `names`, became positions in `classes`, or −1.

    Labels without names stand for classes that are called by numbers, else for positions.
    """
    labels = samples.labels
    if classes is None or (labels < 0).any():
        return samples.with_labels(labels, name)
    if not names and not all(one.isdecimal() for one in classes):
        return samples.with_labels(labels.where(labels < len(classes), -1), name)
    names = names or tuple(map(str, range(int(labels.max()) + 1)))
    position = {plain_name(one): i for i, one in enumerate(classes)}
    position |= {one: i for i, one in enumerate(classes)}
    new = [position.get(one, position.get(plain_name(one), -1)) for one in names]
    return samples.with_labels(torch.tensor(new)[labels], name)
