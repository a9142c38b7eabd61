"""The inputs in a file or folder, as they are: to score, or to be the unknown of a comparison."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from nescio.data.bounds import there
from nescio.data.csv_file import read_csv
from nescio.data.formats import is_table, parts_at
from nescio.data.parts import Parts
from nescio.data.samples import Samples
from nescio.data.table import Encoding
from nescio.data.tabular import class_labels, label_column
from nescio.errors import NescioError, unknown_name


def read(
    path: str | os.PathLike[str],
    label: str | None = None,
    encoding: Encoding | None = None,
    classes: Sequence[str] | None = None,
    impute: bool = False,
    part: str | None = None,
) -> Samples:
    """The samples in an idx, npz, npy or CSV file or in a folder of images, with label −1 where there is none.

    Args:
        path: what to read; npz keys and folders are as for `load`.
        label: a CSV's label column; without it every column is a feature and there are no labels.
        encoding: a table's encoding, `Known.encoding`, to encode these rows as the training rows were.
        classes: class names in the order of the labels; a label of none of them becomes −1.
        impute: for a table without an encoding, fill missing values from its own rows.
        part: "train" or "test" of a file that has both; "test" without it.
    """
    path = there(path)
    if is_table(path):
        return _rows(path, label, encoding, classes, impute)
    if label is not None:
        raise NescioError(f"{path}: label column {label!r} was asked for; only a CSV file's can be chosen")
    parts = parts_at(path)
    held = parts.samples
    chosen = part or ("test" if "test" in held else next(iter(held)))
    if chosen not in held:
        raise unknown_name(f"part of {path}", chosen, held)
    return _relabelled(Parts({chosen: held[chosen]}, parts.classes), classes, path)


def _rows(
    path: Path, label: str | None, encoding: Encoding | None, classes: Sequence[str] | None, impute: bool
) -> Samples:
    table = read_csv(path)
    column = None if label is None else label_column(table, label, str(path))
    inputs = {key: cells for key, cells in table.items() if key != column}
    try:
        encoding = encoding or Encoding.fitted(inputs, impute)
        x = encoding.encode(inputs)
    except NescioError as error:
        raise NescioError(f"{path}: {error}") from error
    if column is None:
        return Samples(x, torch.full((len(x),), -1), name=path.name)
    own, labels = class_labels(table[column], str(path))
    return _relabelled(Parts({"all": Samples(x, labels)}, own), classes, path)


def _relabelled(parts: Parts, classes: Sequence[str] | None, path: Path) -> Samples:
    """The one set of `parts`, its labels renumbered to be positions in `classes`.

    Labels without names are the names of classes that are numbers too, and else positions already.
    """
    samples = next(iter(parts.samples.values()))
    labels = samples.labels
    if classes is not None and not (labels < 0).any():
        own = parts.classes or tuple(map(str, range(int(labels.max()) + 1)))
        place = {name: i for i, name in enumerate(classes)}
        if parts.classes or all(name.isdecimal() for name in classes):
            labels = torch.tensor([place.get(name, -1) for name in own])[labels]
        else:
            labels = labels.where(labels < len(classes), -1)
    return Samples(samples.inputs, labels, samples.columns, path.name)
