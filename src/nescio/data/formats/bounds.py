"""Bytes of files that may be damaged or malicious: never more than a file of that size holds."""

import bz2
import gzip
import os
import zlib
from pathlib import Path
from typing import IO

from nescio.errors import NescioError

MIN_LIMIT, MAX_LIMIT = 64 * 2**20, 8 * 2**30  # bytes
MAX_RATIO = 200  # real data pack to a tenth; deflate can reach 1032, bz2 more


def max_unpacked(packed: int) -> int:
    """Return the bytes that `packed` compressed bytes may unpack to before they count as a bomb."""
    return min(MAX_LIMIT, max(MIN_LIMIT, MAX_RATIO * packed))


def require_exists(path: str | os.PathLike[str], hint: str = "") -> Path:
    """Return the path if something is there; the hint follows "no such file"."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NescioError(f"{path}: no such file{hint}") from error
    except TypeError as error:
        kind = type(path).__name__
        raise NescioError(f"a path must be a str or pathlib.Path, got {kind}") from error
    except (OSError, ValueError) as error:  # a circle of links, a name too long, a closed folder
        raise unreadable(path, error) from error
    return Path(path)


def require_file(path: str | os.PathLike[str]) -> Path:
    """Return the path if it is a file."""
    path = require_exists(path)
    if not path.is_file():
        raise NescioError(f"{path}: is not a file")
    return path


def unreadable(path: str | os.PathLike[str], error: Exception) -> NescioError:
    """Return the error for what the system refuses to open."""
    return NescioError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return a file's bytes, decompressed if they are gzip or bzip2, whatever the name says."""
    path = require_file(path)
    try:
        with path.open("rb") as file:
            return unpack(file, path.stat().st_size, str(path))
    except OSError as error:
        raise unreadable(path, error) from error


def unpack(file: IO[bytes], size: int, where: str) -> bytes:
    """Return the bytes of an open file of `size` bytes, decompressed if need be."""
    magic = file.read(3)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        stream: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=file)
    elif magic == b"BZh":
        stream = bz2.BZ2File(file)
    else:
        return file.read()
    limit, data = max_unpacked(size), bytearray()
    try:
        while chunk := stream.read(2**20):
            data += chunk
            if len(data) > limit:
                raise NescioError(f"{where}: {size} bytes unpack to more than {limit}; refused")
    except (EOFError, OSError, zlib.error) as error:
        raise NescioError(f"{where}: is truncated or damaged ({error})") from error
    return bytes(data)


def read_text(path: str | os.PathLike[str]) -> str:
    """Return a text file, decompressed if need be; UTF-8 with or without a byte-order mark."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NescioError(f"{path}: is not UTF-8 text (byte {error.start})") from error
