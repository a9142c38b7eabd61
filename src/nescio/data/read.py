"""The inputs in a file or folder, as they are: to score, or to be the unknown of a comparison."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from nescio.data.class_order import plain_name
from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import read_csv
from nescio.data.formats.readers import is_table, parts_at
from nescio.data.parts import Parts
from nescio.data.samples import Samples
from nescio.data.table import WARN, ZEROS, Encoding
from nescio.data.tabular import class_labels, label_column
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
    """The samples in an idx, npz, npy or CSV file, an image or a folder of them, with label −1 where there is none.

    Args:
        path: what to read; npz keys and folders are as for `load`.
        label: a CSV's label column; without it every column is a feature and there are no labels.
        encoding: a table's encoding, `Known.encoding`, to encode these rows as the training rows were.
        classes: class names in the order of the labels; a label of none of them becomes −1.
        impute: for a table without an encoding, fill missing values from its own rows.
        part: "train" or "test" of a file that has both; "test" without it.
        unseen: what becomes of categories that the encoding does not know, as in `Encoding.encode`.
    """
    parts = read_parts(path, label, encoding, impute, unseen_category=unseen_category)
    held = parts.samples
    chosen = part or ("test" if "test" in held else next(iter(held)))
    if chosen not in held:
        raise unknown_name(f"part of {path}", chosen, held)
    return relabelled(held[chosen], parts.classes, classes, Path(path).name)


def read_parts(
    path: str | os.PathLike[str],
    label: str | None = None,
    encoding: Encoding | None = None,
    impute: bool = False,
    any_shape: bool = False,
    unseen_category: str = ZEROS,
) -> Parts:
    """What `read` chooses from, with labels as the file numbers them, and the names of its classes if it has any.

    With `any_shape` the `inputs` of an npz file are taken as they are.
    """
    path = require_exists(path)
    if is_table(path):
        return _rows(path, label, encoding, impute, unseen_category)
    if label is not None:
        raise NescioError(
            f"{path}: label column {label!r} was asked for; only a CSV file's can be chosen"
        )
    return parts_at(path, any_shape)


def _rows(
    path: Path, label: str | None, encoding: Encoding | None, impute: bool, unseen_category: str
) -> Parts:
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
    own, labels = class_labels(table, column, str(path))
    return Parts({"all": Samples(x, labels)}, own)


def relabelled(
    samples: Samples, named: tuple[str, ...], classes: Sequence[str] | None, name: str
) -> Samples:
    """Samples whose labels are positions in `named`, with labels that are positions in `classes`.

    Labels without names are the names of classes that are numbers too, and else positions already.
    """
    labels = samples.labels
    if classes is not None and not (labels < 0).any():
        own = named or tuple(map(str, range(int(labels.max()) + 1)))
        place = {plain_name(name): i for i, name in enumerate(classes)} | {
            name: i for i, name in enumerate(classes)
        }
        if named or all(name.isdecimal() for name in classes):
            labels = torch.tensor(
                [place.get(name, place.get(plain_name(name), -1)) for name in own]
            )[labels]
        else:
            labels = labels.where(labels < len(classes), -1)
    return samples.labelled(labels, name)
