"""Files that are either whole or not there: written under a temporary name, then renamed.

What nescio wrote may be replaced by what is of the same kind; anything else is left alone, unless that is asked for.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from nescio.errors import NescioError
from nescio.file_kinds import kind_of

_forced: list[None] = []  # of the whole process: threads that a command starts work for it, too

_noted: ContextVar[list[str] | None] = ContextVar("noted", default=None)


@contextmanager
def overwriting() -> Iterator[None]:
    """A block in which any file may be replaced, as `--force` asks for."""
    _forced.append(None)
    try:
        yield
    finally:
        _forced.pop()


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode: str = "wb", force: bool = False
) -> Iterator[IO[Any]]:
    """Open a file that takes the place of `path` only when the block ends without an error.

    The temporary file stands in the same folder, so the rename is atomic; a process killed in the block leaves
    `path` as it was, and at most a `.partial` file beside it. A link is followed; what is no regular file, such as a
    pipe or `/dev/stdout`, is written to as it is. A file that is there already is replaced only if it is empty, or if
    nescio wrote it and the new one is of its kind, or with `force`.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    check_replaceable(path, force=force)  # before the block's work is done
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with _naming(path, path), open(path, mode, **text) as file:  # type: ignore[call-overload]
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        handle, partial = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".partial", dir=path.parent
        )
    try:
        with _naming(path, Path(partial)):
            with os.fdopen(handle, mode, **text) as file:  # type: ignore[call-overload]
                yield file
                file.flush()
                os.fsync(file.fileno())
            # again, since the block may have taken long, and now the kind is known
            check_replaceable(path, kind_of(partial) or "file without a mark", force)
            os.chmod(
                partial, 0o666 & ~_umask()
            )  # mkstemp makes 0600; give what open() would have given
            os.replace(partial, path)
        _note(path)
    finally:
        Path(partial).unlink(missing_ok=True)


def check_replaceable(
    path: str | os.PathLike[str], kind: str | None = None, force: bool = False
) -> None:
    """An error if a file cannot be written, or would take the place of one that is not ours to replace.

    Args:
        path: of the file to write.
        kind: of the file to write, as in `marks.kind_of`; if it is not known yet, any kind of ours may be replaced.
        force: whether anything may be replaced.
    """
    where = Path(path)
    if where.is_dir():
        raise NescioError(f"{str(path)!r} is a folder; expected the path of a file to write")
    if where.is_file() or not where.exists():
        _check_place(Path(os.path.realpath(where)).parent)
    if force or _forced or not where.is_file() or not where.stat().st_size:
        return
    there = kind_of(where)
    if there is None or (kind is not None and there != kind):
        what = "was not written by nescio" if there is None else f"is {_a(there)} that nescio wrote"
        by = "" if kind is None else f" by {_a(kind)}"
        raise NescioError(
            f"{str(path)!r} {what}, and would be replaced{by}; give another file to write, or ask for it "
            "with --force (from Python: force=True)"
        )


@contextmanager
def replacing_folder(
    path: str | os.PathLike[str], mark: str, kind: str, own: Collection[str]
) -> Iterator[Path]:
    """A new folder that takes the place of `path` only when the block ends without an error.

    A folder that is already there is replaced if it is empty, or if it holds a file called `mark` of that `kind`, by
    which one knows that it was made this way, and no others than those called as in `own`; any other is left alone,
    with an error. `--force` speaks for files called as ours, and never for others, which would all be lost.
    """
    path = Path(os.path.realpath(path))
    check_replaceable_folder(path, mark, kind, own)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        partial = Path(
            tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        )
    old = partial.with_suffix(".old")
    try:
        with _naming(path, partial):
            yield partial
            os.chmod(partial, 0o777 & ~_umask())  # mkdtemp makes 0700
            check_replaceable_folder(
                path, mark, kind, own
            )  # again, since the block may have taken long
            if path.is_dir():
                os.replace(path, old)
            _put(partial, path, old)
        _note(path)
    finally:
        # what was there is thrown away only once something is in its place
        for rest in (partial, old) if path.is_dir() else (partial,):
            if rest.is_dir():
                shutil.rmtree(rest)


@contextmanager
def noted() -> Iterator[list[str]]:
    """A block with the list of what has been written in it, each path once."""
    paths: list[str] = []
    before = _noted.set(paths)
    try:
        yield paths
    finally:
        _noted.reset(before)


def _note(path: Path) -> None:
    paths = _noted.get()
    if paths is not None and str(path) not in paths:
        paths.append(str(path))


@contextmanager
def _naming(path: Path, partial: Path | None = None) -> Iterator[None]:
    """A block whose errors name the path that was asked for, and not a temporary one that no one knows, or none."""
    try:
        yield
    except OSError as error:
        about = None if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno is None:  # its words are all there is to it
            raise
        if about is None or partial is None or about == partial:
            error.filename, error.filename2 = str(path), None
        elif about.is_relative_to(partial):
            error.filename, error.filename2 = str(path / about.relative_to(partial)), None
        raise


def check_replaceable_folder(path: Path, mark: str, kind: str, own: Collection[str]) -> None:
    """An error if something stands at `path` that is not ours to throw away; see `replacing_folder`."""
    if path.exists() and not path.is_dir():
        raise NescioError(f"{str(path)!r} is a file; expected a folder to write")
    inside = sorted(path.iterdir()) if path.is_dir() else []
    others = [one.name for one in inside if one.name not in own or one.is_dir()]
    marked = (path / mark).is_file() and kind_of(path / mark) == kind
    if others or (inside and not marked and not _forced):
        raise NescioError(
            f"the folder {str(path)!r} holds other things ({', '.join((others or [inside[0].name])[:3])}"
            f"{', …' * (len(others) > 3)}), and would be replaced whole; give one that is not there "
            "yet, or move them"
        )


def _check_place(folder: Path) -> None:
    """An error of the system if a folder cannot take a file, nor be made: told before the work, not after it."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(there))


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIO' else 'a'} {kind}"


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
