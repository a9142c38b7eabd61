"""`nescio fit`: a detector over any trained network."""

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli.network import ClassNames, Model, Network, OptionalRun, print_fitted
from nescio.cli.options import Force, Output, Score, completion_of, one_of

Detector = Annotated[
    str | None,
    typer.Option(
        parser=one_of("detector", "DETECTORS"),
        autocompletion=completion_of("DETECTORS"),
        metavar="NAME",
    ),
]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE...")]


def fit(
    run: OptionalRun = None,
    model: Model = None,
    weights: Path | None = None,
    data: Path | None = None,
    output: Output = Path("detector"),
    detector: Detector = None,
    score: Score = None,
    layer: str | None = None,
    accept: float | None = None,
    risk: float | None = None,
    confidence_level: float | None = None,
    per_class: Annotated[bool, typer.Option("--per-class")] = False,
    train: Path | None = None,
    settings: Settings = None,
    label: str | None = None,
    class_names: ClassNames = "",
    root: str | None = None,
    force: Force = False,
) -> None:
    """Fit a detector that answers "unknown" with a guarantee.

    The network, a run's or your own, is not changed. Use `nescio score` to classify new inputs.

    Args:
        run: A folder written by `nescio train`, in place of `--model`.
        data: Calibration data: known inputs that the network was not trained on, as npz, CSV or a
            folder of images; by default the run's test data.
        output: Folder of the detector.
        detector: One of {DETECTORS}; by default combined or, with `--score`, threshold.
        score: Score of the threshold detector: {SCORES}; by default the one that the method's paper
            pairs with it.
        layer: Module whose output a detector uses as features; by default the last linear layer's
            input.
        accept: Fraction of known inputs to accept; by default 0.95.
        risk: Instead of `--accept`: allowed fraction of wrong answers among accepted inputs; needs
            labels.
        confidence_level: Probability with which the risk holds; by default 0.95.
        per_class: Set one threshold for each predicted class, and print them.
        settings: Other settings of the detector, one or more, such as `k=10` of knn.

    Examples:
        nescio fit run --score energy --accept 0.99 -o detector
        nescio fit run --detector knn --set k=10 size=5000 -o detector
        nescio fit --model my_nets:make_net --weights w.safetensors --data new.npz
        nescio fit --model my_nets:make_net --data rows.csv --label y --risk 0.01
    """
    from nescio.store.detector_choice import NamedDetector, parse_settings

    bound, others = (accept, risk, confidence_level), parse_settings(settings or [])
    choice = NamedDetector(detector, score, layer, *bound, per_class, others)
    network = Network(run, model, weights, data, train, label, class_names, root)
    print_fitted(network.fit(choice, output), output)
