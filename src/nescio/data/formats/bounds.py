"""Bytes out of files that may be broken or hostile: never more than a file of that size can honestly hold."""

import bz2
import gzip
import os
import zlib
from pathlib import Path
from typing import IO

from nescio.errors import NescioError

_FLOOR, _CEILING, _RATIO = (
    64 * 2**20,
    8 * 2**30,
    200,
)  # real data pack to a tenth; deflate can reach 1032, bz2 more


def allowed(packed: int) -> int:
    """The bytes that `packed` compressed bytes may unpack to before they count as a bomb."""
    return min(_CEILING, max(_FLOOR, _RATIO * packed))


def require_exists(path: str | os.PathLike[str], hint: str = "") -> Path:
    """The path, if something is there; the hint follows "no such file"."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NescioError(f"{path}: no such file{hint}") from error
    except TypeError as error:
        raise NescioError(
            f"a {type(path).__name__} was given for a path; expected text or a pathlib.Path"
        ) from error
    except (
        OSError,
        ValueError,
    ) as error:  # links in a circle, a name too long, a folder that is closed
        raise NescioError(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from error
    return Path(path)


def regular(path: str | os.PathLike[str]) -> Path:
    """The path, if it is a file."""
    path = require_exists(path)
    if not path.is_file():
        raise NescioError(f"{path}: is not a file")
    return path


def unpacked(path: str | os.PathLike[str]) -> bytes:
    """A file's bytes, decompressed if they are gzip or bzip2, whatever the file's name says."""
    path = regular(path)
    try:
        with path.open("rb") as file:
            return unpack(file, path.stat().st_size, str(path))
    except OSError as error:
        raise NescioError(f"{path}: cannot be read ({error.strerror or error})") from error


def unpack(file: IO[bytes], size: int, where: str) -> bytes:
    """The bytes of an open file of `size` bytes, decompressed if need be."""
    magic = file.read(3)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return _drained(gzip.GzipFile(fileobj=file), size, where)
    if magic == b"BZh":
        return _drained(bz2.BZ2File(file), size, where)
    return file.read()


def text(path: str | os.PathLike[str]) -> str:
    """A text file's characters, decompressed if need be; UTF-8 with or without a byte-order mark."""
    try:
        return unpacked(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NescioError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def _drained(stream: gzip.GzipFile | bz2.BZ2File, size: int, where: str) -> bytes:
    limit, data = allowed(size), bytearray()
    try:
        while chunk := stream.read(2**20):
            data += chunk
            if len(data) > limit:
                raise NescioError(
                    f"{where}: {size} compressed bytes unpack to more than {limit}; refused"
                )
    except (EOFError, OSError, zlib.error) as error:
        raise NescioError(f"{where}: is truncated or damaged ({error})") from error
    return bytes(data)
