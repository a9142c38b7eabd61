"""`python -m papers`: the papers' tables and figures, made again (torch is loaded late)."""

import shlex
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nescio.cli import (
    Command,
    Force,
    OptionalOutput,
    Output,
    Stoppable,
    err,
    on_interrupt,
    out,
    print_saved,
    run,
    show,
)
from nescio.errors import unknown_name

PROGRAM = "python -m papers"
USUAL_TIMES = {"quick": "within an hour on two cores", "day": "within a day on two cores"}
NAME = "NAME"  # of the command that stands for every experiment's


class _ByName(Stoppable):
    """A group in which a word that is no command of its own names an experiment."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.commands and args[0] != NAME:
            return super().resolve_command(ctx, args)
        return args[0], self.commands[NAME], args


class _Named(Command):
    """The command of an experiment: its name is no further argument in its usage."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece for piece in super().collect_usage_pieces(ctx) if NAME not in piece]

    def listed(self, table: str) -> str:
        from papers.experiments import EXPERIMENTS

        return ", ".join(EXPERIMENTS)


app = typer.Typer(
    cls=_ByName,
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Make the tables and figures of the four papers again, with their numbers beside ours.",
)


def _experiment(name: str) -> str:
    from papers.experiments import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise typer.BadParameter(str(unknown_name("experiment", name, EXPERIMENTS)))
    return name


@app.command("list", cls=Command)
def list_experiments(results: Path = Path("results"), root: str | None = None) -> None:
    """List every table and figure, its data and whether they are here, and how long it took.

    Args:
        results: Folder of results, in which times are looked up.

    Examples:
        python -m papers list
    """
    from papers.experiments import EXPERIMENTS, not_made
    from papers.results import read_results
    from papers.terminal import experiments_table

    done = read_results(results).values()
    took = {one.name: one.provenance.seconds for one in done if one.scale == "quick"}
    missing = {
        name: [what for scale in one.scales for what in one.missing(scale, root)]
        for name, one in EXPERIMENTS.items()
    }
    out.print(experiments_table(list(EXPERIMENTS.values()), missing, took))
    out.print(not_made())


@app.command("page", cls=Command)
def write_pages(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    output: Output = Path("results.md"),
    force: Force = False,
) -> None:
    """Write the Markdown page of all results, and the one in each folder, from records alone.

    Args:
        folder: It holds a folder for each experiment that was run.
        output: The page.

    Examples:
        python -m papers page results -o docs/results.md
    """
    from papers.results import write_results

    command = shlex.join([*PROGRAM.split(), "page", str(folder), "-o", str(output)])
    count = write_results(folder, output, command)
    show(f"Saved: {escape(str(output))} ({count} experiments)")


@app.command("report", cls=Command)
def report_records(
    records: Annotated[list[str], typer.Argument(metavar="[NAME=]RECORD")],
    output: Output = Path("report.html"),
    force: Force = False,
) -> None:
    """Render records as a single HTML report, the papers' numbers beside ours first.

    Args:
        records: Records, or folders with some, such as results/duq-table2; see `nescio report`.
        output: The page.

    Examples:
        python -m papers report results/duq-table2 -o report.html
    """
    from nescio.report import write_report
    from papers.report import ALL_SECTIONS

    write_report(records, output, ALL_SECTIONS)
    print_saved(output)


@app.command(NAME, cls=_Named)
def run_experiment(
    name: Annotated[str, typer.Argument(metavar=NAME, parser=_experiment)],
    scale: str = "quick",
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N")] = None,
    output: OptionalOutput = None,
    runs: Path | None = None,
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    root: str | None = None,
    force: Force = False,
) -> None:
    """Train, evaluate, and put the paper's numbers beside ours; resumes if interrupted.

    Args:
        name: {EXPERIMENTS}.
        scale: quick: within an hour on two cores; day: within a day, for the few experiments
            that have it; paper: the paper's settings.
        seeds: Independent runs; by default as many as are usual for the experiment.
        output: Folder for records, pictures and a page; by default results/NAME, or
            results/NAME-SCALE at larger scales.
        runs: Folder of trained networks, which experiments share; by default `runs` beside the
            output.
        dry_run: Run one step of every stage, to see that it starts; nothing is kept.

    Examples:
        python -m papers gradient-table1 --scale quick --seeds 3 -o results/gradient-table1
        python -m papers gradient-table1 --scale paper --dry-run
    """
    from papers.experiment import RECORD, reproduce
    from papers.experiments import EXPERIMENTS
    from papers.pages import in_time
    from papers.reproduction import Reproduction
    from papers.results import check_page, write_page
    from papers.terminal import reproduction_table
    from papers.workspace import SCALES, Workspace

    if scale not in SCALES:
        raise typer.BadParameter(f"a scale is {', '.join(SCALES)}, not {scale!r}")
    experiment = EXPERIMENTS[name]
    # results of all scales stand side by side
    output = output or Path("results") / (name if scale == "quick" else f"{name}-{scale}")
    count = seeds or experiment.seeds.get(scale, 1)
    words = [*PROGRAM.split(), name, "--scale", scale, "--seeds", str(count), "-o", str(output)]
    if not dry_run:
        check_page(output)
        usual = USUAL_TIMES.get(scale, "its time is not known")
        if (output / RECORD).is_file():
            usual = (
                f"in all {in_time(Reproduction.load(output / RECORD).provenance.seconds)} before"
            )
        err.print(f"{name} at the scale {scale}: {usual}", soft_wrap=True)
    place: AbstractContextManager[Any] = tempfile.TemporaryDirectory() if dry_run else nullcontext()
    kept = "nothing is kept of a dry run" if dry_run else "the same command resumes at this stage"
    with on_interrupt(lambda: kept), place as passing:
        folder = Path(passing) / name if dry_run else output
        shared = folder.parent / "runs" if dry_run or runs is None else runs
        work = Workspace(folder, shared, scale, count, root, dry_run, err)
        record = reproduce(experiment, work, shlex.join(words))
    if dry_run:
        show(f"{name} at the scale {scale}: every stage starts")
        return
    write_page(output, record)
    out.print(reproduction_table(record))
    print_saved(output)


def main() -> None:
    """Run the command line."""
    run(app, PROGRAM)


if __name__ == "__main__":
    main()
