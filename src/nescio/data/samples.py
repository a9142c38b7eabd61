"""Labelled inputs in memory: what `load` returns as `.train` and `.test`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from nescio.errors import NescioError


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs with their labels; images may stay bytes in memory and become floats in [0, 1] batch by batch.

    Args:
        inputs: `(N, …)`; uint8 means images, given out divided by 255; anything else must be floating point.
        labels: `(N,)` integers, `−1` for an input of no known class.
        columns: further facts per input that are not fed to a network (a hospital, an alphabet), each `(N,)`.
        name: what reports call this set.
    """

    def __init__(
        self, inputs: Tensor, labels: Tensor, columns: Mapping[str, np.ndarray[Any, Any]] | None = None, name: str = ""
    ) -> None:
        if inputs.dtype != torch.uint8 and not inputs.is_floating_point():
            raise NescioError(f"inputs of {name or 'a data set'} must be uint8 images or floats, not {inputs.dtype}")
        if labels.shape != inputs.shape[:1]:
            raise NescioError(f"{name or 'data'}: {tuple(inputs.shape)} inputs need ({len(inputs)},) labels, "
                              f"not {tuple(labels.shape)}")  # fmt: skip
        self.inputs, self.labels = inputs, labels.long()
        self.columns = dict(columns or {})
        self.name = name

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"input {index} of a set of {len(self)}")  # what ends a plain for-loop
        return self._floats(self.inputs[index]), self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        return list(zip(*self.take(torch.as_tensor(indices)), strict=True))  # one gather for a whole DataLoader batch

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """A batch at once: floats `(B, …)` and labels `(B,)`."""
        return self._floats(self.inputs[index]), self.labels[index]

    def select(self, index: Tensor, labels: Tensor | None = None) -> "Samples":
        """The samples at `index` (positions or a mask), with new labels if given."""
        columns = {key: values[index.numpy()] for key, values in self.columns.items()}
        return Samples(self.inputs[index], self.labels[index] if labels is None else labels, columns, self.name)

    @staticmethod
    def _floats(inputs: Tensor) -> Tensor:
        return inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs
