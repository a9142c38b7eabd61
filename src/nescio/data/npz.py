"""NumPy files, `.npz` and `.npy`, without pickles and without trust in what their headers promise."""

import lzma
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from nescio.data.arrays import Array
from nescio.data.bounds import allowed, regular
from nescio.data.parts import Parts, part
from nescio.data.samples import Samples
from nescio.errors import NescioError

_DAMAGE = (
    EOFError, OSError, ValueError, SyntaxError, OverflowError, RuntimeError, NotImplementedError,
    TypeError, LookupError, AttributeError, MemoryError, struct.error,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip  # what zipfile, the decompressors and numpy's header reader raise on damaged bytes


def read_npy(path: str | os.PathLike[str]) -> Parts:
    """Unlabelled inputs: images if the array has three or four axes, a table if it has two."""
    path = regular(path)
    try:
        with path.open("rb") as file:
            array = _array(file, path.stat().st_size, str(path))
    except NescioError:
        raise
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    return Parts({"all": part(array, None, str(path))})


def read_npz(path: str | os.PathLike[str], classes: tuple[str, ...] = (), columns: Sequence[str] = ()) -> Parts:
    """The parts of an archive: `train_images`, `train_labels`, `test_images`, `test_labels`, as far as they are there.

    `…_inputs` takes the place of `…_images` for tables. Without a prefix, `images` or `inputs` and perhaps `labels`
    are inputs that belong to no part. `columns` names further arrays, one value per input; with an array
    `<column>_names` beside it, the values are positions in it.
    """
    path = regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _parts(_Archive(archive, path), classes, columns)
    except NescioError:
        raise
    except _DAMAGE as error:
        raise _damaged(path, error) from error


class _Archive:
    """The arrays of a zip file by name, each measured before it is read."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        self.members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        declared = sum(info.file_size for info in self.members.values())
        if declared > allowed(path.stat().st_size):
            raise NescioError(f"{path}: {path.stat().st_size} bytes declare {declared} unpacked; refused")

    def get(self, name: str) -> Array | None:
        if name not in self.members:
            return None
        info = self.members[name]
        with self.archive.open(info) as file:
            return _array(file, info.file_size, f"{self.path}, {name}")


def _parts(archive: _Archive, classes: tuple[str, ...], columns: Sequence[str]) -> Parts:
    named = archive.get("classes")
    if not classes and named is not None:
        classes = tuple(map(str, named.ravel()))
    samples: dict[str, Samples] = {}
    for name, prefix in (("train", "train_"), ("test", "test_"), ("all", "")):
        key = next((prefix + kind for kind in ("images", "inputs") if prefix + kind in archive.members), None)
        x = None if key is None else archive.get(key)
        if x is None or (name == "all" and samples):
            continue
        extra = {column: _column(archive, column, len(x)) for column in columns if column in archive.members}
        samples[name] = part(x, archive.get(prefix + "labels"), f"{archive.path}, {name} part", classes, extra)
    if not samples:
        raise NescioError(f"{archive.path}: holds {', '.join(archive.members) or 'nothing'}; expected train_images, "
                          "train_labels, test_images, test_labels, or images, or inputs")  # fmt: skip
    return Parts(samples, classes)


def _column(archive: _Archive, column: str, count: int) -> Array:
    values, names = archive.get(column), archive.get(f"{column}_names")
    if values is None or values.shape != (count,):
        raise NescioError(f"{archive.path}, {column}: expected one value for each of {count} inputs")
    if names is None:
        return values
    if values.dtype.kind not in "iu" or int(values.min()) < 0 or int(values.max()) >= len(names):
        raise NescioError(f"{archive.path}, {column}: expected positions in {column}_names, 0 to {len(names) - 1}")
    return np.asarray(names[values])


def _array(file: IO[bytes], size: int, where: str) -> Array:
    """One array, after its header's promise was compared with the bytes that are there."""
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise NescioError(f"{where}: numpy format {version}; expected 1.0 or 2.0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that the file was written by Python 2, which is no one's concern here
        shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise NescioError(f"{where}: an array of {dtype}; expected numbers (pickled objects are never loaded)")
    if dtype.kind not in "fiubU":
        raise NescioError(f"{where}: an array of {dtype}; expected real numbers")
    promised = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or file.tell() + promised != size:
        raise NescioError(f"{where}: {shape} {dtype} does not fit the {size} bytes that are there")
    data = file.read(promised)
    if len(data) != promised:
        raise NescioError(f"{where}: is truncated: {len(data)} of {promised} bytes")
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)


def _damaged(path: Path, error: BaseException) -> NescioError:
    return NescioError(f"{path}: is not a readable NumPy file ({type(error).__name__}: {error})")
