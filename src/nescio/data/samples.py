"""Labelled inputs in memory: what `load` returns as `.train` and `.test`."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from nescio.arrays import as_array
from nescio.data.arrays import Array, tensor
from nescio.errors import NescioError


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs with their labels; images may stay bytes in memory and become floats in [0, 1] batch by batch.

    Args:
        inputs: `(N, …)`, tensor or array; uint8 means images, given out divided by 255; else it must be floating point.
        labels: `(N,)` integers, `−1` for an input of no known class.
        columns: further facts per input that are not fed to a network (a hospital, an alphabet), each `(N,)`.
        name: what reports call this set.
        words: inputs may be int64, such as words by number, and are then given out as they are.
    """

    def __init__(
        self,
        inputs: Tensor | Array,
        labels: Tensor | Array,
        columns: Mapping[str, Array] | None = None,
        name: str = "",
        words: bool = False,
    ) -> None:
        where = name or "a data set"
        inputs, labels = tensor(inputs), tensor(labels)
        if inputs.dim() < 2 or inputs.numel() == 0:
            raise NescioError(
                f"{where}: inputs of shape {tuple(inputs.shape)}; expected (N, …) with N ≥ 1"
            )
        allowed = (torch.uint8, torch.int64) if words else (torch.uint8,)
        if inputs.dtype not in allowed and not inputs.is_floating_point():
            raise NescioError(f"{where}: inputs must be uint8 images or floats, not {inputs.dtype}")
        if labels.shape != inputs.shape[:1] or labels.is_floating_point() or labels.is_complex():
            raise NescioError(
                f"{where}: inputs of shape {tuple(inputs.shape)} need ({len(inputs)},) integer labels, "
                f"not {tuple(labels.shape)} {labels.dtype}"
            )
        if not isinstance(columns, Mapping | None):
            raise NescioError(
                f"{where}: columns of type {type(columns).__name__}; expected a dict of arrays"
            )
        self.columns = {key: as_array(values) for key, values in (columns or {}).items()}
        for key, values in self.columns.items():
            if values.shape != (len(inputs),):
                raise NescioError(
                    f"{where}: column {key!r} has shape {values.shape}, expected ({len(inputs)},)"
                )
        self._stored, self.labels = (
            inputs,
            labels.long(),
        )  # bytes stay bytes: floats are four times as large
        self.name = name

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        try:
            index = operator.index(index)
        except TypeError as error:
            raise NescioError(
                f"a {type(index).__name__} was given for the number of an input"
            ) from error
        if not -len(self) <= index < len(self):
            raise IndexError(f"input {index} of a set of {len(self)}")  # what ends a plain for-loop
        return self._floats(self._stored[index]), self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        return list(
            zip(*self.take(torch.as_tensor(indices)), strict=True)
        )  # one gather for a whole DataLoader batch

    def __repr__(self) -> str:
        return f"Samples({self.name!r}, {len(self)} × {self.shape}, {self._stored.dtype})"

    @property
    def inputs(self) -> Tensor:
        """All inputs `(N, …)` as a model takes them; of images that are bytes in memory, a copy as floats in [0, 1]."""
        return self._floats(self._stored)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self._stored.shape[1:])

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """A batch at once: floats `(B, …)` and labels `(B,)`."""
        index = index if isinstance(index, slice) else _places(index)
        return self._floats(self._stored[index]), self.labels[index]

    def select(self, index: Tensor | slice, labels: Tensor | None = None) -> "Samples":
        """The samples at `index` (positions, a mask or a slice), with new labels if given."""
        index = torch.arange(len(self))[index] if isinstance(index, slice) else _places(index)
        columns = {key: values[index.cpu().numpy()] for key, values in self.columns.items()}
        return self._with(
            self._stored[index],
            self.labels[index] if labels is None else labels,
            columns,
            self.name,
        )

    def labelled(self, labels: Tensor, name: str) -> "Samples":
        """The samples with other labels and another name."""
        return self._with(self._stored, labels, self.columns, name)

    def floats(self) -> "Samples":
        """The samples with words as floats; others are what they were."""
        words = self._stored.dtype == torch.int64
        return (
            Samples(self._stored.float(), self.labels, self.columns, self.name) if words else self
        )

    def _with(
        self, inputs: Tensor, labels: Tensor, columns: Mapping[str, Array], name: str
    ) -> "Samples":
        return Samples(inputs, labels, columns, name, words=self._stored.dtype == torch.int64)

    @classmethod
    def joined(cls, parts: Sequence["Samples"], name: str) -> "Samples":
        """Several sets of one shape as one, with the columns that all of them have."""
        shared = set.intersection(*(set(part.columns) for part in parts))
        columns = {
            key: np.concatenate([part.columns[key] for part in parts]) for key in sorted(shared)
        }
        inputs = torch.cat([part._stored for part in parts])
        return cls(inputs, torch.cat([part.labels for part in parts]), columns, name)

    @staticmethod
    def _floats(inputs: Tensor) -> Tensor:
        return inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs


def _places(index: Any) -> Tensor:
    """Positions or a mask `(n,)`, or an error."""
    places = tensor(index)
    if places.is_floating_point() or places.dim() != 1:
        raise NescioError(
            f"places of {places.dtype} {tuple(places.shape)}; expected positions (n,), a mask or a slice"
        )
    return places
