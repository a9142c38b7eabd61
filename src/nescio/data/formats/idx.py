"""The idx files of MNIST and its relatives, plain or compressed, as published."""

import math
import os
from pathlib import Path

import numpy as np

from nescio.data.arrays import Array
from nescio.data.formats.bounds import unpacked
from nescio.data.parts import Parts, part
from nescio.errors import NescioError

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # the header's third byte


def idx_array(data: bytes, where: str) -> Array:
    """The array in the bytes of an idx file: two zeros, a type, the number of axes, their lengths, the values."""
    axes = data[3] if len(data) >= 4 else 0
    start = 4 + 4 * axes
    if data[:2] != b"\x00\x00" or len(data) < start or axes == 0 or data[2] not in _TYPES:
        raise NescioError(
            f"{where}: is not an idx file (its first bytes are {data[:4].hex(' ') or 'none'})"
        )
    if axes > 4:
        raise NescioError(
            f"{where}: an array of {axes} axes; expected 1 for labels, 2 for tables, 3 or 4 for images"
        )
    shape = tuple(int(length) for length in np.frombuffer(data, ">u4", axes, 4))
    if 0 in shape:  # beside a zero, numpy may find the other lengths too large to multiply
        raise NescioError(f"{where}: shape {shape}; expected at least 1 along each axis")
    dtype = np.dtype(_TYPES[data[2]])
    promised = math.prod(shape) * dtype.itemsize
    if len(data) - start != promised:
        raise NescioError(
            f"{where}: the header promises {shape} {dtype.name}, {promised} bytes, "
            f"but {len(data) - start} follow"
        )
    return (
        np.frombuffer(data, dtype, offset=start)
        .reshape(shape)
        .astype(dtype.newbyteorder("="), copy=False)
    )


def read_idx(path: str | os.PathLike[str]) -> Parts:
    """The images of one file, with the labels of the file beside it that is named for them, if there is one."""
    path = Path(path)
    twin = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    y = idx_array(unpacked(twin), str(twin)) if twin != path and twin.exists() else None
    return Parts({"all": part(idx_array(unpacked(path), str(path)), y, str(path))})


def read_idx_set(paths: tuple[Path, ...], classes: tuple[str, ...] = ()) -> Parts:
    """A whole set: training images, their labels, test images, their labels."""
    x, y, x_test, y_test = (idx_array(unpacked(path), str(path)) for path in paths)
    return Parts(
        {
            "train": part(x, y, str(paths[0]), classes),
            "test": part(x_test, y_test, str(paths[2]), classes),
        },
        classes,
    )


def idx_set_in(folder: Path) -> tuple[Path, ...] | None:
    """The four files of a set in a folder, if they are there, compressed or not."""
    names = [
        f"{half}-{what}"
        for half in ("train", "t10k")
        for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    paths = [
        next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
        for name in names
    ]
    return tuple(path for path in paths if path) if all(paths) else None
