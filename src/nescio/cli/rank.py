"""`nescio recommend` and `nescio contest`: detectors ranked without and with unknown data."""

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli.network import Network, print_fitted
from nescio.cli.options import (
    BatchSize,
    Candidates,
    ClassNames,
    Data,
    Device,
    Folder,
    Force,
    Json,
    Label,
    Model,
    OptionalOutput,
    OptionalRun,
    Root,
    Seed,
    Train,
    Unknown,
    Weights,
    more,
)
from nescio.cli.output import check_output, out, print_json, print_saved
from nescio.errors import NescioError


def recommend(
    run: OptionalRun = None,
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    train: Train = None,
    candidates: Candidates = None,
    accept: Annotated[float, typer.Option(metavar="X")] = 0.95,
    output: OptionalOutput = None,
    inputs: Annotated[int, more(min=10, metavar="N")] = 1000,
    label: Label = None,
    class_names: ClassNames = "",
    root: Root = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    force: Force = False,
) -> None:
    """Find and fit the detector that suits a network best.

    Detectors are ranked on known data and synthetic outliers, and the best is calibrated on one
    half of the known data. Use `nescio score` to classify new inputs.

    Args:
        run: A folder written by `nescio train`, in place of `--model`.
        accept: Fraction of known inputs to accept.
        inputs: Known inputs, and outliers of each kind, to rank by.
        output: Folder for the record and, in `recommended`, the detector; by default the run, or
            the current one.

    Examples:
        nescio recommend run
        nescio recommend run --candidates energy combined --accept 0.99 -o ranking
        nescio recommend --model my_nets:make_net --data calibration.npz
    """
    from nescio.report.ranking import recommendation_table
    from nescio.store.detector_choice import RecommendedDetector
    from nescio.store.detector_folder import is_fitted
    from nescio.store.run import RECOMMENDATION, RECOMMENDED

    folder = output or run or Path()
    if is_fitted(folder):
        raise NescioError(
            f"{str(folder)!r} contains a detector of `nescio fit`, and nothing else may be in it; "
            "choose another folder with --output"
        )
    path = folder / RECOMMENDATION
    check_output(path, "Recommendation record")
    options = {"accept": accept, "candidates": candidates, "inputs": inputs}
    best = RecommendedDetector(**options, batch_size=batch_size, seed=seed)
    network = Network(run, model, weights, data, train, label, class_names, root, device)
    fitted = network.fit(best, folder / RECOMMENDED)
    if best.record is not None:
        out.print(recommendation_table(best.record))
        best.record.save(path)
        print_json(best.record)
        print_saved(path, folder / RECOMMENDED)
    print_fitted(fitted, folder / RECOMMENDED)


def contest(
    folder: Folder = None,
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    train: Train = None,
    unknown: Unknown = None,
    candidates: Candidates = None,
    output: OptionalOutput = None,
    label: Label = None,
    class_names: ClassNames = "",
    root: Root = None,
    batch_size: BatchSize = 1024,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    force: Force = False,
) -> None:
    """Rank detectors on unknown data by AUROC, FPR95 and time.

    Each is calibrated on one half of the known data and tested on the other; those that learn do so
    from the training data. If FOLDER contains a detector, its network is used.

    Args:
        data: Known inputs with labels not used in training; by default the run's test data.
        output: Folder for the record and a table; by default the run, or the current one.

    Examples:
        nescio contest run --unknown unseen noise
        nescio contest run --unknown mnist omniglot --candidates energy knn
        nescio contest --model my_nets:make_net --data test.npz --unknown noise
    """
    from nescio.detectors import Detector
    from nescio.evaluation.contest import contest as rank
    from nescio.evaluation.unknown_sets import set_names, unknown_set
    from nescio.files import PAGE
    from nescio.report.ranking import ranking_table, ranking_tables
    from nescio.report.table import save_markdown
    from nescio.store.detector_folder import is_fitted, plain_attention
    from nescio.store.run import CONTEST

    if not unknown:
        raise typer.BadParameter("expected at least one set", param_hint="--unknown")
    place = output or (Path() if folder is None or is_fitted(folder) else folder)
    path, page = place / CONTEST, place / "contest.md"
    check_output(path, "Contest record")
    check_output(page, PAGE)
    network = Network(folder, model, weights, data, train, label, class_names, root, device)
    subject = network.subject("contest")
    how = subject.known, root, seed, subject.read
    sets = {name: unknown_set(word, *how) for name, word in set_names(unknown).items()}
    net = subject.model.model if isinstance(subject.model, Detector) else subject.model
    known = subject.test, sets, subject.known.train
    with plain_attention():
        record = rank(net, *known, candidates=candidates, batch_size=batch_size, seed=seed)
    out.print(ranking_tables(record))
    record.save(path)
    print_json(record)
    save_markdown(ranking_table(record).markdown(), page)
    print_saved(path, page)
