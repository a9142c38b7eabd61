"""A file system that fails at the n-th thing that is asked of it."""

import builtins
import errno
import io
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
WRITING = ("w", "a", "x", "+")


class Failing:
    """Counts what is asked of files below a folder, and raises at number `at`; with `ever`, at all
    that follow too.

    As of the real ones, the errors of opening and renaming name files, those of writing do not; and
    a disk that is full for ever still renames.
    """

    def __init__(self, folder: Path, at: int | None, code: int, ever: bool) -> None:
        self.folder, self.at, self.code, self.ever = str(folder), at, code, ever
        self.count = 0
        self.last = ""  # what failed

    def step(self, what: str, *names: Any) -> None:
        """Count one thing asked of a file, and fail if it is its turn."""
        self.count += 1
        again = (
            self.ever
            and self.at is not None
            and self.count > self.at
            and what not in ("replace", "rename")
        )
        if self.count == self.at or again:
            self.last = what
            raise OSError(self.code, os.strerror(self.code), *names[:1])

    def below(self, path: Any) -> bool:
        """Whether a path is in the folder."""
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self.folder)


class Written:
    """A file whose writes may fail."""

    def __init__(self, file: Any, failing: Failing) -> None:
        self._file, self._failing = file, failing

    def write(self, data: Any) -> Any:
        """As of any file."""
        self._failing.step("write")
        return self._file.write(data)

    def flush(self) -> None:
        """As of any file."""
        self._failing.step("flush")
        self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def __enter__(self) -> "Written":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@contextmanager
def failing(
    folder: Path, at: int | None, code: int = errno.ENOSPC, ever: bool = False
) -> Iterator[Failing]:
    """A block in which something asked of the files below a folder fails; with `at` None all is
    only counted.
    """
    counter = Failing(folder, at, code, ever)
    opened, fdopened = io.open, os.fdopen

    def open_(file: Any, mode: str = "r", *rest: Any, **how: Any) -> Any:
        if not counter.below(file) or not any(letter in mode for letter in WRITING):
            return opened(file, mode, *rest, **how)
        counter.step("open", file)
        return Written(opened(file, mode, *rest, **how), counter)

    def fdopen(handle: int, mode: str = "r", *rest: Any, **how: Any) -> Any:
        file = fdopened(handle, mode, *rest, **how)
        return Written(file, counter) if any(letter in mode for letter in WRITING) else file

    with ExitStack() as stack:
        for module, name, new in (
            (builtins, "open", open_),
            (io, "open", open_),
            (os, "fdopen", fdopen),
        ):
            stack.enter_context(patch.object(module, name, new))
        for name in ("open", "mkdir", "replace", "rename", "chmod"):
            stack.enter_context(patch.object(os, name, _counted(name, getattr(os, name), counter)))
        stack.enter_context(
            patch.object(os, "fsync", lambda handle: counter.step("fsync"))
        )  # which takes long
        yield counter


def _counted(name: str, function: Callable[..., Any], counter: Failing) -> Callable[..., Any]:
    def call(path: Any, *rest: Any, **how: Any) -> Any:
        reading = name == "open" and not (rest and rest[0] & (os.O_WRONLY | os.O_RDWR))
        if counter.below(path) and not reading:
            counter.step(name, path)
        return function(path, *rest, **how)

    return call


@contextmanager
def no_larger(size: int) -> Iterator[None]:
    """A block in which no file can grow beyond so many bytes, whatever language it is written
    from.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
