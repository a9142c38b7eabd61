"""`nescio fit`: a detector over any trained network."""

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli.arguments import Force
from nescio.cli.network import ClassNames, Held, Label, Model, Network, OrRun, Train, Weights, told
from nescio.cli.options import Root, one_of, score_in


def fit(
    run: OrRun = None,
    model: Model = None,
    weights: Weights = None,
    data: Held = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the detector.")] = Path(
        "detector"
    ),
    detector: Annotated[
        str | None,
        typer.Option(
            parser=one_of("detector", "DETECTORS"),
            metavar="NAME",
            show_default=False,
            help="{DETECTORS}; by default combined, or, with --score, threshold.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            parser=score_in("SCORES"),
            metavar="NAME",
            show_default=False,
            help="What threshold looks at: {SCORES}; by default the one the method's paper pairs with it.",
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="The module whose features a detector looks at; by default what the last linear layer is given.",
            show_default=False,
        ),
    ] = None,
    accept: Annotated[
        float | None,
        typer.Option(
            help="The share of known inputs to accept; 0.95 if nothing is asked for.",
            show_default=False,
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(
            help="Or: the share of wrong answers to allow among accepted ones; the data must have labels.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="With which the risk is kept; 0.95 if not given.", show_default=False),
    ] = None,
    per_class: Annotated[
        bool,
        typer.Option(
            "--per-class",
            help="A threshold for each class that the model answers, and a table of them.",
        ),
    ] = False,
    train: Train = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="Other settings of the detector, one or more, such as `k=10` of knn.",
        ),
    ] = None,
    label: Label = None,
    class_names: ClassNames = "",
    root: Root = None,
    force: Force = False,
) -> None:
    """Fit a detector over any trained network: from then on it says "unknown" where it does not know, with a guarantee.

    The network, your own or one of `nescio train`, is left as it is. `nescio score` then answers new inputs.

    Example: `nescio fit --model my_nets:make_net --weights weights.safetensors --data calibration.npz -o detector`

    Example: `nescio fit --model my_nets:make_net --weights w.safetensors --data rows.csv --label kind --risk 0.01`

    Example: `nescio fit run --score energy --accept 0.99 -o detector`

    Example: `nescio fit run --detector knn --set k=10 size=5000 -o detector`
    """
    from nescio.store.detector_choice import NamedDetector, parse_settings

    wanted = NamedDetector(
        detector, score, layer, accept, risk, confidence, per_class, parse_settings(settings or [])
    )
    network = Network(run, model, weights, data, train, label, class_names, root)
    told(network.fit(wanted, output), output)
