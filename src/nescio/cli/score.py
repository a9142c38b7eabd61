"""`nescio score`: new inputs, answered row by row."""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import BatchSize, Scores, Seed, err
from nescio.cli.outputs import check_output
from nescio.errors import NescioError

if TYPE_CHECKING:
    from nescio.data import Stream


def score(
    folder: Annotated[Path, typer.Argument(
        metavar="FOLDER", help="Written by `nescio fit` or `nescio train`.", show_default=False)],
    inputs: Annotated[Path, typer.Argument(
        metavar="INPUTS", show_default=False,
        help="A .csv (also .csv.gz, .csv.bz2), .npz, .npy or idx file, a PNG or JPEG image, or a folder of images, "
             "also in folders in it; of any size: they are streamed.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; by default the terminal.")] = None,
    fail_on_unknown: Annotated[bool, typer.Option(
        "--fail-on-unknown", help="End with exit code 3 if a detector says \"unknown\" to any.")] = False,
    model: Annotated[str | None, typer.Option(
        metavar="MODULE:NAME", show_default=False,
        help="What makes the network, if the folder of a detector could not keep it; `nescio fit` says so.")] = None,
    scores: Scores = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
) -> None:  # fmt: skip
    """Answer new inputs, one row each.

    A detector's rows have the class or "unknown", the class that the model alone would give, its confidence, the
    p-value (the share of known inputs at least as odd) and the score; rows with missing values
    and images that cannot be read are unknown. A run's
    rows have class, confidence and every score (larger = less known).

    Example: `nescio score detector new_images -o answers.csv --fail-on-unknown`

    Example: `nescio score detector photo.jpg`

    Example: `nescio score run inputs.csv -o answers.csv`
    """
    from nescio.atomic import replacing
    from nescio.fitted import is_fitted

    if output is None and sys.stdout is None:
        raise NescioError("standard output is closed; give a file with --output")
    if output is not None:
        check_output(output, [inputs], [folder])
    place = nullcontext(sys.stdout) if output is None else replacing(output, "w")
    if is_fitted(folder):
        if scores:
            raise NescioError("a detector was fitted on its own score; leave out --scores")
        count, unknown = _score_with_detector(folder, inputs, place, model, batch_size)
    else:
        if fail_on_unknown or model:
            raise NescioError(f"{str(folder)!r} is no folder of `nescio fit`; a run has no threshold, and has its own "
                              "network: leave out --fail-on-unknown and --model")  # fmt: skip
        count, unknown = _score_with_run(folder, inputs, place, scores or [], batch_size, seed), 0
    if output is not None:
        told = f", {unknown} unknown" if is_fitted(folder) else ""
        err.print(f"Saved: {escape(str(output))} ({count} inputs{told})", soft_wrap=True)
    if fail_on_unknown and unknown:
        raise typer.Exit(3)


def _score_with_detector(
    folder: Path, inputs: Path, place: AbstractContextManager[IO[str]], model: str | None, batch_size: int
) -> tuple[int, int]:
    from nescio.answers import write_verdicts
    from nescio.fitted import open_fitted, plain_attention, stream_for

    detector, facts = open_fitted(folder, model, ["score", str(folder), str(inputs)])
    with plain_attention(), place as file:
        stream = stream_for(facts, inputs, batch_size)
        found = write_verdicts(file, detector, facts.classes, stream)
    _warn(stream)
    return found


def _score_with_run(
    run: Path, inputs: Path, place: AbstractContextManager[IO[str]], scores: list[str], batch_size: int, seed: int
) -> int:
    from nescio.answers import write_answers
    from nescio.data import Stream
    from nescio.runs import CHECKPOINT, MODEL, open_run

    if not (run / MODEL).exists() and not any(run.glob(f"{Path(CHECKPOINT).stem}*")):
        raise NescioError(f"{str(run)!r} is no folder of `nescio fit` or `nescio train`: it has neither fitted.json "
                          f"nor {MODEL}")  # fmt: skip
    model, facts = open_run(run)
    with place as file:
        stream = Stream(inputs, facts.shape, facts.encoder(), batch_size)
        count = write_answers(file, model, facts.classes, stream, scores, seed)
    _warn(stream)
    return count


def _warn(stream: "Stream") -> None:
    """Say which images have no answer: those that could not be read, and those of other kinds."""
    for some, what in (
        (stream.unread, "could not be read, so unknown"),
        (stream.skipped, "neither PNG nor JPEG, so skipped"),
    ):
        if some:
            err.print(f"[bold yellow]warning:[/] {len(some)} image{'s' * (len(some) > 1)} {what}: {escape(some[0])}"
                      f"{', …' * (len(some) > 1)}", soft_wrap=True, highlight=False)  # fmt: skip
