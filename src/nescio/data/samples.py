"""Labelled inputs in memory: what `load` returns as `.train` and `.test`, and what files hold."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from nescio.arrays import Array, as_array
from nescio.data.arrays import as_any_inputs, as_inputs, as_labels, of_binary_loss, tensor
from nescio.errors import NescioError


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs with labels; images may stay uint8 in memory and become floats batch by batch.

    Args:
        inputs: `(N, …)`, tensor or array; uint8 means images, returned divided by 255; else floats.
        labels: `(N,)` integers, or 0 and 1 as a binary loss takes them (floats, `(N, 1)`); `−1` for
            an input of no known class.
        columns: other facts per input that are not fed to a network (a hospital), each `(N,)`.
        name: what reports call this set.
        tokens: inputs may be int64, such as token ids, and are then returned as they are.

    >>> samples = Samples(torch.zeros(5, 2), torch.tensor([0, 1, 2, 1, -1]))
    >>> samples
    Samples('', 5 × (2,), torch.float32)
    >>> samples.take(slice(0, 2))[1]
    tensor([0, 1])
    """

    def __init__(
        self,
        inputs: Tensor | Array,
        labels: Tensor | Array,
        columns: Mapping[str, Array] | None = None,
        name: str = "",
        tokens: bool = False,
    ) -> None:
        where = name or "a data set"
        inputs, labels = tensor(inputs), of_binary_loss(tensor(labels))
        shape = tuple(inputs.shape)
        if inputs.dim() < 2 or inputs.numel() == 0:
            raise NescioError(f"{where}: inputs must have shape (N, …) with N ≥ 1, got {shape}")
        allowed = (torch.uint8, torch.int64) if tokens else (torch.uint8,)
        if inputs.dtype not in allowed and not inputs.is_floating_point():
            raise NescioError(f"{where}: inputs must be uint8 images or floats, got {inputs.dtype}")
        if labels.shape != inputs.shape[:1] or labels.is_floating_point() or labels.is_complex():
            got = f"{tuple(labels.shape)} {labels.dtype}"
            raise NescioError(f"{where}: labels must be {shape[:1]} integers, got {got}")
        if not isinstance(columns, Mapping | None):
            raise NescioError(f"{where}: columns must be a dict of arrays, got {type(columns)}")
        self.columns = {key: as_array(values) for key, values in (columns or {}).items()}
        for key, values in self.columns.items():
            if values.shape != shape[:1]:
                rule = f"column {key!r} must have shape {shape[:1]}"
                raise NescioError(f"{where}: {rule}, got {values.shape}")
        self._stored = inputs  # bytes stay bytes: floats are four times as large
        self.labels, self.name = labels.long(), name

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        try:
            index = operator.index(index)
        except TypeError as error:
            raise NescioError(f"index must be an int, got {type(index).__name__}") from error
        if not -len(self) <= index < len(self):
            raise IndexError(f"input {index} of a set of {len(self)}")  # what ends a plain for-loop
        return self._floats(self._stored[index]), self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        # one gather for a whole DataLoader batch
        return list(zip(*self.take(torch.as_tensor(indices)), strict=True))

    def __repr__(self) -> str:
        return f"Samples({self.name!r}, {len(self)} × {self.shape}, {self._stored.dtype})"

    @property
    def inputs(self) -> Tensor:
        """All inputs `(N, …)` as a model takes them; of uint8 images a copy as floats in [0, 1]."""
        return self._floats(self._stored)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self._stored.shape[1:])

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return a batch: inputs `(B, …)` and labels `(B,)`."""
        index = index if isinstance(index, slice) else _positions(index)
        return self._floats(self._stored[index]), self.labels[index]

    def select(self, index: Tensor | slice, labels: Tensor | None = None) -> "Samples":
        """Return the samples at `index` (positions, mask or slice), with new labels if given."""
        index = torch.arange(len(self))[index] if isinstance(index, slice) else _positions(index)
        columns = {key: values[index.cpu().numpy()] for key, values in self.columns.items()}
        labels = self.labels[index] if labels is None else labels
        return Samples(self._stored[index], labels, columns, self.name, self._tokens)

    def with_labels(self, labels: Tensor, name: str) -> "Samples":
        """Return the samples with other labels and another name."""
        return Samples(self._stored, labels, self.columns, name, self._tokens)

    def floats(self) -> "Samples":
        """Return the samples with tokens as floats; others are what they were."""
        if not self._tokens:
            return self
        return Samples(self._stored.float(), self.labels, self.columns, self.name)

    @classmethod
    def joined(cls, parts: Sequence["Samples"], name: str) -> "Samples":
        """Concatenate sets of one shape, with the columns that all of them have."""
        shared = sorted(set.intersection(*(set(part.columns) for part in parts)))
        columns = {key: np.concatenate([part.columns[key] for part in parts]) for key in shared}
        inputs = torch.cat([part._stored for part in parts])
        return cls(inputs, torch.cat([part.labels for part in parts]), columns, name)

    @property
    def _tokens(self) -> bool:
        return self._stored.dtype == torch.int64

    @staticmethod
    def _floats(inputs: Tensor) -> Tensor:
        return inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs


def _positions(index: Any) -> Tensor:
    positions = tensor(index)
    if positions.is_floating_point() or positions.dim() != 1:
        got = f"{positions.dtype} {tuple(positions.shape)}"
        raise NescioError(f"index must be positions (n,), a mask or a slice, got {got}")
    return positions


@dataclass(frozen=True)
class Parts:
    """A file's samples by part: "train" and "test", or "all"; label −1 where there is none.

    `unchanged` names the parts whose inputs were taken as they are; others are images or a table.
    """

    samples: Mapping[str, Samples]
    classes: tuple[str, ...] = ()
    unchanged: frozenset[str] = frozenset()


def as_samples(
    x: Array,
    y: Array | None,
    where: str,
    classes: tuple[str, ...] = (),
    columns: Mapping[str, Array] | None = None,
    any_shape: bool = False,
) -> Samples:
    """Return samples of a file's arrays, checked; without labels they are all −1."""
    inputs = (as_any_inputs if any_shape else as_inputs)(x, where)
    unlabelled = torch.full((len(inputs),), -1)
    labels = unlabelled if y is None else as_labels(y, len(x), where, len(classes) or None)
    return Samples(inputs, labels, columns, tokens=any_shape)
