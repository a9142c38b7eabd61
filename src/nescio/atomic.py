"""Files that are either whole or not there: written under a temporary name, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nescio.errors import NescioError


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that takes the place of `path` only when the block ends without an error.

    The temporary file stands in the same folder, so the rename is atomic; a process killed in the block leaves
    `path` as it was, and at most a `.partial` file beside it. A link is followed; what is no regular file, such as a
    pipe or `/dev/stdout`, is written to as it is.
    """
    path = Path(os.path.realpath(path))
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if path.is_dir():
        raise NescioError(f"{str(path)!r} is a folder; expected the path of a file to write")
    if path.exists() and not path.is_file():
        with open(path, mode, **text) as file:  # type: ignore[call-overload]
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(handle, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o666 & ~_umask())  # mkstemp makes 0600; give what open() would have given
        with _naming(path):
            os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str], mark: str, own: Collection[str]) -> Iterator[Path]:
    """A new folder that takes the place of `path` only when the block ends without an error.

    A folder that is already there is replaced if it is empty, or if it holds a file called `mark`, by which one knows
    that it was made this way, and no others than those called as in `own`; any other is left alone, with an error.
    """
    path = Path(os.path.realpath(path))
    _check_replaceable(path, mark, own)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    old = partial.with_suffix(".old")
    try:
        yield partial
        os.chmod(partial, 0o777 & ~_umask())  # mkdtemp makes 0700
        _check_replaceable(path, mark, own)  # again, since the block may have taken long
        with _naming(path):
            if path.is_dir():
                os.replace(path, old)
            _put(partial, path, old)
    finally:
        # what was there is thrown away only once something is in its place
        for rest in (partial, old) if path.is_dir() else (partial,):
            if rest.is_dir():
                shutil.rmtree(rest)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A block whose errors name the path that was asked for, and not a temporary one that no one knows."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _check_replaceable(path: Path, mark: str, own: Collection[str]) -> None:
    """An error if something stands at `path` that is not ours to throw away."""
    if path.exists() and not path.is_dir():
        raise NescioError(f"{str(path)!r} is a file; expected a folder to write")
    inside = sorted(path.iterdir()) if path.is_dir() else []
    others = [one.name for one in inside if one.name not in own or one.is_dir()]
    if others or (inside and not (path / mark).exists()):
        raise NescioError(f"the folder {str(path)!r} holds other things ({', '.join((others or [inside[0].name])[:3])}"
                          f"{', …' * (len(others) > 3)}), and would be replaced whole; give one that is not there "
                          "yet, or move them")  # fmt: skip


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _put(new: Path, path: Path, old: Path) -> None:
    """Rename a folder into its place; if that fails, what was there comes back."""
    try:
        os.replace(new, path)
    except OSError:
        if old.is_dir():
            os.replace(old, path)
        raise
