"""`nescio fit`: a detector over any trained network."""

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli.network import Network, print_fitted
from nescio.cli.options import (
    BatchSize,
    ClassNames,
    Data,
    Device,
    Force,
    Json,
    Label,
    Model,
    OptionalRun,
    Output,
    Root,
    Score,
    Seed,
    Train,
    Weights,
    more,
    named,
)
from nescio.cli.output import print_json

Detector = Annotated[str | None, typer.Option(**named("detector", "DETECTORS"))]
Settings = Annotated[list[str] | None, more("--set", metavar="NAME=VALUE...")]
Fraction = Annotated[float | None, typer.Option(metavar="X")]


def fit(
    run: OptionalRun = None,
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    train: Train = None,
    output: Output = Path("detector"),
    detector: Detector = None,
    score: Score = None,
    accept: Fraction = None,
    risk: Fraction = None,
    confidence_level: Annotated[float | None, more(metavar="X")] = None,
    per_class: Annotated[bool, more("--per-class")] = False,
    layer: Annotated[str | None, more(metavar="NAME")] = None,
    settings: Settings = None,
    label: Label = None,
    class_names: ClassNames = "",
    root: Root = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    force: Force = False,
) -> None:
    """Fit a detector that answers "unknown" with a guarantee.

    The network, a run's or your own, is not changed. Use `nescio score` to classify new inputs.

    Args:
        run: A folder written by `nescio train`, in place of `--model`.
        data: Calibration data: known inputs not used in training; by default the run's test data.
        output: Folder of the detector.
        detector: Such as knn; a wrong name lists all. By default combined.
        score: In place of a detector: a threshold on a score, such as energy.
        layer: Module whose output is used as features.
        accept: Fraction of known inputs to accept; by default 0.95.
        risk: Instead: fraction of wrong answers among accepted inputs.
        confidence_level: Probability with which the risk holds; by default 0.95.
        per_class: Set one threshold for each predicted class.
        settings: Other settings of the detector, such as `k=10` of knn.

    Examples:
        nescio fit run --score energy --accept 0.99 -o detector
        nescio fit run --detector knn --set k=10 size=5000
        nescio fit --model my_nets:make_net --weights w.safetensors --data new.npz
        nescio fit --model my_nets:make_net --data rows.csv --label y --risk 0.01
    """
    from nescio.store.detector_choice import NamedDetector, parse_settings

    bound, others = (accept, risk, confidence_level), parse_settings(settings or [])
    choice = NamedDetector(detector, score, layer, *bound, per_class, others, batch_size, seed)
    network = Network(run, model, weights, data, train, label, class_names, root, device)
    fitted = network.fit(choice, output)
    print_fitted(fitted, output)
    print_json(fitted[1])
