"""`nescio map`: where methods are certain, in the plane."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Force, Impute, Label, Seed, out
from nescio.cli.options import Root, one_of, score_in
from nescio.cli.outputs import check_output


def draw_map(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="Data of two features: two_moons, three_blobs, a file.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The figure, svg, png or pdf; else DATA-map.svg.",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            "--method",
            parser=one_of("method", "METHODS"),
            metavar="NAME",
            show_default=False,
            help="By default all: {METHODS}.",
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            "--score",
            parser=score_in("OF_LOGITS"),
            metavar="NAME",
            show_default=False,
            help="By default the confidence of each; of {OF_LOGITS}.",
        ),
    ] = None,
    saturation: Annotated[
        bool, typer.Option("--saturation", help="Draw how steeply each score changes.")
    ] = False,
    width: Annotated[
        float, typer.Option(help="Side of the map, times the extent of the data.")
    ] = 4.0,
    resolution: Annotated[
        int, typer.Option(help="Grid points along each side.", min=2, max=2000)
    ] = 120,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 40,
    seed: Seed = 0,
    impute: Impute = False,
    label: Label = None,
    root: Root = None,
    force: Force = False,
) -> None:
    """Train small networks on data in the plane, and draw where they are certain, with a record for each method.

    Example: `nescio map two_moons`

    Example: `nescio map two_moons --methods softmax ceda acet -o moons.svg`

    Example: `nescio map three_blobs --methods softmax ensemble --scores entropy mutual_information -o maps.png`
    """
    from nescio.data import load
    from nescio.evaluation.maps import check_compared, trained_map
    from nescio.files import FIGURE
    from nescio.methods import METHODS
    from nescio.report.figures import figure_format, save_figure
    from nescio.report.maps import map_figure

    output = output or Path(f"{Path(data).stem}-map.svg")
    methods, drawn = list(dict.fromkeys(methods or METHODS)), scores or ["confidence"]
    scores = scores or ["entropy"]
    figure_format(output)  # what is wrong is told before the work
    records = [output.with_name(f"{output.stem}-{method}.json") for method in methods]
    check_output(output, FIGURE, [Path(data)])
    for path in records:
        check_output(path, "Map record", [Path(data)])
    check_compared(methods, scores)
    known, maps = load(data, root, seed=seed, impute=impute, label=label), []
    for method, path in zip(methods, records, strict=True):
        maps.append(
            trained_map(
                method, known, scores, epochs=epochs, width=width, resolution=resolution, seed=seed
            )
        )
        maps[-1].save(path)
        out.print(
            f"{method}: {maps[-1].provenance.seconds:.1f} s, {escape(str(path))}", soft_wrap=True
        )
    save_figure(map_figure(maps, drawn, saturation), output)
    out.print(f"Saved: {escape(str(output))}", soft_wrap=True)
