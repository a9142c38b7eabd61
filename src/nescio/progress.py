"""Progress bars for long work: on a terminal, on standard error, and only once the work proves long."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 2.0  # seconds of silence before a bar is worth showing


class Bar:
    """A bar that is only drawn when asked to; `advance` with the facts to show beside it."""

    def __init__(self, total: int | None, title: str, shown: bool) -> None:
        self._total, self._title, self._shown = total, title, shown
        self._started, self._done, self._facts = time.monotonic(), 0, ""
        self._rich: Progress | None = None

    def advance(self, steps: int = 1, facts: str = "") -> None:
        """Move on by some steps; `facts` replaces the text at the end of the line if given."""
        self._done, self._facts = self._done + steps, facts or self._facts
        if self._shown and self._rich is None and time.monotonic() - self._started > _PATIENCE:
            self._open()
        if self._rich is not None:
            self._rich.update(self._task, completed=self._done, total=self._total, facts=self._facts)

    def at(self, done: int, total: int | None, facts: str) -> None:
        """Stand at `done` of `total`, where each thing in a row has a total of its own."""
        self._total, self._done = total, 0
        self.advance(done, facts)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._rich = Progress(
            *columns, TextColumn("{task.fields[facts]}"), console=Console(stderr=True), transient=True
        )
        self._task = self._rich.add_task(self._title, total=self._total, facts="")
        self._rich.start()

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._rich is not None:
            self._rich.stop()


@contextmanager
def bar(total: int | None, title: str, progress: bool | None = None) -> Iterator[Bar]:
    """A bar for a block of work; `progress=None` shows it exactly when standard error is a terminal."""
    shown = sys.stderr.isatty() if progress is None else progress
    drawn = Bar(total, title, shown)
    try:
        yield drawn
    finally:
        drawn.close()
