"""`nescio recommend`: the detector that suits a trained network."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Force, Seed, out
from nescio.cli.network import ClassNames, Held, Label, Model, Network, OrRun, Train, Weights, told
from nescio.cli.options import Root
from nescio.cli.outputs import check_output
from nescio.errors import NescioError


def recommend(
    run: OrRun = None,
    model: Model = None,
    weights: Weights = None,
    data: Held = None,
    train: Train = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            help="Detectors or scores to try; by default all that are quick.", show_default=False
        ),
    ] = None,
    accept: Annotated[float, typer.Option(help="Share of known inputs to accept.")] = 0.95,
    inputs: Annotated[
        int, typer.Option(help="Known inputs to judge by, and outliers of each kind.", min=10)
    ] = 1000,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="Folder for the record and, in `recommended`, the detector; else the run's, or this one.",
        ),
    ] = None,
    label: Label = None,
    class_names: ClassNames = "",
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:
    """Find the detector that suits a trained network, by known data and outliers made from them alone.

    It is fitted on a half of the known data, and `nescio score` answers new inputs with it.

    Example: `nescio recommend run`

    Example: `nescio recommend --model my_nets:make_net --weights w.safetensors --data calibration.npz --train train.npz`

    Example: `nescio recommend run --candidates energy entropy combined --accept 0.99 -o found`
    """
    from nescio.report.ranking import recommendation_table
    from nescio.store.detector_choice import RecommendedDetector
    from nescio.store.detector_folder import is_fitted
    from nescio.store.run import RECOMMENDATION, RECOMMENDED

    folder = output or run or Path()
    if is_fitted(folder):
        raise NescioError(
            f"{str(folder)!r} holds a detector of `nescio fit`, and nothing else may be in it; give "
            "another folder with --output"
        )
    check_output(folder / RECOMMENDATION, "Recommendation record")
    best = RecommendedDetector(accept=accept, candidates=candidates, inputs=inputs, seed=seed)
    network = Network(run, model, weights, data, train, label, class_names, root)
    fitted = network.fit(best, folder / RECOMMENDED)
    if best.record is not None:
        out.print(recommendation_table(best.record))
        best.record.save(folder / RECOMMENDATION)
        out.print(
            f"Saved: {escape(str(folder / RECOMMENDATION))}, {escape(str(folder / RECOMMENDED))}",
            soft_wrap=True,
        )
    told(fitted, folder / RECOMMENDED)
