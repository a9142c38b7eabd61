"""The command line: each command is a screen over a public function; torch is loaded only then.

Its public names are the frame for commands of your own: a docstring is its command's help, Ctrl-C
says what was written, and wrong input ends with a message.
"""

import errno
import os
import shlex
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

from nescio import __version__
from nescio.cli.attack import attack
from nescio.cli.audit import audit
from nescio.cli.data import data_app
from nescio.cli.demo import demo
from nescio.cli.evaluate import evaluate
from nescio.cli.fit import fit
from nescio.cli.map import draw_map
from nescio.cli.method_options import MethodCommand
from nescio.cli.options import Command, Force, Group, OptionalOutput, Output, styled
from nescio.cli.output import (
    describe_files,
    err,
    on_interrupt,
    out,
    print_saved,
    show,
    sigterm_as_interrupt,
)
from nescio.cli.rank import contest, recommend
from nescio.cli.report import compare, report
from nescio.cli.score import score
from nescio.cli.train import train
from nescio.errors import NescioError
from nescio.files import list_written
from nescio.progress import logged

__all__ = ["Command", "Force", "OptionalOutput", "Output", "Stoppable", "app", "err", "main"]
__all__ += ["on_interrupt", "out", "print_saved", "run", "show"]


class Stoppable(Group):
    """A group of commands, each of which says what it has written if interrupted."""

    def invoke(self, ctx: Any) -> Any:
        from nescio.records.provenance import made_by  # here: completion does not wait for it

        typed = shlex.join([*(ctx.info_name or "").split(), *sys.argv[1:]])
        with (
            made_by(typed.encode(errors="replace").decode()),  # some file names are no valid text
            list_written() as written,
            on_interrupt(lambda: describe_files(written)),
            sigterm_as_interrupt(),
            logged(),
        ):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Stoppable,
    name="nescio",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=styled("First `nescio demo`; then `nescio train softmax --data digits -o run`."),
)
app.command(cls=Command, rich_help_panel="Start")(demo)
app.add_typer(data_app, name="data", rich_help_panel="Start")
app.command(cls=MethodCommand, rich_help_panel="Train")(train)
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Judge": {"evaluate": evaluate, "compare": compare, "audit": audit, "report": report},
    'Decide when to answer "unknown"': {"recommend": recommend, "contest": contest, "fit": fit},
    "Deploy": {"score": score},
    "Research": {"attack": attack, "map": draw_map},
}
for panel, functions in PANELS.items():
    for name, function in functions.items():
        app.command(name, cls=Command, rich_help_panel=panel)(function)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Neural classifiers that say "I do not know"."""
    if version:
        out.print(f"nescio {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line of nescio."""
    run(app, "nescio")


def run(commands: typer.Typer, program: str) -> None:
    """Run a command line; wrong input ends with a message and exit code 2, not with a traceback."""
    # torch reads this on its first allocation: huge pages make training on a CPU a quarter faster
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    # OpenMP reads this as torch is loaded: on a busy machine, threads that wait should sleep; on a
    # quiet one, that makes training some percent slower
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        commands(prog_name=program)
    except (NescioError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone
            sys.stderr.close()
            sys.exit(1)
        err.print(f"[bold red]error:[/] {escape(_message(error))}", soft_wrap=True)
        sys.exit(2)


def _message(error: Exception) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: is a file, where a folder was expected"
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        if not name and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            name = "standard output"  # since errors of files name them
        return f"{name}: {error.strerror}" if name else error.strerror
    return str(error)
