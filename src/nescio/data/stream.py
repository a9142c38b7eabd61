"""New inputs from a file or folder of any size, a batch at a time, in the shape a model takes."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from nescio.data.adapt import adapt
from nescio.data.arrays import Array, as_given, inputs
from nescio.data.formats.bounds import require_exists
from nescio.data.formats.csv import csv_batches
from nescio.data.formats.idx import idx_set_in
from nescio.data.formats.image_tree import Tree
from nescio.data.formats.npz import array_batches
from nescio.data.formats.picture import is_picture, read_pictures
from nescio.data.formats.readers import is_table
from nescio.data.read import read
from nescio.data.samples import Samples
from nescio.data.table import ZEROS, Encoding
from nescio.errors import NescioError

Named = tuple[
    list[str], int | None, Tensor
]  # what each input is called, how many there are in all, inputs


@dataclass(frozen=True)
class Stream:
    """The inputs at a path, read anew for each loop over it; memory holds one batch.

    Attributes:
        path: a CSV, npz, npy or idx file, an image, or a folder of images, with those in the folders in it. CSV files
            that are compressed, idx files and arrays in Fortran's order are held whole.
        shape: of one input; images of another are adapted.
        encoding: how a table's columns become features; None for images, whose pixels a CSV file has as columns.
        batch_size: inputs at a time.
        kind: what a network of the user's was fitted on: "images", or "inputs" of any shape and range, which are taken
            as they are, as are numbers of a CSV file. Three axes may be either, and each then refuses the other, since
            pixels would come in another range. None for a network of ours, which is given both as images.
        words: whether the network takes whole numbers, which only the `inputs` of an npz file are.
        gaps: whether values may be missing, or not finite, or images unreadable, which is else an error; what is
            missing is NaN.
        unseen: of each row of the last batch of a table, the categories never seen in training, or nothing.
        unread: why images were not read, one after the other, in the last loop.
        skipped: files that are images of kinds that are not read, in the last loop.
    """

    path: Path
    shape: tuple[int, ...]
    encoding: Encoding | None
    batch_size: int
    kind: str | None = None
    gaps: bool = False
    words: bool = False
    unseen_category: list[str] = field(default_factory=list, init=False)
    unread: list[str] = field(default_factory=list, init=False)
    skipped: list[str] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Named]:
        path = require_exists(self.path)
        self.unseen_category.clear()
        self.unread.clear()
        self.skipped.clear()
        if self.words and path.suffix.lower() != ".npz":
            raise self._not_words("no npz file")
        if is_table(path):
            return self._rows()
        if idx_set_in(path) is None if path.is_dir() else is_picture(path):
            self._check_kind("images", "images in [0, 1]")
            return self._pictures()
        if path.suffix.lower() in (".npz", ".npy"):
            return self._arrays()
        self._check_kind("images", "images in [0, 1]")
        return self._held(read(path))

    @property
    def categorical(self) -> bool:
        """Whether inputs are rows of a table with categories."""
        return self.encoding is not None and self.encoding.categorical

    def _rows(self) -> Iterator[Named]:
        start = 0
        for table in csv_batches(self.path, self.batch_size):
            encoding = self.encoding or self._pixels(list(table))
            try:
                x = encoding.encode(table, self.gaps, ZEROS)
            except NescioError as error:
                raise NescioError(f"{self.path}: {error}") from error
            self.unseen_category[:] = encoding.unseen_category(table)
            some = x[x.isfinite()]  # others are only there with `gaps`
            if len(self.shape) == 3 and self.kind != "inputs" and ((some < 0) | (some > 1)).any():
                raise NescioError(
                    f"{str(self.path)!r}: pixels must lie in [0, 1], but range from {some.min():g} to "
                    f"{some.max():g}"
                )
            yield self._numbers(start, len(x)), None, x.reshape(-1, *self.shape)
            start += len(x)

    def _pixels(self, columns: list[str]) -> Encoding:
        """Inputs as rows of numbers, one column for each, in order."""
        if len(columns) != math.prod(self.shape):
            raise NescioError(
                f"{str(self.path)!r} has {len(columns)} columns, but an input {self.shape} has "
                f"{math.prod(self.shape)} numbers"
            )
        return Encoding.numeric(columns)

    def _pictures(self) -> Iterator[Named]:
        """One by one into the model's shape, so that neither sizes nor colours need agree within a folder."""
        alone = not self.path.is_dir()
        tree, folder = (
            (Tree((self.path,)), self.path.parent) if alone else (Tree.below(self.path), self.path)
        )
        self.skipped.extend(map(str, tree.others))
        for start in range(0, len(tree.pictures), self.batch_size):
            some = tree.pictures[start : start + self.batch_size]
            names = [_written(path.relative_to(folder)) for path in some]
            yield names, len(tree.pictures), torch.cat([self._picture(path) for path in some])

    def _picture(self, path: Path) -> Tensor:
        try:
            picture = read_pictures([path])
        except NescioError as error:
            if not self.gaps:
                raise
            self.unread.append(str(error))
            return torch.full((1, *self.shape), torch.nan)
        return self._adapted(picture)

    def _arrays(self) -> Iterator[Named]:
        start = 0
        for key, count, array in array_batches(self.path, self.batch_size):
            yield self._numbers(start, len(array)), count, self._array(key, array)
            start += len(array)

    def _array(self, key: str, array: Array) -> Tensor:
        named = key.endswith("inputs")
        self._check_kind("inputs" if named else "images", f"`{key}`" if key else "images in [0, 1]")
        if self.words and not (named and array.dtype.kind in "iub"):
            raise self._not_words(f"`{key}` of {array.dtype}")
        if self.kind is None or not named:
            return self._adapted(inputs(array, str(self.path), self.gaps))
        x = as_given(array, str(self.path))
        x = x if self.words or x.is_floating_point() else x.float()
        if x.shape[1:] != self.shape:
            raise NescioError(
                f"{self.path}: inputs of shape {tuple(x.shape[1:])}; expected {self.shape}"
            )
        return x

    def _not_words(self, what: str) -> NescioError:
        return NescioError(
            f"{self.path}: has {what}, but the detector was fitted on whole numbers, such as words; "
            "expected `inputs` of whole numbers in an npz file"
        )

    def _check_kind(self, kind: str, what: str) -> None:
        """An error if inputs with three axes come as images to what was fitted on `inputs`, or the reverse."""
        if self.kind not in (None, kind) and len(self.shape) == 3:
            own = (
                "images in [0, 1]"
                if self.kind == "images"
                else "`inputs` of an npz file, taken as they are"
            )
            raise NescioError(
                f"{self.path}: has {what}, but the detector was fitted on {own}, and the values of one "
                "may not be those of the other; give both in the same way"
            )

    def _held(self, samples: Samples) -> Iterator[Named]:
        for start in range(0, len(samples), self.batch_size):
            x = samples._stored[start : start + self.batch_size]
            yield self._numbers(start, len(x)), len(samples), self._adapted(x)

    def _adapted(self, x: Tensor) -> Tensor:
        """A batch in the shape of the model, as floats."""
        samples = Samples(x, torch.full((len(x),), -1), name=str(self.path))
        return adapt(samples, self.shape).take(slice(None))[0]

    @staticmethod
    def _numbers(start: int, count: int) -> list[str]:
        return [str(number) for number in range(start, start + count)]


def _written(path: Path) -> str:
    """A file's name as text; what in it is no UTF-8, which file systems allow, cannot be written."""
    return os.fsencode(path.as_posix()).decode(errors="replace")
