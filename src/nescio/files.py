"""Files that are either whole or not there: written under a temporary name, then renamed.

What nescio wrote may be replaced by a file of the same kind; anything else only when asked for. A
kind is recognised by a file's contents, not by its name.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from nescio.errors import NescioError, check_path

MADE_BY = "nescio"  # the creator that figures name
MARKDOWN = "<!-- made by nescio -->"  # the first line of a page; readers do not show it
ARCHIVE = b"made by nescio"  # the comment of an npz file
REPORT, FIGURE = "report", "figure"
PAGE = "page in Markdown"  # a kind of file, as `check_replaceable` takes it
ANSWERS, RECORD = "table of answers", "{} record"

RECORDS: set[str] = set()  # kinds of records; each adds its name as its class is made
# columns that a table of answers may have, as `nescio.scores` names them
SCORES = (
    b"max_prob margin entropy normalised_entropy max_logit energy expected_entropy variance "
    rb"mutual_information gradient_\w+"
).split()

_MARKED_BYTES = 4096  # at the beginning and at the end of a file, where marks are
# what a file of each kind begins with and, for some, ends with; a group within is the kind
# itself. Others may add kinds
MARKS = {
    RECORD: rb'\A\{\s*"record"\s*:\s*"(\w+)"\s*,\s*"format"\s*:\s*\d+\s*[,}]',
    "{} file": rb'\A.{8}\{"__metadata__":\{"nescio":"\{\\"kind\\": \\"(\w+)\\"',
    REPORT: rb'\A<!doctype html>.*<meta name="generator" content="nescio ',
    FIGURE: rb"\A(?:<\?xml.*<dc:creator>\s*<cc:Agent>\s*<dc:title>nescio</dc:title>"
    rb"|\x89PNG\r\n.*tEXtSoftware\0nescio|%PDF-.*/Creator \(nescio\))",
    PAGE: rb"\A<!-- made by nescio -->",
    ANSWERS: rb"\Ainput,class,(?:model_class,confidence,p_value,score|confidence(?:,\"?(?:"
    + b"|".join(SCORES)
    + rb")(?::[^,\r\n]+|\([^()\r\n]*\)\"?)?)+)(?:,unseen_category)?\r?\n",
    "set of inputs": rb"\APK.*made by nescio\Z",
    "note on a demo": rb"\AWritten by `nescio demo`",
}

_forced: list[None] = []  # of the whole process: threads that a command starts work for it, too
_written: ContextVar[list[str] | None] = ContextVar("written", default=None)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a file of ours, such as "Evaluation record"; None if others wrote it."""
    with Path(path).open("rb") as file:
        ends = file.read(_MARKED_BYTES)
        remaining = file.seek(0, os.SEEK_END) - len(ends)
        file.seek(-min(remaining, _MARKED_BYTES), os.SEEK_END)
        ends += file.read()
    for kind, mark in MARKS.items():
        if match := re.search(mark, ends, re.DOTALL):
            names = [group.decode() for group in match.groups()]
            return None if kind == RECORD and names[0] not in RECORDS else kind.format(*names)
    return None


