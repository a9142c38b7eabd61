"""`nescio attack`: what an attack makes of images."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Force, Seed, out
from nescio.cli.options import Root
from nescio.cli.outputs import check_output
from nescio.metrics.percent import percent


def attack(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            show_default=False,
            help="Folders written by `nescio train`, on the same images.",
        ),
    ],
    start: Annotated[
        str,
        typer.Option(
            help="noise, to make it as certain as can be; or samples: test images, to make them wrong."
        ),
    ] = "noise",
    images: Annotated[int, typer.Option(help="How many.", min=1, max=100)] = 8,
    steps: Annotated[int, typer.Option(help="Of the attack.", min=1)] = 40,
    eps: Annotated[
        float | None,
        typer.Option(
            help="How far a pixel may move; by default 0.3, and 0.1 for samples in colour.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The figure, svg, png or pdf; its record stands beside it."
        ),
    ] = Path("attack.svg"),
    seed: Seed = 0,
    root: Root = None,
    force: Force = False,
) -> None:
    """See what an attack makes of images: a row for each model, with its confidence in every one.

    Example: `nescio attack run-softmax run-ceda run-acet -o attack.svg`

    Example: `nescio attack run-softmax run-acet --start samples --images 10 --steps 80 -o samples.png`
    """
    from nescio.evaluation.gallery import attack_gallery
    from nescio.files import FIGURE
    from nescio.report.figures import figure_format, save_figure
    from nescio.report.gallery import gallery_figure
    from nescio.store.run import open_runs

    figure_format(output)
    path = output.with_suffix(".json")
    check_output(path, "Gallery record", folders=runs)
    check_output(output, FIGURE, folders=runs)
    models, facts = open_runs(runs)
    known = facts.load(root)
    record = attack_gallery(models, known, start, images=images, steps=steps, eps=eps, seed=seed)
    record.save(path)
    save_figure(gallery_figure(record), output)
    for row in record.rows:
        mean = sum(row.confidence) / len(row.confidence)
        out.print(
            f"{escape(row.name)}: mean confidence [bold]{percent(mean)}[/] after the attack",
            soft_wrap=True,
        )
    out.print(f"Saved: {escape(str(path))}, {escape(str(output))}", soft_wrap=True)
