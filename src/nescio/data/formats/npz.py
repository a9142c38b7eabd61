"""NumPy files, `.npz` and `.npy`, without pickles and without trust in their headers."""

import lzma
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from nescio.arrays import Array
from nescio.data.arrays import check_nonempty
from nescio.data.formats.bounds import max_unpacked, require_file
from nescio.data.samples import Parts, Samples, as_samples
from nescio.errors import NescioError

# what zipfile, the decompressors and numpy's header reader raise on damaged bytes; OSError and
# ValueError among them are parents of several others
_DAMAGE = (
    *(EOFError, OSError, ValueError, SyntaxError, OverflowError, RuntimeError, TypeError),
    *(LookupError, AttributeError, MemoryError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def read_npy(path: str | os.PathLike[str]) -> Parts:
    """Read unlabelled inputs: images if the array has three or four axes, a table if it has two."""
    path = require_file(path)
    with _naming_damage(path), path.open("rb") as file:
        array = _values(file, *_header(file, path.stat().st_size, str(path)), str(path))
    return Parts({"all": as_samples(array, None, str(path))})


def read_npz(
    path: str | os.PathLike[str],
    classes: tuple[str, ...] = (),
    columns: Sequence[str] = (),
    any_shape: bool = False,
) -> Parts:
    """Read `train_images`, `train_labels`, `test_images`, `test_labels`, as far as they are there.

    `…_inputs` takes the place of `…_images` for tables. Without a prefix, `images` or `inputs` and
    perhaps `labels` are one undivided part.

    Args:
        path: of the archive.
        classes: names of the labels; by default the archive's array `classes`.
        columns: names of other arrays with one value per input; with an array `<column>_names`, the
            values are positions in it.
        any_shape: take `inputs` as they are, for a network of the user's; `images` stay images.
    """
    path = require_file(path)
    samples: dict[str, Samples] = {}
    unchanged: set[str] = set()
    with _naming_damage(path), zipfile.ZipFile(path) as zipped:
        archive = _Archive(zipped, path)
        names = archive.get("classes")
        if not classes and names is not None:
            classes = tuple(map(str, names.ravel()))
        for part, prefix in (("train", "train_"), ("test", "test_"), ("all", "")):
            key = archive.inputs(prefix)
            x = None if key is None else archive.get(key)
            if x is None or (part == "all" and samples):
                continue
            present = [name for name in columns if name in archive.members]
            facts = {name: archive.column(name, len(x)) for name in present}
            as_is = any_shape and key == f"{prefix}inputs"
            where, y = f"{path}, {part} part", archive.get(prefix + "labels")
            samples[part] = as_samples(x, y, where, classes, facts, as_is)
            unchanged |= {part} if as_is else set()
    if not samples:
        expected = "train_images, train_labels, test_images, test_labels, or images, or inputs"
        raise NescioError(f"{path}: holds {archive.names}; expected {expected}")
    return Parts(samples, classes, frozenset(unchanged))


def array_batches(path: str | os.PathLike[str], size: int) -> Iterator[tuple[str, int, Array]]:
    """Yield the inputs of an npz or npy file, `size` rows at a time, and never all in memory.

    Each batch comes with its key (`images`, …; "" of an npy file) and the number of all rows.
    """
    path = require_file(path)
    with _naming_damage(path), ExitStack() as stack:
        if path.suffix.lower() == ".npy":
            key, where, total = "", str(path), path.stat().st_size
            file: IO[bytes] = stack.enter_context(path.open("rb"))
        else:
            archive = _Archive(stack.enter_context(zipfile.ZipFile(path)), path)
            key = next(filter(None, map(archive.inputs, ("test_", "train_", ""))), "")
            if not key:
                raise NescioError(f"{path}: holds {archive.names}; expected images or inputs")
            where, total = f"{path}, {key}", archive.members[key].file_size
            file = stack.enter_context(archive.zipped.open(archive.members[key]))
        shape, fortran, dtype = _header(file, total, where)
        check_nonempty(shape, where)
        if not shape or 0 in shape:
            raise NescioError(f"{where}: inputs must have shape (N, …) with N ≥ 1, got {shape}")
        # rows of an array in Fortran order are spread over the whole file
        array = _values(file, shape, fortran, dtype, where) if fortran else None
        for start in range(0, shape[0], size):
            part = min(size, shape[0] - start), *shape[1:]
            rows = _values(file, part, False, dtype, where) if array is None else array[start:]
            yield key, shape[0], rows[:size]


class _Archive:
    """The arrays of a zip file by name, each measured before it is read."""

    def __init__(self, zipped: zipfile.ZipFile, path: Path) -> None:
        self.zipped, self.path = zipped, path
        self.members = {info.filename.removesuffix(".npy"): info for info in zipped.infolist()}
        self.names = ", ".join(self.members) or "nothing"
        size, declared = path.stat().st_size, sum(i.file_size for i in self.members.values())
        if declared > max_unpacked(size):
            raise NescioError(f"{path}: {size} bytes declare {declared} unpacked; refused")

    def get(self, name: str) -> Array | None:
        if name not in self.members:
            return None
        info, where = self.members[name], f"{self.path}, {name}"
        with self.zipped.open(info) as file:
            return _values(file, *_header(file, info.file_size, where), where)

    def inputs(self, prefix: str) -> str | None:
        """Return the key of the inputs with a prefix, images before others."""
        keys = (prefix + kind for kind in ("images", "inputs"))
        return next((key for key in keys if key in self.members), None)

    def column(self, name: str, count: int) -> Array:
        """Return one value for each input, by name where there are names."""
        values, names = self.get(name), self.get(f"{name}_names")
        where = f"{self.path}, {name}"
        if values is None or values.shape != (count,):
            raise NescioError(f"{where}: expected one value for each of {count} inputs")
        if names is None:
            return values
        if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= len(names):
            raise NescioError(f"{where}: expected positions in {name}_names, 0 … {len(names) - 1}")
        return np.asarray(names[values])


def _header(file: IO[bytes], size: int, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and dtype, if they promise as many bytes as are there."""
    version = npy_format.read_magic(file)
    if version not in _HEADERS:
        raise NescioError(f"{where}: numpy format must be 1.0 or 2.0, got {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that the file was written by Python 2
        shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject or dtype.kind not in "fiubU":
        expected = "real numbers" + " (pickled objects are never loaded)" * dtype.hasobject
        raise NescioError(f"{where}: an array of {dtype}; expected {expected}")
    promised = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or file.tell() + promised != size:
        raise NescioError(f"{where}: {shape} {dtype} does not fit the {size} bytes that are there")
    return shape, fortran, dtype


def _values(
    file: IO[bytes], shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any], where: str
) -> Array:
    promised = math.prod(shape) * dtype.itemsize
    data = file.read(promised)
    if len(data) != promised:
        raise NescioError(f"{where}: is truncated: {len(data)} of {promised} bytes")
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Turn what damaged bytes raise into an error that names the file."""
    try:
        yield
    except NescioError:
        raise
    except _DAMAGE as error:
        raise NescioError(f"{path}: is not a readable NumPy file ({error!r})") from error
