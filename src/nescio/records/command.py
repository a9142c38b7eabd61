"""The command that is at work, which every record made meanwhile remembers."""

from collections.abc import Iterator
from contextlib import contextmanager

_running: list[str] = []  # of the whole process: threads that a command starts work for it, too


def command() -> str | None:
    """The command at work; None if there is none, as where nescio is called from Python."""
    return _running[-1] if _running else None


@contextmanager
def made_by(line: str) -> Iterator[None]:
    """Let this be the command at work, until it is done.

    >>> with made_by("nescio demo"):
    ...     command()
    'nescio demo'
    >>> command() is None
    True
    """
    _running.append(line)
    try:
        yield
    finally:
        _running.pop()
