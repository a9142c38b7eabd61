"""`nescio reproduce`: the papers' tables and figures, made again. Torch is loaded only when a command runs."""

import os
import shlex
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from nescio.cli import stopped
from nescio.cli.arguments import Force, err, out
from nescio.cli.options import Command, Root, one_of
from nescio.files import PAGE as MARKDOWN
from nescio.files import check_replaceable

NAME = "NAME"  # of the command that stands for every experiment's


class _ByName(TyperGroup):
    """A group in which a word that is no command of its own names an experiment."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.commands and args[0] != NAME:
            return super().resolve_command(ctx, args)
        return args[0], self.commands[NAME], args


class _Named(Command):
    """The command of an experiment, whose name is its first word and so no further argument in its usage."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece for piece in super().collect_usage_pieces(ctx) if NAME not in piece]


reproduce_app = typer.Typer(
    cls=_ByName,
    no_args_is_help=True,
    help="The tables and figures of the four papers, made again, with the paper's numbers beside ours.",
)
Results = Annotated[
    Path, typer.Option(help="Folder of results, where `list` looks for how long each took.")
]


@reproduce_app.command("list")
def list_experiments(results: Results = Path("results"), root: Root = None) -> None:
    """Every table and figure by name, its data and whether they are here, how long it took; and what is not made.

    Example: `nescio reproduce list`
    """
    from nescio.report.reproductions import experiments_table
    from nescio.reproduce.experiments import EXPERIMENTS, not_made
    from nescio.reproduce.results import found_results

    took = {
        one.name: one.provenance.seconds
        for one in found_results(results).values()
        if one.scale == "quick"
    }
    missing = {
        name: [what for scale in one.scales for what in one.missing(scale, root)]
        for name, one in EXPERIMENTS.items()
    }
    out.print(experiments_table(list(EXPERIMENTS.values()), missing, took))
    out.print(not_made(), highlight=False)


@reproduce_app.command("page")
def write_pages(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="It holds a folder for each experiment that was run.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, in Markdown.")] = Path(
        "results.md"
    ),
    force: Force = False,
) -> None:
    """Make the page of all results, and the small one in each folder, from their records alone.

    Example: `nescio reproduce page results -o docs/results.md`
    """
    from nescio.reproduce.results import write_results

    count = write_results(
        folder, output, shlex.join(["nescio", "reproduce", "page", str(folder), "-o", str(output)])
    )
    out.print(f"Saved: {escape(str(output))} ({count} experiments)", soft_wrap=True)


@reproduce_app.command(NAME, cls=_Named)
def run_experiment(
    name: Annotated[
        str,
        typer.Argument(
            metavar=NAME,
            parser=one_of("experiment", "EXPERIMENTS"),
            show_default=False,
            help="{EXPERIMENTS}.",
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="quick: within an hour on two cores; paper: the paper's settings.")
    ] = ("quick"),
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Independent runs; by default as many as are usual for it.",
            min=1,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for records, pictures and a page; else results/NAME, and results/NAME-paper at "
            "the paper's scale.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of trained networks, which experiments share; else `runs` beside the output.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="One step of every stage, to see that it starts; nothing is kept."
        ),
    ] = False,
    root: Root = None,
    force: Force = False,
) -> None:
    """Train, evaluate, and put the paper's numbers beside ours. Started again, it goes on where it stood.

    Example: `nescio reproduce gradient-table1 --scale quick --seeds 3 -o results/gradient-table1`

    Example: `nescio reproduce gradient-table1 --scale paper --dry-run`
    """
    from nescio.report.reproductions import reproduction_table
    from nescio.reproduce.experiment import SCALES, Work, reproduce
    from nescio.reproduce.experiments import EXPERIMENTS
    from nescio.reproduce.results import PAGE, write_page

    if scale not in SCALES:
        raise typer.BadParameter(f"a scale is {' or '.join(SCALES)}, not {scale!r}")
    experiment = EXPERIMENTS[name]
    output = output or Path("results") / (
        name if scale == "quick" else f"{name}-{scale}"
    )  # scales stand side by side
    many = seeds or experiment.seeds.get(scale, 1)
    words = ["nescio", "reproduce", name, "--scale", scale, "--seeds", str(many), "-o", str(output)]
    if not dry_run:
        check_replaceable(output / PAGE, MARKDOWN)
    place: AbstractContextManager[Any] = tempfile.TemporaryDirectory() if dry_run else nullcontext()
    kept = (
        "nothing is kept of a dry run"
        if dry_run
        else "the same command goes on at the stage where it was"
    )
    with stopped.told(lambda: kept), place as passing:
        folder = Path(passing) / name if dry_run else output
        shared = folder.parent / "runs" if dry_run or runs is None else runs
        work = Work(folder, shared, scale, many, root, dry_run, err)
        record = reproduce(experiment, work, shlex.join(words))
    if dry_run:
        out.print(f"{name} at the scale {scale}: every stage starts")
        return
    write_page(output, record)
    out.print(reproduction_table(record))
    out.print(f"Saved: {escape(os.fspath(output))}", soft_wrap=True)
