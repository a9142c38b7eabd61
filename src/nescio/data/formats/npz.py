"""NumPy files, `.npz` and `.npy`, without pickles and without trust in what their headers promise."""

import lzma
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from nescio.data.arrays import Array, check_some
from nescio.data.formats.bounds import allowed, regular
from nescio.data.parts import Parts, part
from nescio.data.samples import Samples
from nescio.errors import NescioError

_DAMAGE = (
    EOFError,
    OSError,
    ValueError,
    SyntaxError,
    OverflowError,
    RuntimeError,
    NotImplementedError,
    TypeError,
    LookupError,
    AttributeError,
    MemoryError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)  # what zipfile, the decompressors and numpy's header reader raise on damaged bytes


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


def read_npz(
    path: str | os.PathLike[str],
    classes: tuple[str, ...] = (),
    columns: Sequence[str] = (),
    any_shape: bool = False,
) -> Parts:
    """The parts of an archive: `train_images`, `train_labels`, `test_images`, `test_labels`, as far as they are there.

    `…_inputs` takes the place of `…_images` for tables. Without a prefix, `images` or `inputs` and perhaps `labels`
    are inputs that belong to no part. `columns` names further arrays, one value per input; with an array
    `<column>_names` beside it, the values are positions in it. With `any_shape`, `inputs` are taken as they are, for a
    network of the user's; `images` are images in any case.
    """
    path = regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _parts(_Archive(archive, path), classes, columns, any_shape)
    except NescioError:
        raise
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def array_batches(path: str | os.PathLike[str], size: int) -> Iterator[tuple[str, int, Array]]:
    """The inputs that `read` would give of an npz or npy file, so many rows at a time, and never all in memory.

    Each comes with its key (`images`, `test_inputs`; of an npy file "") and the number of rows of all.
    """
    path = regular(path)
    try:
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                yield from _row_batches(file, path.stat().st_size, size, str(path), "")
            return
        with zipfile.ZipFile(path) as zipped:
            archive = _Archive(zipped, path)
            keys = [
                prefix + kind for prefix in ("test_", "train_", "") for kind in ("images", "inputs")
            ]
            key = next((one for one in keys if one in archive.members), None)
            if key is None:
                raise NescioError(
                    f"{path}: holds {', '.join(archive.members) or 'nothing'}; expected images or inputs"
                )
            info = archive.members[key]
            with zipped.open(info) as member:
                yield from _row_batches(member, info.file_size, size, f"{path}, {key}", key)
    except NescioError:
        raise
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _row_batches(
    file: IO[bytes], size: int, rows: int, where: str, key: str
) -> Iterator[tuple[str, int, Array]]:
    shape, fortran, dtype = _header(file, size, where)
    check_some(shape, where)
    if not shape or 0 in shape:
        raise NescioError(f"{where}: shape {shape}; expected inputs (N, …) with N ≥ 1")
    if fortran:  # whose rows are spread over the whole file
        array = _values(file, shape, fortran, dtype, where)
        yield from (
            (key, shape[0], array[start : start + rows]) for start in range(0, shape[0], rows)
        )
        return
    for start in range(0, shape[0], rows):
        count = min(rows, shape[0] - start)
        yield key, shape[0], _values(file, (count, *shape[1:]), fortran, dtype, where)


class _Archive:
    """The arrays of a zip file by name, each measured before it is read."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        self.members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        declared = sum(info.file_size for info in self.members.values())
        if declared > allowed(path.stat().st_size):
            raise NescioError(
                f"{path}: {path.stat().st_size} bytes declare {declared} unpacked; refused"
            )

    def get(self, name: str) -> Array | None:
        if name not in self.members:
            return None
        info = self.members[name]
        with self.archive.open(info) as file:
            return _array(file, info.file_size, f"{self.path}, {name}")


def _parts(
    archive: _Archive, classes: tuple[str, ...], columns: Sequence[str], any_shape: bool
) -> Parts:
    named = archive.get("classes")
    if not classes and named is not None:
        classes = tuple(map(str, named.ravel()))
    samples: dict[str, Samples] = {}
    given: set[str] = set()
    for name, prefix in (("train", "train_"), ("test", "test_"), ("all", "")):
        key = next(
            (prefix + kind for kind in ("images", "inputs") if prefix + kind in archive.members),
            None,
        )
        x = None if key is None else archive.get(key)
        if x is None or (name == "all" and samples):
            continue
        extra = {
            column: _column(archive, column, len(x))
            for column in columns
            if column in archive.members
        }
        where, free = f"{archive.path}, {name} part", any_shape and key == f"{prefix}inputs"
        samples[name] = part(x, archive.get(prefix + "labels"), where, classes, extra, free)
        given |= {name} if free else set()
    if not samples:
        raise NescioError(
            f"{archive.path}: holds {', '.join(archive.members) or 'nothing'}; expected train_images, "
            "train_labels, test_images, test_labels, or images, or inputs"
        )
    return Parts(samples, classes, frozenset(given))


def _column(archive: _Archive, column: str, count: int) -> Array:
    values, names = archive.get(column), archive.get(f"{column}_names")
    if values is None or values.shape != (count,):
        raise NescioError(
            f"{archive.path}, {column}: expected one value for each of {count} inputs"
        )
    if names is None:
        return values
    if values.dtype.kind not in "iu" or int(values.min()) < 0 or int(values.max()) >= len(names):
        raise NescioError(
            f"{archive.path}, {column}: expected positions in {column}_names, 0 to {len(names) - 1}"
        )
    return np.asarray(names[values])


def _array(file: IO[bytes], size: int, where: str) -> Array:
    """One array, after its header's promise was compared with the bytes that are there."""
    return _values(file, *_header(file, size, where), where)


def _header(file: IO[bytes], size: int, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is in Fortran's order, and type."""
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise NescioError(f"{where}: numpy format {version}; expected 1.0 or 2.0")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # such as that the file was written by Python 2, which is no one's concern here
        shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise NescioError(
            f"{where}: an array of {dtype}; expected numbers (pickled objects are never loaded)"
        )
    if dtype.kind not in "fiubU":
        raise NescioError(f"{where}: an array of {dtype}; expected real numbers")
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


def _damaged(path: Path, error: BaseException) -> NescioError:
    return NescioError(f"{path}: is not a readable NumPy file ({type(error).__name__}: {error})")
