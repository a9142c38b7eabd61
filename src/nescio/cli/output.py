"""What commands print, which files they may write, and the last line of an interrupted command."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from nescio.errors import NescioError
from nescio.files import check_replaceable

out, err = Console(highlight=False), Console(stderr=True, highlight=False)
Paths = Iterable[Path]
MAX_NAMED_FILES = 3  # in the message of an interrupted command


def show(text: str) -> None:
    """Print a line, which only the terminal wraps."""
    out.print(text, soft_wrap=True)


def print_saved(*paths: Path) -> None:
    """Print where results are."""
    show(f"Saved: {escape(', '.join(map(str, paths)))}")


def print_json(result: Any = None, /, **records: Any) -> None:
    """With `--json`, write a result, or records by name, to standard output as one document."""
    if out.stderr:
        from nescio.records.record import as_json, plain_record

        print(as_json(plain_record(records if result is None else result)))


def warn(message: str) -> None:
    """Print a warning."""
    err.print(f"[bold yellow]warning:[/] {escape(message)}", soft_wrap=True)


def check_output(
    output: Path, kind: str, inputs: Paths = (), folders: Paths = (), own: str = ""
) -> None:
    """Raise an error, before the work, if a file would replace one that is still needed.

    Args:
        output: file to write.
        kind: its kind, as in `nescio.files`; a file of the same kind may be replaced.
        inputs: files, and folders of images or idx files, that the command reads.
        folders: runs and detectors, none of whose own files may be replaced.
        own: the one file in them that the command itself writes.
    """
    if output.is_file():
        needed = {file: "is an input of this command" for path in inputs for file in _files(path)}
        for folder in folders:
            why = f"belongs to the run or detector {str(folder)!r}"
            needed |= {file: why for file in _own_files(folder) if file.name != own}
        for file, why in needed.items():
            if file.exists() and output.samefile(file):
                problem = f"{str(output)!r} {why} and would be overwritten"
                raise NescioError(f"{problem}; choose another output")
    check_replaceable(output, kind)


def _files(path: Path) -> Iterable[Path]:
    from nescio.data.formats.images import images_below
    from nescio.data.formats.published import idx_set_in

    return (idx_set_in(path) or images_below(path)[0]) if path.is_dir() else [path]


def _own_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a run or detector, and the records in its folder."""
    from nescio.store import run
    from nescio.store.detector_folder import FILES

    records = [run.HISTORY, run.EVALUATION, run.EXAMPLES, run.AUDIT, run.FEATURES, run.REGIONS]
    records += [run.SCALING, run.CONTEST, run.RECOMMENDATION, run.LENGTH_SCALE, run.PENALTY]
    for path in folder.iterdir() if folder.is_dir() else ():
        # the weights of an ensemble's members are several files
        if path.name in (*FILES, *records) or path.suffix == ".safetensors":
            yield path


class Terminated(KeyboardInterrupt):
    """The process was asked to end, as `kill` and shutdowns do."""


@contextmanager
def on_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C print a line of what was saved, and exit with the code that shells expect."""
    try:
        yield
    except KeyboardInterrupt as stop:
        err.print(f"interrupted; {escape(describe())}", soft_wrap=True)
        number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
        raise typer.Exit(128 + number) from None


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat a request to end as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():  # no other can set handlers
        yield
        return

    def stop(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def describe_files(written: Iterable[str]) -> str:
    """Say which files were written before the interrupt."""
    paths = list(written)
    if not paths:
        return "nothing was written"
    more = f" and {len(paths) - MAX_NAMED_FILES} more" if len(paths) > MAX_NAMED_FILES else ""
    names = ", ".join(paths[:MAX_NAMED_FILES])
    return f"complete files so far: {names}{more}; run the same command to start again"


def describe_checkpoint(folder: Path) -> str:
    """Say from where an interrupted training can resume."""
    from nescio.core.tensorfile import read_tensors
    from nescio.store.run import CHECKPOINT

    name = Path(CHECKPOINT)
    paths = folder.glob(f"{name.stem}*{name.suffix}")
    latest = max(paths, key=lambda path: path.stat().st_mtime, default=None)
    if latest is None:
        return "no checkpoint was written yet; run the same command to start again"
    _, about = read_tensors(latest, "checkpoint", ("settings", "progress", "state"))
    epoch = len(about["progress"]["epochs"])
    return f"checkpoint of epoch {epoch}: {latest}; run the same command to resume"
