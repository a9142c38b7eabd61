"""What a file holds before it becomes a known set."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from nescio.data.arrays import Array, as_given, inputs, labels
from nescio.data.samples import Samples
from nescio.errors import NescioError


@dataclass(frozen=True)
class Parts:
    """Samples by part: "train" and "test", or "all" where the file makes no division; label −1 where it has none.

    `as_given` names the parts whose inputs were taken as they are, which are images or a table otherwise.
    """

    samples: Mapping[str, Samples]
    classes: tuple[str, ...] = ()
    as_given: frozenset[str] = frozenset()


def part(
    x: Array,
    y: Array | None,
    where: str,
    classes: tuple[str, ...] = (),
    columns: Mapping[str, Array] | None = None,
    any_shape: bool = False,
) -> Samples:
    """Samples of raw arrays, checked; without labels they are all −1."""
    x_ = as_given(x, where) if any_shape else inputs(x, where)
    y_ = (
        torch.full((len(x_),), -1) if y is None else labels(y, len(x_), where, len(classes) or None)
    )
    return Samples(x_, y_, columns, words=any_shape)


def named(parts: Parts, name: str) -> Parts:
    """The parts with class names; labels without names are numbered anew, so that no class is one that nobody has."""
    if parts.classes:
        return parts
    learned = (
        parts.samples["train"] if "train" in parts.samples else next(iter(parts.samples.values()))
    )
    present = torch.from_numpy(np.unique(learned.labels.numpy()))
    for what, samples in parts.samples.items():
        strange = samples.labels[~torch.isin(samples.labels, present)]
        if len(strange):
            raise NescioError(
                f"{name}: the {what} part has label {int(strange[0])}, which no training input has; "
                f"expected one of {', '.join(map(str, present.tolist()))}"
            )
    renumbered = {
        what: Samples(
            samples._stored,
            torch.searchsorted(present, samples.labels),
            samples.columns,
            samples.name,
        )
        for what, samples in parts.samples.items()
    }
    return Parts(renumbered, tuple(map(str, present.tolist())))
