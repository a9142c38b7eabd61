"""`nescio map`: where methods are confident, in the plane."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.names import complete
from nescio.cli.options import (
    BatchSize,
    Count,
    Device,
    Force,
    Impute,
    Label,
    OptionalOutput,
    OutputScores,
    Root,
    Seed,
    more,
    named,
)
from nescio.cli.output import check_output, print_saved, show

Methods = Annotated[
    list[str] | None,
    typer.Option("--methods", "--method", **named("method", "METHODS", metavar="NAME...")),
]


def draw_map(
    data: Annotated[str, typer.Argument(metavar="DATA", autocompletion=complete("NAMES"))],
    output: OptionalOutput = None,
    methods: Methods = None,
    scores: OutputScores = None,
    saturation: Annotated[bool, typer.Option("--saturation")] = False,
    epochs: Count = 40,
    width: Annotated[float, more(metavar="X")] = 4.0,
    resolution: Annotated[int, more(min=2, max=2000, metavar="N")] = 120,
    label: Label = None,
    impute: Impute = False,
    root: Root = None,
    batch_size: BatchSize = 64,
    seed: Seed = 0,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Draw where methods are confident, on data with two features.

    Small networks are trained first. A record for each method is written beside the figure.

    Args:
        data: Data with two features: two_moons, three_blobs, or a file.
        output: The figure, as svg, png or pdf; by default DATA-map.svg.
        methods: By default all of {METHODS}.
        scores: Scores to draw, such as entropy; by default the confidence.
        saturation: Draw how steeply each score changes.
        width: Side of the map, as a multiple of the data's extent.
        resolution: Grid points along each side.
        label: Label column of a CSV file; by default the last.

    Examples:
        nescio map two_moons
        nescio map two_moons --methods softmax ceda acet -o moons.svg
        nescio map three_blobs --methods softmax duq --scores entropy -o maps.png
    """
    from nescio.data import load
    from nescio.evaluation.maps import check_compared, trained_map
    from nescio.files import FIGURE
    from nescio.methods import METHODS
    from nescio.progress import say
    from nescio.report.figures import figure_format, save_figure
    from nescio.report.maps import map_figure
    from nescio.store.run import check_device

    check_device(device)
    output = output or Path(f"{Path(data).stem}-map.svg")
    methods, drawn = list(dict.fromkeys(methods or METHODS)), scores or ["confidence"]
    scores = scores or ["entropy"]
    figure_format(output)
    paths = [output.with_name(f"{output.stem}-{method}.json") for method in methods]
    check_output(output, FIGURE, [Path(data)])
    for path in paths:
        check_output(path, "Map record", [Path(data)])
    check_compared(methods, scores)
    known, maps = load(data, root, seed=seed, impute=impute, label=label), []
    say(f"training {len(methods)} methods one by one: {', '.join(methods)}")
    draw = partial(trained_map, epochs=epochs, width=width, resolution=resolution)
    draw = partial(draw, batch_size=batch_size, seed=seed, device=device)
    for method, path in zip(methods, paths, strict=True):
        record = draw(method, known, scores)
        record.save(path)
        maps.append(record)
        show(f"{method}: {record.provenance.seconds:.1f} s, {escape(str(path))}")
    save_figure(map_figure(maps, drawn, saturation), output)
    print_saved(output)
