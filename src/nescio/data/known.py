"""A known data set: the classes a network learns, the inputs it learns and is tested on, and the classes held out."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch

from nescio.arrays import items
from nescio.data.class_order import plain_name
from nescio.data.normalise import Normalise
from nescio.data.samples import Samples
from nescio.data.table import Encoding
from nescio.errors import NescioError, unknown_name


@dataclass(frozen=True, eq=False)
class Known:
    """What `load` returns.

    Attributes:
        train: what a network learns from; None for a set that has only a test part.
        classes: the name of each label, in order.
        normalise: fitted on `train`; None without it.
        kind: "image" or "tabular".
        features: a name for each input feature of a table, () for images.
        unseen: every input of the held-out classes, of both parts since none is trained on, with label −1.
        encoding: how a table's columns became features, to encode new rows the same way.
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
    """Make a `Known` of two parts that share their labels, with some classes held out and the others renumbered."""
    kept = kept_classes(classes, unseen, name)
    number = torch.full((len(classes),), -1)
    number[kept] = torch.arange(len(kept))
    held: list[Samples] = []

    def keep(part: Samples, what: str) -> Samples:
        labels = number[part.labels]
        known = labels >= 0
        if not known.any():
            raise NescioError(f"{name}: the {what} part has no input of the classes that are kept")
        if not known.all():
            held.append(part.select(~known, labels[~known]))
            part, labels = part.select(known), labels[known]
        return Samples(part._stored, labels, part.columns, f"{name} {what}")

    train = None if train is None else keep(train, "train")
    test = keep(test, "test")
    tabular = len(test.shape) == 1
    if tabular and encoding is None:
        encoding = Encoding.numeric(f"x{i}" for i in range(test.shape[0]))
    return Known(
        name=name,
        train=train,
        test=test,
        classes=tuple(classes[i] for i in kept),
        normalise=None if train is None else Normalise.fitted(train),
        kind="tabular" if tabular else "image",
        features=() if encoding is None else encoding.features,
        unseen=Samples.joined(held, f"{name} held out") if held else None,
        encoding=encoding,
    )


def held_classes(unseen: Any) -> tuple[int | str, ...]:
    """The classes to hold out one by one; a single one may come bare, and None is none."""
    if unseen is None:
        return ()
    if isinstance(unseen, str | Integral | np.bool_):
        return (unseen,)  # type: ignore[return-value]
    return tuple(items("unseen", unseen))


def kept_classes(classes: tuple[str, ...], unseen: Iterable[int | str], name: str) -> list[int]:
    """Positions of the classes that are not held out; a class is given by its name or by its position."""
    held = {_position(one, classes) for one in held_classes(unseen)}
    kept = [i for i in range(len(classes)) if i not in held]
    if len(kept) < 2:
        without = f" without {', '.join(classes[i] for i in sorted(held))}" if held else ""
        raise NescioError(
            f"{name}{without} has {len(kept)} class{'es' * (len(kept) != 1)}; expected at least 2"
        )
    return kept


def _position(given: int | str, classes: tuple[str, ...]) -> int:
    if isinstance(given, str) and given in classes:
        return classes.index(given)
    if isinstance(given, str) and plain_name(given) in classes:
        return classes.index(plain_name(given))
    if isinstance(given, str) and not (
        given.isdecimal() and len(given) < 10
    ):  # int() refuses very long ones
        raise unknown_name("class", given if len(given) <= 50 else f"{given[:50]}…", classes)
    wrong = NescioError(f"class {given!r} to hold out; expected a name or a whole number")
    if isinstance(given, bool | np.bool_):
        raise wrong
    try:
        index = operator.index(int(given) if isinstance(given, str) else given)
    except TypeError as error:
        raise wrong from error
    if not 0 <= index < len(classes):
        raise NescioError(
            f"class {given} to hold out; expected 0 to {len(classes) - 1}, or a name: {', '.join(classes)}"
        )
    return index
