"""Sets in their authors' formats: idx files (MNIST, EMNIST), CIFAR-10's batches, USPS as text."""

import io
import math
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from nescio.arrays import Array
from nescio.data.formats.bounds import max_unpacked, read_bytes, read_text, require_file, unpack
from nescio.data.samples import Parts, as_samples
from nescio.errors import NescioError

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # the third byte
_IDX_FILES = ("images-idx3-ubyte", "labels-idx1-ubyte")
_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, the green and the blue plane
_CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")

Paths = tuple[Path, ...]
Classes = tuple[str, ...]


def _parts(arrays: Sequence[Array], paths: Paths, classes: Classes) -> Parts:
    x, y, x_test, y_test = arrays
    train = as_samples(x, y, f"{paths[0]}, train part", classes)
    test = as_samples(x_test, y_test, f"{paths[len(paths) // 2]}, test part", classes)
    return Parts({"train": train, "test": test}, classes)


def idx_array(data: bytes, where: str) -> Array:
    """Return the array in an idx file: two zeros, type, number of axes, their lengths, values."""
    axes = data[3] if len(data) >= 4 else 0
    start = 4 + 4 * axes
    if data[:2] != b"\x00\x00" or len(data) < start or axes == 0 or data[2] not in _IDX_TYPES:
        got = data[:4].hex(" ") or "none"
        raise NescioError(f"{where}: is not an idx file (its first bytes are {got})")
    if axes > 4:
        expected = "1 for labels, 2 for tables, 3 or 4 for images"
        raise NescioError(f"{where}: an array of {axes} axes; expected {expected}")
    shape = tuple(int(length) for length in np.frombuffer(data, ">u4", axes, 4))
    if 0 in shape:  # beside a zero, numpy may find the other lengths too large to multiply
        raise NescioError(f"{where}: shape {shape}; expected at least 1 along each axis")
    dtype = np.dtype(_IDX_TYPES[data[2]])
    promised, follow = math.prod(shape) * dtype.itemsize, len(data) - start
    if follow != promised:
        header = f"the header promises {shape} {dtype.name}, {promised} bytes"
        raise NescioError(f"{where}: {header}, but {follow} follow")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_idx_array(path: Path) -> Array:
    return idx_array(read_bytes(path), str(path))


def read_idx(path: str | os.PathLike[str]) -> Parts:
    """Read the images of one file, with the labels of the file beside it that is named for them."""
    path = Path(path)
    twin = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    y = _read_idx_array(twin) if twin != path and twin.exists() else None
    return Parts({"all": as_samples(_read_idx_array(path), y, str(path))})


def read_idx_set(paths: Paths, classes: Classes = ()) -> Parts:
    """Read a whole set: training images, their labels, test images, their labels."""
    return _parts([_read_idx_array(path) for path in paths], paths, classes)


def idx_set_in(folder: Path) -> Paths | None:
    """Return the four files of a set in a folder, if they are there, compressed or not."""
    names = [f"{half}-{what}" for half in ("train", "t10k") for what in _IDX_FILES]
    pairs = [(folder / name, folder / f"{name}.gz") for name in names]
    paths = [next((path for path in pair if path.is_file()), None) for pair in pairs]
    return tuple(path for path in paths if path) if all(paths) else None


def read_emnist(paths: Paths, classes: Classes) -> Parts:
    """Read EMNIST letters from four idx files, or from the archive of all of EMNIST.

    Images are published transposed, and labels start at 1.
    """
    arrays = _emnist_zip(paths[0]) if len(paths) == 1 else [_read_idx_array(p) for p in paths]
    for x in arrays[::2]:
        if x.ndim != 3:
            raise NescioError(f"{paths[0]}: images must have shape (N, 28, 28), got {x.shape}")
    arrays[::2] = [x.transpose(0, 2, 1) for x in arrays[::2]]
    arrays[1::2] = [y.astype(np.int64) - 1 for y in arrays[1::2]]
    return _parts(arrays, paths, classes)


