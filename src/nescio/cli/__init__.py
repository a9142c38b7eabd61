"""The command line: each command is a thin layer over a public function. Torch is loaded only when a command runs."""

import errno
import os
import shlex
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from nescio import __version__
from nescio.cli import stopped
from nescio.cli.arguments import err, out
from nescio.cli.attack import attack
from nescio.cli.audit import audit
from nescio.cli.compare import compare
from nescio.cli.contest import contest
from nescio.cli.data import data_app
from nescio.cli.demo import demo
from nescio.cli.evaluate import evaluate
from nescio.cli.fit import fit
from nescio.cli.map import draw_map
from nescio.cli.options import Command, MethodCommand
from nescio.cli.recommend import recommend
from nescio.cli.report import report
from nescio.cli.score import score
from nescio.cli.train import train
from nescio.errors import NescioError
from nescio.files import list_written
from nescio.progress import logged
from nescio.records.provenance import made_by


class Stoppable(TyperGroup):
    """All commands: one that is stopped says what it has written."""

    def invoke(self, ctx: Any) -> Any:
        with (
            list_written() as written,
            stopped.told(lambda: stopped.files(written)),
            stopped.terminated(),
            logged(),
        ):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Stoppable,
    name="nescio",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Neural classifiers that say *I do not know*.",
    epilog="Start with `nescio demo`; then `nescio train softmax --data digits --unseen 7,8,9 -o run`.",
)
app.command()(demo)
app.command(cls=MethodCommand)(train)
app.command(cls=Command)(evaluate)
app.command(cls=Command)(recommend)
app.command(cls=Command)(contest)
app.command(cls=Command)(compare)
app.command()(report)
app.command(cls=Command)(attack)
app.command(cls=Command)(fit)
app.command(cls=Command)(score)
app.command("map", cls=Command)(draw_map)
app.command(cls=Command)(audit)
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    """Neural classifiers that say *I do not know*."""
    if version:
        out.print(f"nescio {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line of nescio."""
    run(app, "nescio")


def run(commands: typer.Typer, program: str) -> None:
    """Run a command line; bad input ends with its message and exit code 2, never with a traceback."""
    # torch reads this on its first allocation: huge pages make training on a CPU about a quarter faster
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if (
        _is_busy()
    ):  # read as torch is loaded: threads that wait for work sleep, and leave the cores to others
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        with made_by(_typed(program)):
            commands(prog_name=program)
    except (NescioError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone
            sys.stderr.close()
            sys.exit(1)
        err.print(
            f"[bold red]error:[/] {escape(_in_words(error))}", soft_wrap=True, highlight=False
        )
        sys.exit(2)


def _is_busy() -> bool:
    """Whether others keep half of the cores; on a quiet machine sleeping threads cost some percent of a training."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def _typed(program: str) -> str:
    """The command as it can be typed again; bytes that are no text, as in some file names, are left open."""
    return shlex.join([*program.split(), *sys.argv[1:]]).encode(errors="replace").decode()


def _in_words(error: Exception) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: is a file, where a folder was expected"
    if isinstance(error, OSError) and error.strerror:
        # what is written to a file names it
        unnamed = (
            "standard output: " if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT) else ""
        )
        return (
            f"{error.filename}: {error.strerror}"
            if error.filename
            else f"{unnamed}{error.strerror}"
        )
    return str(error)
