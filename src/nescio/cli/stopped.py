"""A command that is stopped, by Ctrl-C or by a request to end: one line says what is kept, and how to go on."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from nescio.cli.arguments import err

NAMED = 3  # files that are named; of more it is said how many


class Terminated(KeyboardInterrupt):
    """The process was asked to end, as `kill` and shutdowns do."""


@contextmanager
def told(kept: Callable[[], str]) -> Iterator[None]:
    """A block that, stopped, ends the command with a line and the exit code that shells expect."""
    try:
        yield
    except KeyboardInterrupt as stop:
        err.print(f"interrupted; {escape(kept())}", soft_wrap=True, highlight=False)
        raise typer.Exit(
            128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
        ) from None


@contextmanager
def terminated() -> Iterator[None]:
    """A block in which a request to end is taken as Ctrl-C is."""
    if threading.current_thread() is not threading.main_thread():  # only there handlers can be set
        yield
        return

    def stop(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def files(written: Iterable[str]) -> str:
    """What was written, in words."""
    paths = list(written)
    if not paths:
        return "nothing was written"
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return (
        f"written so far, and whole: {', '.join(paths[:NAMED])}{more}; the same command starts anew"
    )


def checkpoints(folder: Path) -> str:
    """What there is of an unfinished training, in words."""
    from nescio.core.tensorfile import read_tensors
    from nescio.store.run import CHECKPOINT

    found = sorted(
        folder.glob(f"{Path(CHECKPOINT).stem}*{Path(CHECKPOINT).suffix}"),
        key=lambda path: path.stat().st_mtime,
    )
    if not found:
        return "no checkpoint was written yet, and the same command starts anew"
    _, about = read_tensors(found[-1], "checkpoint", ("settings", "progress", "state"))
    return f"the checkpoint of epoch {len(about['progress']['epochs'])} is {found[-1]}; the same command resumes from it"
