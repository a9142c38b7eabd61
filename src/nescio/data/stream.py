"""New inputs from a file or folder of any size, a batch at a time, in the shape a model takes."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from nescio.arrays import Array
from nescio.data.arrays import as_any_inputs, as_inputs
from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import csv_batches
from nescio.data.formats.images import images_below, is_image, read_images
from nescio.data.formats.npz import array_batches
from nescio.data.formats.published import idx_set_in
from nescio.data.load import is_table, read
from nescio.data.samples import Samples
from nescio.data.table import ZEROS, Encoding
from nescio.data.transforms import adapt
from nescio.errors import NescioError

_Batch = tuple[list[str] | None, int | None, Tensor]  # names, number of all inputs, inputs
_KINDS = {"images": "images in [0, 1]", "inputs": "`inputs` of an npz file, taken as they are"}


@dataclass(frozen=True)
class Stream:
    """The inputs at a path, read anew for each loop over it; memory holds one batch.

    Attributes:
        path: a CSV, npz, npy or idx file, an image, or a folder of images and folders. Compressed
            CSV files, idx files and arrays in Fortran order are held whole.
        shape: of one input; images of another are adapted.
        encoding: of a table's columns; None for images, a column for each pixel in a CSV file.
        kind: what a network of the user's was fitted on: "images", or "inputs" of any shape and
            range, taken as they are; of inputs with three axes, each refuses the other, whose
            values have another range. None for a network of ours: all are images.
        allow_missing: encode what is missing or unreadable as NaN, let infinities through; else
            they are errors.
        tokens: whether the network takes integers, which only the `inputs` of an npz file are.
        unseen_categories: of each row of the last batch of a table, or "".
        unread: why images were not read, one after the other, in the last loop.
        skipped: files that are images of kinds that are not read, in the last loop.

    >>> import numpy as np
    >>> np.savez("new.npz", inputs=x.numpy())
    >>> for names, count, batch in Stream(Path("new.npz"), (2,), None, batch_size=1):
    ...     print(names, count, batch)
    ['0'] 2 tensor([[-3., -2.]])
    ['1'] 2 tensor([[40., 40.]])
    """

    path: Path
    shape: tuple[int, ...]
    encoding: Encoding | None
    batch_size: int
    kind: str | None = None
    allow_missing: bool = False
    tokens: bool = False
    unseen_categories: list[str] = field(default_factory=list, init=False)
    unread: list[str] = field(default_factory=list, init=False)
    skipped: list[str] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[tuple[list[str], int | None, Tensor]]:
        """Yield names (of files, or numbers), the number of all inputs if known, and inputs."""
        for facts in (self.unseen_categories, self.unread, self.skipped):
            facts.clear()
        start = 0
        for names, count, x in self._batches(require_exists(self.path)):
            yield names or [str(start + i) for i in range(len(x))], count, x
            start += len(x)

    def _batches(self, path: Path) -> Iterator[_Batch]:
        if self.tokens and path.suffix.lower() != ".npz":
            raise self._not_tokens("no npz file")
        if is_table(path):
            return self._rows()
        if path.suffix.lower() in (".npz", ".npy") and not path.is_dir():
            arrays = array_batches(path, self.batch_size)
            return ((None, count, self._array(key, array)) for key, count, array in arrays)
        self._check_kind("images", _KINDS["images"])
        if idx_set_in(path) is None if path.is_dir() else is_image(path):
            return self._images()
        stored = read(path)._stored
        parts = torch.split(stored, self.batch_size)
        return ((None, len(stored), self._adapted(part)) for part in parts)

    @property
    def categorical(self) -> bool:
        """Whether inputs are rows of a table with categories."""
        return self.encoding is not None and self.encoding.categorical

    def _rows(self) -> Iterator[_Batch]:
        images = len(self.shape) == 3 and self.kind != "inputs"
        for table in csv_batches(self.path, self.batch_size):
            if self.encoding is None and len(table) != math.prod(self.shape):
                expected = f"{math.prod(self.shape)} columns for inputs of shape {self.shape}"
                raise NescioError(f"{str(self.path)!r} must have {expected}, got {len(table)}")
            encoding = self.encoding or Encoding.numeric(table)
            try:
                x = encoding.encode(table, self.allow_missing, ZEROS)
            except NescioError as error:
                raise NescioError(f"{self.path}: {error}") from error
            self.unseen_categories[:] = encoding.unseen_categories(table)
            finite = x[x.isfinite()]  # others are only there with `allow_missing`
            if images and ((finite < 0) | (finite > 1)).any():
                got = f"{finite.min():g} to {finite.max():g}"
                raise NescioError(f"{str(self.path)!r}: pixels must be in [0, 1], got {got}")
            yield None, None, x.reshape(-1, *self.shape)

    def _images(self) -> Iterator[_Batch]:
        """Adapt images one by one, so that neither sizes nor colours need agree within a folder."""
        images, others, folder = [self.path], list[Path](), self.path.parent
        if self.path.is_dir():
            (images, others), folder = images_below(self.path), self.path
        self.skipped.extend(map(str, others))
        for start in range(0, len(images), self.batch_size):
            paths = images[start : start + self.batch_size]
            # what in a file's name is no UTF-8, which file systems allow, cannot be written
            names = [os.fsencode(path.relative_to(folder).as_posix()) for path in paths]
            x = torch.cat([self._image(path) for path in paths])
            yield [name.decode(errors="replace") for name in names], len(images), x

    def _image(self, path: Path) -> Tensor:
        try:
            image = read_images([path])
        except NescioError as error:
            if not self.allow_missing:
                raise
            self.unread.append(str(error))
            return torch.full((1, *self.shape), torch.nan)
        return self._adapted(image)

    def _array(self, key: str, array: Array) -> Tensor:
        inputs, what = key.endswith("inputs"), f"`{key}`" if key else _KINDS["images"]
        self._check_kind("inputs" if inputs else "images", what)
        if self.tokens and not (inputs and array.dtype.kind in "iub"):
            raise self._not_tokens(f"`{key}` of {array.dtype}")
        if self.kind is None or not inputs:
            return self._adapted(as_inputs(array, str(self.path), self.allow_missing))
        x = as_any_inputs(array, str(self.path))
        x = x if self.tokens or x.is_floating_point() else x.float()
        if x.shape[1:] != self.shape:
            shape = tuple(x.shape[1:])
            raise NescioError(f"{self.path}: inputs must have shape {self.shape}, got {shape}")
        return x

    def _not_tokens(self, what: str) -> NescioError:
        fitted = "the detector was fitted on integers, such as token ids"
        expected = "expected `inputs` of integers in an npz file"
        return NescioError(f"{self.path}: has {what}, but {fitted}; {expected}")

    def _check_kind(self, kind: str, what: str) -> None:
        """Raise if inputs with three axes are images where `inputs` are expected, or vice versa."""
        if self.kind not in (None, kind) and len(self.shape) == 3:
            fitted = f"the detector was fitted on {_KINDS[self.kind or '']}"
            hint = "the values of one may not be those of the other; pass both in the same way"
            raise NescioError(f"{self.path}: has {what}, but {fitted}, and {hint}")

    def _adapted(self, x: Tensor) -> Tensor:
        samples = Samples(x, torch.full((len(x),), -1), name=str(self.path))
        return adapt(samples, self.shape).take(slice(None))[0]
