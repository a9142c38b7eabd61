"""`nescio evaluate`: a network or detector on known and unknown data."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from nescio.cli.network import Network
from nescio.cli.options import (
    BatchSize,
    ClassNames,
    Data,
    Device,
    Folder,
    Force,
    Json,
    Label,
    Model,
    MoreCount,
    OptionalOutput,
    Root,
    Scores,
    Seed,
    Unknown,
    Weights,
)
from nescio.cli.output import check_output, out, print_json, print_saved, show, warn
from nescio.errors import NescioError

if TYPE_CHECKING:
    from nescio.records import Record


def evaluate(
    folder: Folder = None,
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    unknown: Unknown = None,
    scores: Scores = None,
    output: OptionalOutput = None,
    attacked: MoreCount = 1000,
    label: Label = None,
    class_names: ClassNames = "",
    root: Root = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    force: Force = False,
) -> None:
    """Evaluate a trained model on known and unknown data.

    Of a fitted detector also: which fractions of known and unknown inputs it accepts and rejects.
    Beside the record, the most and least confident inputs are written for `nescio report`.

    Args:
        data: Known inputs with labels that neither network nor detector has seen: npz, CSV or a
            folder of images; by default the run's test data.
        unknown: Unknown data, one or more of unseen, {SYNTHETIC}, {ADVERSARIAL}, a data set, a
            file, a folder.
        attacked: Inputs to attack for the adversarial sets. The strongest attack takes 1100
            steps and 600 forward passes of each; the paper's (`_paper`) is shorter and finds less.
        output: The record; by default in the run's folder, or in the current one.

    Examples:
        nescio evaluate run --unknown unseen noise far adversarial_noise
        nescio evaluate fashion --unknown mnist --scores entropy gradient_l2:conv2
        nescio evaluate detector --data known_test.npz --unknown other_images far
        nescio evaluate --model my_nets:make_net --data test.npz --unknown far
    """
    from nescio.detectors import Detector
    from nescio.evaluation.decide import Tally
    from nescio.evaluation.evaluate import evaluate as evaluate_model
    from nescio.evaluation.extremes import Extremes
    from nescio.evaluation.unknown_sets import unknown_sets
    from nescio.records import Stopwatch
    from nescio.report.decision import decision_words
    from nescio.report.evaluation import evaluation_tables
    from nescio.store.detector_folder import plain_attention
    from nescio.store.run import EVALUATION

    stopwatch = Stopwatch()
    paths = _output_paths(folder, output)
    network = Network(folder, model, weights, data, None, label, class_names, root, device)
    subject = network.subject("evaluate")
    tally = Tally(subject.model) if isinstance(subject.model, Detector) else None
    inputs = [Path(name) for name in (subject.source, *(unknown or [])) if Path(name).is_file()]
    inputs += [Path(path) for path in (data, weights) if path is not None]
    folders = [] if folder is None or output is None else [folder]
    kinds = ("Evaluation", "Examples", "Decision") if tally else ("Evaluation", "Examples")
    for path, kind in zip(paths, kinds, strict=False):
        check_output(path, f"{kind} record", inputs, folders, EVALUATION)
    if subject.stale is not None:
        warn(
            f"these are the calibration inputs: {subject.stale} set the threshold of this "
            "detector, so results on known inputs are optimistic; give others with --data"
        )
    known = subject.known
    sets = unknown_sets(unknown or [], known, root, seed, subject.read)
    if lost := [name for name in _covered_sets(paths[0]) if name not in sets]:
        names = ", ".join(lost)
        warn(f"{paths[0]} covers {names}, too, and will be replaced; -o FILE keeps both")
    extremes = Extremes.of(subject.model, classes=known.classes, features=known.features or None)

    def watch(*batch: Any) -> None:
        extremes.see(*batch)
        if tally is not None:
            tally.see(*batch)

    how: dict[str, Any] = {"scores": scores, "attacked": attacked, "batch_size": batch_size}
    with plain_attention():
        record = evaluate_model(subject.model, subject.test, sets, watch=watch, seed=seed, **how)
    out.print(evaluation_tables(record))
    record.save(paths[0])
    extremes.record(record.known.name, seed, record.provenance.seconds).save(paths[1])
    records: dict[str, Record] = {"evaluation": record}
    if tally is not None:
        about = record.known.name, record.provenance.settings, stopwatch.seconds
        decision = replace(tally.record(*about), on_calibration_inputs=subject.stale is not None)
        for line in decision_words(decision):
            show(escape(line))
        decision.save(paths[2])
        records["decision"] = decision
    print_json(**records)
    print_saved(*paths[: len(kinds)])


def _output_paths(folder: Path | None, output: Path | None) -> tuple[Path, ...]:
    """Return where the record, its examples and a detector's decisions go.

    They go into a run, but not into a detector's folder, which holds nothing else.
    """
    from nescio.store.detector_folder import is_fitted
    from nescio.store.run import DECISION, EVALUATION, EXAMPLES

    parent, prefix = folder or Path(), ""
    if output is not None:
        parent, prefix = output.parent, f"{output.stem}-"
    elif folder is not None and is_fitted(folder):
        parent, prefix = Path(), f"{folder.resolve().name}-"
    record, *beside = (parent / f"{prefix}{name}" for name in (EVALUATION, EXAMPLES, DECISION))
    return output or record, *beside


def _covered_sets(path: Path) -> list[str]:
    """Return the unknown sets of the record at a path, also those of attacks that failed."""
    from nescio.records import Evaluation
    from nescio.report.runs import failed_attacks

    try:
        record = Evaluation.load(path)
    except NescioError:  # there is none that could be lost
        return []
    return [*(side.name for side in record.unknown), *failed_attacks(record)]
