"""Progress of long work on standard error: a bar on a terminal, now and then a line in a log.

Nothing is shown until the work proves long. From Python, without a terminal, it is silent unless
asked for.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 2.0  # seconds before a bar is worth showing
LOG_INTERVAL = 60.0  # seconds between two lines of a log,
EPOCH_LOG_INTERVAL = 5.0  # and between two at the end of something, such as an epoch


class _Screen:
    """The one display of all bars, and the time of the last line of a log."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.rich: Progress | None = None
        self.bars = 0  # of those that are drawn
        self.logs = False  # whether work writes lines by default where there is no terminal
        self.last_line: float | None = None

    def add(self, title: str, total: int | None, done: int) -> int:
        """Draw one more bar and return its number."""
        from rich import progress as columns
        from rich.console import Console

        with self.lock:
            if self.rich is None:
                self.rich = columns.Progress(
                    columns.TextColumn("{task.description}"),
                    columns.BarColumn(),
                    columns.MofNCompleteColumn(),
                    columns.TimeRemainingColumn(),
                    columns.TextColumn("{task.fields[facts]}"),
                    console=Console(stderr=True),
                    transient=True,
                )
                self.rich.start()
            self.bars += 1
            return self.rich.add_task(title, total=total, completed=done, facts="")

    def remove(self, task: int) -> None:
        """Remove a bar; the last one takes the display with it."""
        with self.lock:
            assert self.rich is not None  # noqa: S101 - since this bar was drawn on it
            self.rich.remove_task(task)  # type: ignore[arg-type]
            self.bars -= 1
            if self.bars == 0:
                self.rich.stop()
                self.rich = None

    def write(self, text: str) -> None:
        """Write a line, above the bars if there are any."""
        with self.lock:
            self.last_line = time.monotonic()
            if self.rich is None:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
            else:
                self.rich.console.print(text, markup=False, highlight=False, soft_wrap=True)


_SCREEN = _Screen()


class Bar:
    """A bar, drawn or written as lines of a log, or neither; made by `bar`."""

    def __init__(
        self, total: int | None, title: str, drawn: bool, lines: bool = False, done: int = 0
    ) -> None:
        self._total, self._title, self._lines = total, title, lines
        self._started, self._first, self._facts = time.monotonic(), done, ""
        self._done: float = done
        self._task: int | None = None
        self._closed = False
        if lines and _SCREEN.last_line is None:
            _SCREEN.last_line = self._started
        # a step may be long itself, so that it is a clock that opens the bar
        self._clock = threading.Timer(DELAY, self._open) if drawn else None
        if self._clock is not None:
            self._clock.daemon = True
            self._clock.start()

    def advance(self, steps: float = 1, facts: str = "", ends: bool = False) -> None:
        """Move on by some steps; `facts` replaces the text at the end of the line if given.

        `ends` says that something is complete that may have its own line in a log, such as an
        epoch.
        """
        self._done, self._facts = self._done + steps, facts or self._facts
        self._update()
        if self._lines and _SCREEN.last_line is not None:
            now, last = time.monotonic(), _SCREEN.last_line
            ended = ends and now - max(last, self._started) > EPOCH_LOG_INTERVAL
            if ended or now - last > LOG_INTERVAL:
                _SCREEN.write(self._line(now))

    def at(self, done: float, total: int | None, facts: str = "") -> None:
        """Move to `done` of `total`, for work in parts that have totals of their own."""
        self._total, self._done = total, 0
        self.advance(done, facts)

    def _open(self) -> None:
        with _SCREEN.lock:
            if not self._closed:
                self._task = _SCREEN.add(self._title, self._total, self._first)
                self._update()

    def _update(self) -> None:
        if self._task is not None and _SCREEN.rich is not None:
            _SCREEN.rich.update(
                self._task,  # type: ignore[arg-type]
                completed=self._done,
                total=self._total,
                facts=self._facts,
            )

    def _line(self, now: float) -> str:
        """What a bar would show, as a line of text."""
        done = int(self._done)
        parts = [f"{done}" if self._total is None else f"{done} of {self._total}"]
        if self._total and self._first < self._done < self._total:
            each = (now - self._started) / (self._done - self._first)
            parts.append(f"about {_duration(each * (self._total - self._done))} left")
        return f"{self._title}: {', '.join([*parts, *([self._facts] if self._facts else [])])}"

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._clock is not None:
            self._clock.cancel()
        with _SCREEN.lock:
            self._closed = True
            if self._task is not None:
                _SCREEN.remove(self._task)
                self._task = None


@contextmanager
def bar(
    total: int | None, title: str, progress: bool | None = None, done: int = 0
) -> Iterator[Bar]:
    """Show the progress of a block: a bar, or lines where standard error is no terminal.

    Args:
        total: number of steps, or None if it is not known.
        title: of the bar.
        progress: whether to show it; None shows it on a terminal, or within `logged`.
        done: steps that are already done.
    """
    terminal = _terminal()
    drawn, lines = terminal and progress is not False, not terminal and _asked(progress)
    shown = Bar(total, title, drawn, lines, done)
    try:
        yield shown
    finally:
        shown.close()


@contextmanager
def logged() -> Iterator[None]:
    """Have the work of a block, such as a command, write lines where there is no terminal."""
    before = _SCREEN.logs, _SCREEN.last_line
    _SCREEN.logs, _SCREEN.last_line = True, time.monotonic()
    try:
        yield
    finally:
        _SCREEN.logs, _SCREEN.last_line = before


def say(text: str, progress: bool | None = None) -> None:
    """Write a line of its own, wherever progress is shown."""
    if progress is not False and (_terminal() or _asked(progress)):
        _SCREEN.write(text)


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _asked(progress: bool | None) -> bool:
    return sys.stderr is not None and (_SCREEN.logs if progress is None else progress)


def _duration(seconds: float) -> str:
    """Format a time to wait.

    >>> _duration(3.2), _duration(100), _duration(1000), _duration(10000)
    ('4 s', '2 min', '17 min', '2.8 h')
    """
    if seconds < 90:
        return f"{int(seconds) + 1} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
