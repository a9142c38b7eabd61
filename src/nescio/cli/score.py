"""`nescio score`: new inputs, answered row by row."""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import BatchSize, Force, Scores, Seed, err
from nescio.cli.outputs import check_output
from nescio.errors import NescioError, unknown_name

if TYPE_CHECKING:
    from nescio.data import Stream
    from nescio.evaluation.score_file import Written


def score(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Written by `nescio fit` or `nescio train`.", show_default=False
        ),
    ],
    inputs: Annotated[
        Path,
        typer.Argument(
            metavar="INPUTS",
            show_default=False,
            help="A .csv (also .csv.gz, .csv.bz2), .npz, .npy or idx file, a PNG or JPEG image, or a folder of images, "
            "also in folders in it; of any size: they are streamed.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file; by default the terminal.")
    ] = None,
    fail_on_unknown: Annotated[
        bool,
        typer.Option(
            "--fail-on-unknown", help='End with exit code 3 if a detector says "unknown" to any.'
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            show_default=False,
            help="What makes the network, if the folder of a detector could not keep it; `nescio fit` says so.",
        ),
    ] = None,
    unseen_category: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="Of a row of a table with a category that training never saw: `warn`, it is answered as if "
            "it had none, as in the data a detector was fitted on; or `refuse`, it is unknown, "
            "whatever share of known inputs was promised. Either is counted and marked.",
        ),
    ] = "warn",
    scores: Scores = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Answer new inputs, one row each.

    A detector's rows have the class or "unknown", the class that the model alone would give, its confidence, the
    p-value (the share of known inputs at least as odd) and the score; rows with missing values
    and images that cannot be read are unknown. A run's
    rows have class, confidence and every score (larger = less known). Tables with categories have a last column for
    those that training never saw; with `--unseen-category refuse` such a row is unknown, of a run, too.

    Example: `nescio score detector new_images -o answers.csv --fail-on-unknown`

    Example: `nescio score detector photo.jpg`

    Example: `nescio score run inputs.csv -o answers.csv`
    """
    from nescio.data.table import REFUSE, WARN
    from nescio.files import ANSWERS, atomic_write
    from nescio.store.detector_folder import is_fitted

    if unseen_category not in (REFUSE, WARN):
        raise unknown_name("way with unseen categories", unseen_category, (REFUSE, WARN))
    refuse = unseen_category == REFUSE

    if output is None and sys.stdout is None:
        raise NescioError("standard output is closed; give a file with --output")
    if output is not None:
        check_output(output, ANSWERS, [inputs], [folder])
    place = nullcontext(sys.stdout) if output is None else atomic_write(output, "w")
    if is_fitted(folder):
        if scores:
            raise NescioError("a detector was fitted on its own score; leave out --scores")
        written = _score_with_detector(folder, inputs, place, model, batch_size, refuse)
    else:
        if fail_on_unknown or model:
            raise NescioError(
                f"{str(folder)!r} is no folder of `nescio fit`; a run has no threshold, and has its own "
                "network: leave out --fail-on-unknown and --model"
            )
        written = _score_with_run(folder, inputs, place, scores or [], batch_size, seed, refuse)
    answered = "unknown" if refuse else "answered as if there were none"
    _warn(
        written.unseen_category,
        "input",
        f"with a category never seen in training, so {answered}",
        written.first,
    )
    if output is not None:
        told = f", {written.unknown} unknown" if is_fitted(folder) or written.unknown else ""
        err.print(f"Saved: {escape(str(output))} ({written.count} inputs{told})", soft_wrap=True)
    if fail_on_unknown and written.unknown:
        raise typer.Exit(3)


def _score_with_detector(
    folder: Path,
    inputs: Path,
    place: AbstractContextManager[IO[str]],
    model: str | None,
    batch_size: int,
    refuse: bool,
) -> "Written":
    from nescio.evaluation.score_file import write_verdicts
    from nescio.store.detector_folder import open_fitted, plain_attention, stream_for

    detector, facts = open_fitted(folder, model, ["score", str(folder), str(inputs)])
    with plain_attention(), place as file:
        stream = stream_for(facts, inputs, batch_size)
        found = write_verdicts(file, detector, facts.classes, stream, refuse)
    _warn_of_images(stream)
    return found


def _score_with_run(
    run: Path,
    inputs: Path,
    place: AbstractContextManager[IO[str]],
    scores: list[str],
    batch_size: int,
    seed: int,
    refuse: bool,
) -> "Written":
    from nescio.data import Stream
    from nescio.evaluation.score_file import write_answers
    from nescio.store.run import CHECKPOINT, MODEL, open_run

    if not (run / MODEL).exists() and not any(run.glob(f"{Path(CHECKPOINT).stem}*")):
        raise NescioError(
            f"{str(run)!r} is no folder of `nescio fit` or `nescio train`: it has neither fitted.json "
            f"nor {MODEL}"
        )
    model, facts = open_run(run)
    with place as file:
        stream = Stream(inputs, facts.shape, facts.encoder(), batch_size)
        found = write_answers(file, model, facts.classes, stream, scores, seed, refuse)
    _warn_of_images(stream)
    return found


def _warn_of_images(stream: "Stream") -> None:
    """Say which images have no answer: those that could not be read, and those of other kinds."""
    _warn(len(stream.unread), "image", "could not be read, so unknown", *stream.unread[:1])
    _warn(len(stream.skipped), "image", "neither PNG nor JPEG, so skipped", *stream.skipped[:1])


def _warn(count: int, of: str, what: str, first: str = "") -> None:
    if count:
        err.print(
            f"[bold yellow]warning:[/] {count} {of}{'s' * (count > 1)} {what}: {escape(first)}"
            f"{', …' * (count > 1)}",
            soft_wrap=True,
            highlight=False,
        )
