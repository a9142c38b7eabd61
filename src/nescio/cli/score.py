"""`nescio score`: classify new inputs, row by row."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nescio.cli.options import (
    BatchSize,
    Device,
    Force,
    Model,
    OptionalOutput,
    Scores,
    Seed,
    more,
)
from nescio.cli.output import check_output, err, warn
from nescio.errors import NescioError, check_name

if TYPE_CHECKING:
    from nescio.data import Stream
    from nescio.evaluation.score_file import Written

    Answers = tuple[Stream, Callable[[IO[str]], Written]]  # the inputs, and what writes answers


def score(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    inputs: Annotated[Path, typer.Argument(metavar="INPUTS")],
    output: OptionalOutput = None,
    fail_on_unknown: Annotated[bool, typer.Option("--fail-on-unknown")] = False,
    model: Model = None,
    scores: Scores = None,
    unseen_category: Annotated[str, more(metavar="warn|refuse")] = "warn",
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Classify new inputs as CSV, one row each.

    A detector's rows have the class or "unknown", the model's own class and its confidence, the
    p-value (the fraction of known inputs that are at least as unusual) and the score; rows with
    missing values and unreadable images are unknown. A run's rows have class, confidence and every
    score (higher = more likely unknown).

    Args:
        folder: A folder written by `nescio fit` or `nescio train`.
        inputs: A .csv (also .csv.gz, .csv.bz2), .npz, .npy or idx file, a PNG or JPEG image, or a
            folder of images; of any size, since inputs are streamed.
        output: CSV file; by default standard output.
        fail_on_unknown: Exit with code 3 if a detector answers "unknown" to any input.
        model: Your network, if `nescio fit` could not store it.
        scores: Of a run, such as entropy; by default those of the outputs.
        unseen_category: How to answer a row with a category not in the training data: as if it had
            none, or as unknown.

    Examples:
        nescio score detector new_images -o answers.csv --fail-on-unknown
        nescio score detector photo.jpg
        nescio score run inputs.csv -o answers.csv
    """
    from nescio.data.table import REFUSE, WARN
    from nescio.files import ANSWERS, atomic_write
    from nescio.store.detector_folder import is_fitted, plain_attention

    check_name("value of --unseen-category", unseen_category, (REFUSE, WARN))
    refuse = unseen_category == REFUSE
    if output is None and sys.stdout is None:
        raise NescioError("standard output is closed; write to a file with --output")
    if output is not None:
        check_output(output, ANSWERS, [inputs], [folder])
    detects = is_fitted(folder)
    if detects and scores:
        raise NescioError("a detector was fitted with its own score; leave out --scores")
    if not detects and (fail_on_unknown or model):
        raise NescioError(
            f"{str(folder)!r} is not a folder of `nescio fit`; a run has no threshold, and has its "
            "own network: leave out --fail-on-unknown and --model"
        )
    if detects:
        stream, write = _detector_answers(folder, inputs, model, batch_size, refuse, device)
    else:
        how = scores or [], seed, refuse
        stream, write = _run_answers(folder, inputs, batch_size, device, how)
    place = nullcontext(sys.stdout) if output is None else atomic_write(output, "w")
    with plain_attention(), place as file:
        written = write(file)
    _warn_of(len(stream.unread), "image", "could not be read, so unknown", *stream.unread[:1])
    _warn_of(len(stream.skipped), "image", "neither PNG nor JPEG, so skipped", *stream.skipped[:1])
    answered = "unknown" if refuse else "answered as if there were none"
    what = f"with a category never seen in training, so {answered}"
    _warn_of(written.unseen_category, "input", what, written.first)
    if output is not None:
        unknown = f", {written.unknown} unknown" if detects or written.unknown else ""
        err.print(f"Saved: {escape(str(output))} ({written.count} inputs{unknown})", soft_wrap=True)
    if fail_on_unknown and written.unknown:
        raise typer.Exit(3)


def _detector_answers(
    folder: Path, inputs: Path, model: str | None, batch_size: int, refuse: bool, device: str
) -> "Answers":
    from nescio.evaluation.score_file import write_verdicts
    from nescio.store.detector_folder import open_fitted, stream_for
    from nescio.store.run import move_to

    detector, facts = open_fitted(folder, model, ["score", str(folder), str(inputs)])
    move_to(detector, device)
    stream = stream_for(facts, inputs, batch_size)
    return stream, lambda file: write_verdicts(file, detector, facts.classes, stream, refuse)


def _run_answers(
    run: Path, inputs: Path, batch_size: int, device: str, how: tuple[list[str], int, bool]
) -> "Answers":
    from nescio.data import Stream
    from nescio.evaluation.score_file import write_answers
    from nescio.store.run import CHECKPOINT, MODEL, move_to, open_run

    if not (run / MODEL).exists() and not any(run.glob(f"{Path(CHECKPOINT).stem}*")):
        problem = f"{str(run)!r} is not a folder of `nescio fit` or `nescio train`"
        raise NescioError(f"{problem}: it has neither fitted.json nor {MODEL}")
    model, facts = open_run(run)
    move_to(model, device)
    stream = Stream(inputs, facts.shape, facts.encoder(), batch_size)
    return stream, lambda file: write_answers(file, model, facts.classes, stream, *how)


def _warn_of(count: int, of: str, what: str, first: str = "") -> None:
    if count:
        warn(f"{count} {of}{'s' * (count > 1)} {what}: {first}{', …' * (count > 1)}")
