"""How far long work has come, on standard error: a bar on a terminal, now and then a line in a log.

Nothing is shown until the work proves long. Used from Python, without a terminal, it stays silent unless asked.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 2.0  # seconds of silence before a bar is worth showing
_MINUTE = 60.0  # seconds between two lines of a log,
_EPOCH = 5.0  # and between two that tell of the end of something, such as an epoch


class _Screen:
    """The one display of all bars, and the time of the last line of a log; bars within bars stand below them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.rich: Progress | None = None
        self.bars = 0  # of those that are drawn
        self.logs = False  # whether work that does not say otherwise writes lines where there is no terminal
        self.told: float | None = None

    def add(self, title: str, total: int | None, done: int) -> int:
        """Draw one more bar; its number."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        with self.lock:
            if self.rich is None:
                columns = (
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeRemainingColumn(),
                )
                facts = TextColumn("{task.fields[facts]}")
                self.rich = Progress(*columns, facts, console=Console(stderr=True), transient=True)
                self.rich.start()
            self.bars += 1
            return self.rich.add_task(title, total=total, completed=done, facts="")

    def remove(self, task: int) -> None:
        """Take a bar off; the last one takes the display with it."""
        with self.lock:
            assert self.rich is not None  # noqa: S101 - since this bar was drawn on it
            self.rich.remove_task(task)  # type: ignore[arg-type]
            self.bars -= 1
            if self.bars == 0:
                self.rich.stop()
                self.rich = None

    def write(self, text: str) -> None:
        """A line, above the bars if there are any."""
        with self.lock:
            self.told = time.monotonic()
            if self.rich is None:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
            else:
                self.rich.console.print(text, markup=False, highlight=False, soft_wrap=True)


_SCREEN = _Screen()


class Bar:
    """A bar that is only drawn, or told of in lines, when asked to; `advance` with the facts to show beside it."""

    def __init__(
        self, total: int | None, title: str, drawn: bool, lines: bool = False, done: int = 0
    ) -> None:
        self._total, self._title, self._lines = total, title, lines
        self._started, self._first, self._done, self._facts = time.monotonic(), done, done, ""
        self._task: int | None = None
        self._closed = False
        if lines and _SCREEN.told is None:
            _SCREEN.told = self._started
        # a step may be long itself, so that it is a clock that opens the bar
        self._clock = threading.Timer(_PATIENCE, self._open) if drawn else None
        if self._clock is not None:
            self._clock.daemon = True
            self._clock.start()

    def advance(self, steps: int = 1, facts: str = "", ends: bool = False) -> None:
        """Move on by some steps; `facts` replaces the text at the end of the line if given.

        `ends` says that something has come to its end of which a log may have a line of its own, such as an epoch.
        """
        self._done, self._facts = self._done + steps, facts or self._facts
        self._update()
        if self._lines and _SCREEN.told is not None:
            now = time.monotonic()
            if now - _SCREEN.told > _MINUTE or (
                ends and now - max(_SCREEN.told, self._started) > _EPOCH
            ):
                _SCREEN.write(self._line(now))

    def at(self, done: int, total: int | None, facts: str) -> None:
        """Stand at `done` of `total`, where each thing in a row has a total of its own."""
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
        """What a bar would show, in words."""
        parts = [f"{self._done}" if self._total is None else f"{self._done} of {self._total}"]
        if self._total and self._first < self._done < self._total:
            each = (now - self._started) / (self._done - self._first)
            parts.append(f"about {_lasting(each * (self._total - self._done))} left")
        return f"{self._title}: {', '.join([*parts, *([self._facts] if self._facts else [])])}"

    def close(self) -> None:
        """Take the bar off the terminal."""
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
    """A bar for a block of work, of which some may be done, or lines where standard error is no terminal.

    `progress=None` shows it exactly when there is a terminal, or within `logged`.
    """
    terminal = _terminal()
    shown = Bar(
        total, title, terminal and progress is not False, not terminal and _asked(progress), done
    )
    try:
        yield shown
    finally:
        shown.close()


@contextmanager
def logged() -> Iterator[None]:
    """A block, such as a command, whose work writes lines where there is no terminal."""
    before = _SCREEN.logs, _SCREEN.told
    _SCREEN.logs, _SCREEN.told = True, time.monotonic()
    try:
        yield
    finally:
        _SCREEN.logs, _SCREEN.told = before


def say(text: str, progress: bool | None = None) -> None:
    """A line of its own, wherever progress is shown."""
    if progress is not False and (_terminal() or _asked(progress)):
        _SCREEN.write(text)


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _asked(progress: bool | None) -> bool:
    return sys.stderr is not None and (_SCREEN.logs if progress is None else progress)


def _lasting(seconds: float) -> str:
    """A time to wait, in words.

    >>> _lasting(3.2), _lasting(100), _lasting(1000), _lasting(10000)
    ('4 s', '2 min', '17 min', '2.8 h')
    """
    if seconds < 90:
        return f"{int(seconds) + 1} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
