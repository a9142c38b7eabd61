"""A table of text columns as a known set: labels, division, held-out classes, and only then the encoding."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nescio.data.class_order import in_older_order, in_order
from nescio.data.formats.csv import Rows, row_place
from nescio.data.known import Known, assemble, kept_classes
from nescio.data.samples import Samples
from nescio.data.split import stratified
from nescio.data.table import ZEROS, Encoding, check_complete, is_missing
from nescio.errors import NescioError, unknown_name


@dataclass(frozen=True)
class Layout:
    """What the columns of a table mean.

    Attributes:
        label: the column of classes; None is the last one.
        names: the class each text of the label column stands for, in the order of the labels; {} takes the texts.
        facts: columns kept beside the inputs and not fed to a network.
        split: the column that says "train" or "test"; None divides by seed.
        categorical: columns whose numbers are codes.
    """

    label: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    split: str | None = None
    categorical: tuple[str, ...] = ()


def tabular(
    name: str,
    table: Rows,
    layout: Layout,
    test: float,
    seed: int,
    unseen: tuple[int | str, ...],
    impute: bool,
    older: bool = False,
) -> Known:
    """The known set in a table; its encoding is fitted on the training rows of the classes that are kept."""
    label = label_column(table, layout.label, name)
    classes, labels = class_labels(table, label, name, layout.names, older)
    kept = torch.isin(labels, torch.tensor(kept_classes(classes, unseen, name)))
    inputs = table.without(label, *([layout.split] if layout.split else []), *layout.facts)
    if not inputs:
        raise NescioError(
            f"{name}: the only column is {label!r}; expected comma-separated features beside it"
        )
    train, rest = _divided(table, layout.split, labels, test, seed, name)
    learned = [int(i) for i in train[kept[train]]]
    fitting = {key: [cells[i] for i in learned] for key, cells in inputs.items()}
    try:
        if not impute:
            check_complete(
                inputs
            )  # before the fit, which sees the training rows alone and would count only those
        encoding = Encoding.fitted(fitting, impute, layout.categorical)
        encoded = encoding.encode(inputs, unseen_category=ZEROS)
    except NescioError as error:
        raise NescioError(f"{name}: {error}") from error
    facts = {key: np.array(table[key]) for key in layout.facts}
    samples = Samples(encoded, labels, facts)
    return assemble(name, samples.select(train), samples.select(rest), classes, unseen, encoding)


def label_column(table: Rows, label: str | None, where: str) -> str:
    """The name of the label column, the last one unless told."""
    if label is not None and label not in table:
        raise unknown_name(f"label column of {where}", label, table)
    return list(table)[-1] if label is None else label


def class_labels(
    table: Rows,
    column: str,
    where: str,
    names: Mapping[str, str] | None = None,
    older: bool = False,
) -> tuple[tuple[str, ...], Tensor]:
    """Class names and labels `(N,)`; without given names, those of `in_order`, or as an `older` version had them."""
    cells = table[column]
    missing = [row for row, cell in enumerate(cells) if is_missing(cell)]
    if missing:
        raise NescioError(f"{where}: {row_place(table, missing[0])} has no label")
    distinct = set(cells)
    names = names or (in_older_order if older else in_order)(distinct)
    if distinct - set(names):
        raise NescioError(
            f"{where}: label {min(distinct - set(names))!r}; expected one of {', '.join(names)}"
        )
    classes = tuple(dict.fromkeys(names.values()))
    if len(classes) > max(100, len(cells) // 3):
        raise NescioError(
            f"{where}: {len(classes)} different labels in {len(cells)} rows; is this column a class?"
        )
    place = {text: classes.index(name) for text, name in names.items()}
    return classes, torch.tensor([place[cell] for cell in cells])


def _divided(
    table: Rows, split: str | None, labels: Tensor, test: float, seed: int, name: str
) -> tuple[Tensor, Tensor]:
    if split is None:
        return stratified(labels, test, seed, name)
    said = np.array(table[split])
    if set(said) != {"train", "test"}:
        raise NescioError(
            f"{name}: column {split!r} holds {', '.join(sorted(set(said))[:5])}; expected train and test"
        )
    return torch.from_numpy(np.flatnonzero(said == "train")), torch.from_numpy(
        np.flatnonzero(said == "test")
    )