@contextmanager
def force_overwrite() -> Iterator[None]:
    """Allow any file to be replaced in a block, as `--force` asks for."""
    _forced.append(None)
    try:
        yield
    finally:
        _forced.pop()


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: str = "wb", force: bool = False
) -> Iterator[IO[Any]]:
    """Open a file that takes the place of `path` only when the block ends without an error.

    The temporary file is in the same folder, so the rename is atomic; a process killed in the block
    leaves `path` as it was, and at most a `.partial` file beside it. A link is followed; what is no
    regular file, such as a pipe or `/dev/stdout`, is written to directly. An existing file is
    replaced only if it is empty, or if nescio wrote it and the new one is of its kind, or with
    `force`.

    >>> with atomic_write("numbers.txt", "w") as file:
    ...     print(1, 2, 3, file=file)
    >>> Path("numbers.txt").read_text().split()
    ['1', '2', '3']
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
        handle, partial = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
    try:
        with _naming(path, Path(partial)):
            with os.fdopen(handle, mode, **text) as file:  # type: ignore[call-overload]
                yield file
                file.flush()
                os.fsync(file.fileno())
            # again, since the block may have taken long, and now the kind is known
            check_replaceable(path, kind_of(partial) or "file without a mark", force)
            os.chmod(partial, 0o666 & ~_umask())  # mkstemp makes 0600, open() would have made this
            os.replace(partial, path)
        _note(path)
    finally:
        Path(partial).unlink(missing_ok=True)


def check_replaceable(
    path: str | os.PathLike[str], kind: str | None = None, force: bool = False
) -> None:
    """Raise if a file cannot be written, or would replace one that is not ours to replace.

    Args:
        path: of the file to write.
        kind: of the file to write, as in `kind_of`; if it is not known yet, any kind of ours may be
            replaced.
        force: whether anything may be replaced.

    >>> check_replaceable("new-file.html")  # no error: there is nothing to replace
    """
    target = check_path("the file to write", path)
    if target.is_dir():
        raise NescioError(f"{str(path)!r} is a folder; expected the path of a file to write")
    if target.is_file() or not target.exists():
        _check_writable(Path(os.path.realpath(target)).parent)
    if force or _forced or not target.is_file() or not target.stat().st_size:
        return
    old = kind_of(target)
    if old is None or (kind is not None and old != kind):
        what = "was not written by nescio" if old is None else f"is {_a(old)} that nescio wrote"
        by = "" if kind is None else f" by {_a(kind)}"
        raise NescioError(
            f"{str(path)!r} {what}, and would be replaced{by}; give another file to write, or use "
            "--force (from Python: force=True)"
        )


@contextmanager
def atomic_folder(
    path: str | os.PathLike[str], mark: str, kind: str, ours: Collection[str]
) -> Iterator[Path]:
    """Yield a new folder that takes the place of `path` only when the block ends without an error.

    An existing folder is replaced only if it is empty, or if it holds a file called `mark` of that
    `kind`, which shows that it was made this way, and no files but those named in `ours`. `--force`
    speaks for files named as ours, and never for others, which would all be lost.
    """
    path = Path(os.path.realpath(check_path("the folder to write", path)))
    check_replaceable_folder(path, mark, kind, ours)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        partial = Path(tempfile.mkdtemp(".partial", f".{path.name}.", path.parent))
    old = partial.with_suffix(".old")
    try:
        with _naming(path, partial):
            yield partial
            os.chmod(partial, 0o777 & ~_umask())  # mkdtemp makes 0700
            # again, since the block may have taken long
            check_replaceable_folder(path, mark, kind, ours)
            if path.is_dir():
                os.replace(path, old)
            try:
                os.replace(partial, path)
            except OSError:
                if old.is_dir():
                    os.replace(old, path)
                raise
        _note(path)
    finally:
        # the old folder is thrown away only once something is in its place
        for leftover in (partial, old) if path.is_dir() else (partial,):
            if leftover.is_dir():
                shutil.rmtree(leftover)


def check_replaceable_folder(path: Path, mark: str, kind: str, ours: Collection[str]) -> None:
    """Raise if something stands at `path` that is not ours to throw away; see `atomic_folder`."""
    if path.exists() and not path.is_dir():
        raise NescioError(f"{str(path)!r} is a file; expected a folder to write")
    entries = sorted(path.iterdir()) if path.is_dir() else []
    others = [entry.name for entry in entries if entry.name not in ours or entry.is_dir()]
    marked = (path / mark).is_file() and kind_of(path / mark) == kind
    if others or (entries and not marked and not _forced):
        names = (others or [entries[0].name])[:3]
        raise NescioError(
            f"the folder {str(path)!r} holds other things ({', '.join(names)}"
            f"{', …' * (len(others) > 3)}), and would be replaced whole; give one that does not "
            "exist yet, or move them"
        )


@contextmanager
def list_written() -> Iterator[list[str]]:
    """Yield a list to which each path written in the block is added once."""
    paths: list[str] = []
    token = _written.set(paths)
    try:
        yield paths
    finally:
        _written.reset(token)


def _note(path: Path) -> None:
    paths = _written.get()
    if paths is not None and str(path) not in paths:
        paths.append(str(path))


@contextmanager
def _naming(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Have errors in a block name the path that was asked for, not a temporary one, or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # its words are all there is to it
            raise
        about = None if error.filename is None else Path(os.fsdecode(error.filename))
        if about is None or partial is None or about == partial:
            error.filename, error.filename2 = str(path), None
        elif about.is_relative_to(partial):
            error.filename, error.filename2 = str(path / about.relative_to(partial)), None
        raise


def _check_writable(folder: Path) -> None:
    """Raise the system's error if a folder can neither take a file nor be made."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(existing))


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIO' else 'a'} {kind}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