def _emnist_zip(path: Path) -> list[Array]:
    names = [f"emnist-letters-{part}-{end}.gz" for part in ("train", "test") for end in _IDX_FILES]
    arrays = []
    try:
        with zipfile.ZipFile(require_file(path)) as archive:
            members = {Path(info.filename).name: info for info in archive.infolist()}
            for name in names:
                where, size = f"{path}, {name}", members[name].file_size
                if size > max_unpacked(members[name].compress_size):
                    raise NescioError(f"{where}: declares {size} bytes unpacked; refused")
                packed = io.BytesIO(archive.read(members[name]))
                arrays.append(idx_array(unpack(packed, size, where), where))
    except (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, zlib.error, OSError) as error:
        raise NescioError(f"{path}: is not EMNIST's archive ({error})") from error
    return arrays


def read_cifar(paths: Paths, classes: Classes) -> Parts:
    """Read CIFAR-10 from the folder `cifar-10-batches-bin`, or from its archive."""
    path, arrays = paths[0], []
    folder = path.is_dir()
    batches = [read_bytes(path / name) for name in _CIFAR_FILES] if folder else _cifar_tar(path)
    for name, batch in zip(_CIFAR_FILES, batches, strict=True):
        if not batch or len(batch) % _CIFAR_RECORD:
            sizes = f"{len(batch)} bytes; expected records of {_CIFAR_RECORD}"
            raise NescioError(f"{path}, {name}: {sizes}")
    for data in (b"".join(batches[:5]), batches[5]):
        records = np.frombuffer(data, np.uint8).reshape(-1, _CIFAR_RECORD)
        arrays += [records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]]
    return _parts(arrays, paths, classes)


def _cifar_tar(path: Path) -> list[bytes]:
    """Return six members of the archive; nothing is unpacked to disk."""
    try:
        with tarfile.open(fileobj=io.BytesIO(read_bytes(path)), mode="r:") as archive:
            entries = (member for member in archive.getmembers() if member.isfile())
            members = {Path(member.name).name: member for member in entries}
            files = [archive.extractfile(members[name]) for name in _CIFAR_FILES]
            return [b"" if file is None else file.read() for file in files]
    except (tarfile.TarError, KeyError, EOFError) as error:
        what = "is not the archive of CIFAR-10's binary version"
        raise NescioError(f"{path}: {what} ({error})") from error


def read_usps(paths: Paths, classes: Classes, libsvm: bool = False) -> Parts:
    """Read USPS as text: a digit and 256 grey values from −1 to 1 on each line.

    LIBSVM has the digit plus one, and values as `index:value`, without zeros.
    """
    return _parts([array for path in paths for array in _usps(path, libsvm)], paths, classes)


def _usps(path: Path, libsvm: bool) -> tuple[Array, Array]:
    lines = [line.split() for line in read_text(path).splitlines() if line.strip()]
    values, digits = np.zeros((len(lines), 256)), np.zeros(len(lines), dtype=np.int64)
    position = {str(i + 1): i for i in range(256)}
    try:
        for row, (digit, *cells) in enumerate(lines):
            digits[row] = int(float(digit)) - libsvm
            if libsvm:
                pairs = [cell.split(":") for cell in cells]
                positions = [position[index] for index, _ in pairs]
                values[row, positions] = [float(value) for _, value in pairs]
            else:
                values[row] = [float(cell) for cell in cells]
    except (ValueError, KeyError, OverflowError) as error:
        where = f"{path}, line {row + 1}"
        raise NescioError(f"{where}: expected a digit and 256 values ({error})") from error
    return (values.reshape(-1, 16, 16) + 1) / 2, digits


PUBLISHED: dict[str, Callable[[Paths, Classes], Parts]] = {
    "idx": read_idx_set,
    **dict.fromkeys(("emnist", "emnist_zip"), read_emnist),
    **dict.fromkeys(("cifar", "cifar_tar"), read_cifar),
    "usps": read_usps,
    "libsvm": partial(read_usps, libsvm=True),
}
