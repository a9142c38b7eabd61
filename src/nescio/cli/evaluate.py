"""`nescio evaluate`: a network or detector against what it knows, and what it cannot know."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from nescio.cli.arguments import BatchSize, Force, Scores, Seed, out
from nescio.cli.network import (
    ClassNames,
    Judged,
    Label,
    Model,
    Network,
    OrFitted,
    Weights,
    warn_if_stale,
)
from nescio.cli.options import Root
from nescio.cli.outputs import check_output
from nescio.errors import NescioError
from nescio.records import Decision, Evaluation
from nescio.report.runs import failed_attacks

if TYPE_CHECKING:
    from nescio.evaluation.decide import Tally
    from nescio.store.subject import Subject


def evaluate(
    folder: OrFitted = None,
    model: Model = None,
    weights: Weights = None,
    data: Judged = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(
            help="Unknown data: unseen, noise (that of paper 2), uniform, normal, permuted, far, adversarial_noise, "
            "adversarial_samples, a data set, a file; one or more.",
            show_default=False,
        ),
    ] = None,
    scores: Scores = None,
    attacked: Annotated[
        int, typer.Option(help="Inputs that the adversarial sets are tried on.", min=1)
    ] = 1000,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The record; else in the run's folder, or in this one.",
            show_default=False,
        ),
    ] = None,
    label: Label = None,
    class_names: ClassNames = "",
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:
    """Evaluate a trained network, or a fitted detector, on known data and on unknown data.

    Beside the record it writes the inputs that the network was surest and least sure of, for `nescio report`, and of a
    detector what it decided: how many known inputs it accepts, and how many unknown ones it refuses.

    Example: `nescio evaluate run --unknown unseen noise far adversarial_noise`

    Example: `nescio evaluate fashion --unknown mnist notmnist cifar10 --scores entropy gradient_l2 gradient_l2:conv2`

    Example: `nescio evaluate detector --data known_test.npz --unknown other_images noise far`

    Example: `nescio evaluate --model my_nets:make_net --weights w.safetensors --data test.npz --unknown other.npz`
    """
    from nescio.detectors import Detector
    from nescio.evaluation.decide import Tally
    from nescio.evaluation.evaluate import evaluate as judge
    from nescio.evaluation.extremes import Extremes
    from nescio.evaluation.unknown_sets import unknown_sets
    from nescio.report.evaluation import evaluation_tables
    from nescio.store.detector_folder import plain_attention
    from nescio.store.run import EVALUATION

    started = time.monotonic()
    path, extremes, decided = _places(folder, output)
    subject = Network(folder, model, weights, data, None, label, class_names, root).subject(
        "evaluate"
    )
    known = subject.known
    read = [Path(name) for name in (subject.source, *(unknown or [])) if Path(name).is_file()]
    read += [given for given in (data, weights) if given is not None]
    kinds = {path: "Evaluation record", extremes: "Examples record"}
    if isinstance(subject.model, Detector):
        kinds[decided] = "Decision record"
    for written, kind in kinds.items():
        check_output(
            written, kind, read, [] if folder is None or output is None else [folder], EVALUATION
        )
    warn_if_stale(subject)
    sets = unknown_sets(unknown or [], known, root, seed, subject.read)
    seen = Extremes.of(subject.model, classes=known.classes, features=known.features or None)
    tally = Tally(subject.model) if isinstance(subject.model, Detector) else None

    def watch(*batch: Any) -> None:
        seen.see(*batch)
        if tally is not None:
            tally.see(*batch)

    how: dict[str, Any] = {
        "scores": scores,
        "attacked": attacked,
        "batch_size": batch_size,
        "seed": seed,
    }
    with plain_attention():
        record = judge(subject.model, subject.test, sets, watch=watch, **how)
    out.print(evaluation_tables(record))
    lost = _lost(path, record)
    record.save(path)
    seen.record(record.known.name, seed, record.provenance.seconds).save(extremes)
    saved = [path, extremes]
    if tally is not None:
        _decide(tally, subject, record, time.monotonic() - started).save(decided)
        saved.append(decided)
    out.print(f"Saved: {escape(', '.join(map(str, saved)))}", soft_wrap=True)
    if lost:
        out.print(
            f"The record that this replaced was also of {escape(', '.join(lost))}; `-o` with another file keeps "
            "both.",
            soft_wrap=True,
        )


def _places(folder: Path | None, output: Path | None) -> tuple[Path, Path, Path]:
    """Where the record goes, its examples, and a detector's decisions: in a run's folder, or beside where one is.

    A detector's folder holds nothing but the detector.
    """
    from nescio.store.detector_folder import is_fitted
    from nescio.store.run import DECISION, EVALUATION, EXAMPLES

    if output is not None:
        beside = f"{output.stem}-"
        return (
            output,
            output.with_name(f"{beside}{EXAMPLES}"),
            output.with_name(f"{beside}{DECISION}"),
        )
    if folder is not None and not is_fitted(folder):
        return folder / EVALUATION, folder / EXAMPLES, folder / DECISION
    mark = "" if folder is None else f"{folder.resolve().name}-"
    return Path(f"{mark}{EVALUATION}"), Path(f"{mark}{EXAMPLES}"), Path(f"{mark}{DECISION}")


def _decide(tally: "Tally", subject: "Subject", record: Evaluation, seconds: float) -> Decision:
    """What a detector decided, printed; its promise is in its folder."""
    from nescio.report.decision import decision_words

    made = replace(
        tally.record(record.known.name, record.provenance.settings, seconds),
        promise=subject.promise,
    )
    for words in decision_words(made):
        out.print(escape(words), soft_wrap=True, highlight=False)
    return made


def _lost(path: Path, record: Evaluation) -> list[str]:
    """Unknown sets of the record that is to be replaced, if there is one, which the new one has not."""
    try:
        old = Evaluation.load(path)
    except NescioError:  # none, or none that could be lost
        return []
    return [name for name in _sets(old) if name not in _sets(record)]


def _sets(record: Evaluation) -> list[str]:
    """All unknown sets that a record tells of, also those of attacks that came to nothing."""
    return [*(side.name for side in record.unknown), *failed_attacks(record)]
