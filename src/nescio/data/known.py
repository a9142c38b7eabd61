"""A known data set: classes a network learns, training and test inputs, and unseen classes."""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.arrays import items
from nescio.data.catalogue import Layout
from nescio.data.class_order import in_order, plain_name
from nescio.data.formats.csv import Rows, row_place
from nescio.data.samples import Samples
from nescio.data.table import ZEROS, Encoding, check_complete, is_missing
from nescio.data.transforms import Normalise
from nescio.errors import NescioError, check_name, unknown_name

Classes = tuple[int | str, ...]  # by name or position


@dataclass(frozen=True, eq=False)
class Known:
    """What `load` returns.

    Attributes:
        train: what a network learns from; None for a set that has only a test part.
        classes: the name of each label, in order.
        normalise: fitted on `train`; None without it.
        kind: "image" or "tabular".
        features: a name for each input feature of a table, () for images.
        unseen: every input of the unseen classes, of both parts, with label −1.
        encoding: how a table's columns became features, to encode new rows the same way.
        label: the column of a table whose values are the classes.
    """

    name: str
    train: Samples | None
    test: Samples
    classes: tuple[str, ...]
    normalise: Normalise | None
    kind: str
    features: tuple[str, ...] = ()
    unseen: Samples | None = None
    encoding: Encoding | None = None
    label: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.test.shape


def assemble(
    name: str,
    train: Samples | None,
    test: Samples,
    classes: tuple[str, ...],
    unseen: Iterable[int | str] = (),
    encoding: Encoding | None = None,
) -> Known:
    """Make a `Known` of two parts that share labels; classes other than unseen are renumbered."""
    known_classes = seen_classes(classes, unseen, name)
    new_label = torch.full((len(classes),), -1)
    new_label[known_classes] = torch.arange(len(known_classes))
    unseen_parts: list[Samples] = []

    def without_unseen(part: Samples, what: str) -> Samples:
        labels = new_label[part.labels]
        known = labels >= 0
        if not known.any():
            raise NescioError(f"{name}: the {what} part has no input of the known classes")
        if not known.all():
            unseen_parts.append(part.select(~known, labels[~known]))
            part, labels = part.select(known), labels[known]
        return Samples(part._stored, labels, part.columns, f"{name} {what}")

    train = None if train is None else without_unseen(train, "train")
    test = without_unseen(test, "test")
    kind = "tabular" if len(test.shape) == 1 else "image"
    if kind == "tabular" and encoding is None:
        encoding = Encoding.numeric(f"x{i}" for i in range(test.shape[0]))
    names = tuple(classes[i] for i in known_classes)
    normalise = None if train is None else Normalise.fitted(train)
    features = () if encoding is None else encoding.features
    unseen_samples = Samples.joined(unseen_parts, f"{name} unseen") if unseen_parts else None
    return Known(name, train, test, names, normalise, kind, features, unseen_samples, encoding)


def unseen_classes(unseen: Any) -> Classes:
    """Return the unseen classes as a tuple; a single one may come bare, and None is none."""
    if unseen is None:
        return ()
    if isinstance(unseen, str | Integral | np.bool_):
        return (unseen,)  # type: ignore[return-value]
    return tuple(items("unseen", unseen))


def seen_classes(classes: tuple[str, ...], unseen: Iterable[int | str], name: str) -> list[int]:
    """Return the positions of all classes but `unseen`, which are given by name or position."""
    left_out = {_position(label, classes) for label in unseen_classes(unseen)}
    seen = [i for i in range(len(classes)) if i not in left_out]
    if len(seen) < 2:
        without = f" without {', '.join(classes[i] for i in sorted(left_out))}" if left_out else ""
        raise NescioError(f"{name}{without} must have at least 2 classes, got {len(seen)}")
    return seen


def _position(label: int | str, classes: tuple[str, ...]) -> int:
    if isinstance(label, str):
        for name in (label, plain_name(label)):
            if name in classes:
                return classes.index(name)
        if not (label.isdecimal() and len(label) < 10):  # int() refuses very long ones
            raise unknown_name("class", label if len(label) <= 50 else f"{label[:50]}…", classes)
        label = int(label)
    try:
        index = -1 if isinstance(label, bool | np.bool_) else operator.index(label)
    except TypeError:
        index = -1
    if not 0 <= index < len(classes):
        expected = f"names or positions 0 to {len(classes) - 1} of {', '.join(classes)}"
        raise NescioError(f"unseen must be {expected}; got {label!r}")
    return index


