"""Where a record comes from: seed, settings, time, versions, and the command at work."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, ClassVar, Self

from nescio.records.checks import Checked, NonNegative
from nescio.records.plain import to_plain

_running: list[str] = []  # of the whole process: threads that a command starts work for it, too


def command() -> str | None:
    """Return the command at work; None where nescio is called from Python."""
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


@dataclass(frozen=True)
class Provenance(Checked):
    """Where a record comes from: enough to make it again."""

    seed: int
    settings: dict[str, Any]
    seconds: NonNegative
    versions: dict[str, str]
    command: str | None = None  # what was typed; None of what was made from Python

    PACKAGES: ClassVar = ("nescio", "torch", "numpy", "scikit-learn")

    @classmethod
    def now(cls, seed: int, settings: dict[str, Any], seconds: float) -> Self:
        """Provenance of work just done, with the versions of what did it, and the command."""
        versions = {"python": platform.python_version()}
        for package in cls.PACKAGES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:  # run from a source tree
                versions[package] = "unknown"
        return cls(seed, to_plain(settings), seconds, versions, command())


class Stopwatch:
    """Times a piece of work from when it is made, for the provenance of its record.

    >>> watch = Stopwatch()
    >>> watch.provenance(seed=0, settings={"epochs": 5}).settings
    {'epochs': 5}
    """

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._started

    def provenance(self, seed: int, settings: dict[str, Any]) -> Provenance:
        """Provenance of the work done since it was made."""
        return Provenance.now(seed, settings, self.seconds)
