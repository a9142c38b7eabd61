"""What is under way, on a terminal: one line that moves, below what has been said; nothing where output is piped."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Stages:
    """A bar over all stages; use it as a context. What is printed to the console meanwhile stands above it."""

    def __init__(self, out: Console, total: int) -> None:
        # words come last, so that nothing else moves; all fits in 80 columns
        columns = (
            SpinnerColumn(),
            BarColumn(bar_width=10),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
        self._task = self._bar.add_task("", total=total)
        self._begun = False

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def next(self, doing: str) -> None:
        """The stage before is done, if there was one, and this begins."""
        self._bar.update(self._task, description=doing, advance=int(self._begun))
        self._begun = True