def stratified(labels: Tensor, test: float, seed: int, where: str) -> tuple[Tensor, Tensor]:
    """Return sorted positions of a training and a test part with the fraction `test` of a class.

    A class of two or more inputs has at least one on either side; a class of one is for training.
    """
    generator = np.random.default_rng(seed)
    tested = np.zeros(len(labels), dtype=bool)
    for value in np.unique(labels.numpy()):
        positions = generator.permutation(np.flatnonzero(labels.numpy() == value))
        count = max(round(len(positions) * test), 1)
        tested[positions[: min(count, len(positions) - 1)]] = True
    if not tested.any():
        raise NescioError(f"{where}: must have 2 or more inputs of some class, got 1 of each")
    return torch.from_numpy(np.flatnonzero(~tested)), torch.from_numpy(np.flatnonzero(tested))


def known_table(
    name: str, table: Rows, layout: Layout, test: float, seed: int, unseen: Classes, impute: bool
) -> Known:
    """Return the known set in a table; its encoding is fitted on training rows of known classes."""
    label = label_column(table, layout.label, name)
    classes, labels = class_labels(table, label, name, layout.names)
    known = torch.isin(labels, torch.tensor(seen_classes(classes, unseen, name)))
    inputs = table.without(label, *([layout.split] if layout.split else []), *layout.facts)
    if not inputs:
        expected = "expected comma-separated features beside it"
        raise NescioError(f"{name}: the only column is {label!r}; {expected}")
    if layout.split is None:
        train_rows, test_rows = stratified(labels, test, seed, name)
    else:
        parts = np.array(table[layout.split])
        if set(parts) != {"train", "test"}:
            rule = f"column {layout.split!r} must hold train and test"
            raise NescioError(f"{name}: {rule}, got {', '.join(sorted(set(parts))[:5])}")
        train_rows = torch.from_numpy(np.flatnonzero(parts == "train"))
        test_rows = torch.from_numpy(np.flatnonzero(parts == "test"))
    learned = [int(i) for i in train_rows[known[train_rows]]]
    try:
        if not impute:
            check_complete(inputs)  # all rows, before the fit, which sees only the training rows
        fitting = {key: [cells[i] for i in learned] for key, cells in inputs.items()}
        encoding = Encoding.fitted(fitting, impute, layout.categorical)
        encoded = encoding.encode(inputs, unseen_category=ZEROS)
    except NescioError as error:
        raise NescioError(f"{name}: {error}") from error
    samples = Samples(encoded, labels, {key: np.array(table[key]) for key in layout.facts})
    train, tested = samples.select(train_rows), samples.select(test_rows)
    return replace(assemble(name, train, tested, classes, unseen, encoding), label=label)


def label_column(table: Rows, label: str | None, where: str) -> str:
    """Return the name of the label column, by default the last one."""
    label = list(table)[-1] if label is None else label
    return str(check_name(f"label column of {where}", label, table))


def class_labels(
    table: Rows, column: str, where: str, names: Mapping[str, str] | None = None
) -> tuple[tuple[str, ...], Tensor]:
    """Return class names, by default those of `in_order`, and labels `(N,)`."""
    cells = table[column]
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise NescioError(f"{where}: {row_place(table, row)} has no label")
    names = names or in_order(cells)
    if others := set(cells) - set(names):
        raise NescioError(f"{where}: labels must be {', '.join(names)}, got {min(others)!r}")
    classes = tuple(dict.fromkeys(names.values()))
    if len(classes) > max(100, len(cells) // 3):
        counts = f"{len(classes)} different labels in {len(cells)} rows"
        raise NescioError(f"{where}: {counts}; is column {column!r} a class?")
    position = {text: classes.index(name) for text, name in names.items()}
    return classes, torch.tensor([position[cell] for cell in cells])
