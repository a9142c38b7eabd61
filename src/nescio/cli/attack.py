"""`nescio attack`: images under attack, and each model's confidence in them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nescio.cli.options import BatchSize, Count, Device, Force, Output, Root, Seed
from nescio.cli.output import check_output, print_saved, show


def attack(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN")],
    start: Annotated[str, typer.Option(metavar="noise|samples")] = "noise",
    images: Annotated[int, typer.Option(min=1, max=100, metavar="N")] = 8,
    steps: Count = 40,
    eps: Annotated[float | None, typer.Option(metavar="X")] = None,
    output: Output = Path("attack.svg"),
    root: Root = None,
    batch_size: BatchSize = 256,
    seed: Seed = 0,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Draw images under attack, with the confidence of each model.

    Args:
        runs: Folders written by `nescio train`, on the same images.
        start: noise, made as confident as possible; or samples: test images, made wrong.
        images: Number of images.
        steps: Steps of the attack.
        eps: How far a pixel may move; by default 0.3, and 0.1 for samples in colour.
        output: The figure, as svg, png or pdf; its record is written beside it.

    Examples:
        nescio attack run-softmax run-ceda run-acet -o attack.svg
        nescio attack run-softmax run-acet --start samples --steps 80 -o samples.png
    """
    from nescio.evaluation.gallery import attack_gallery
    from nescio.files import FIGURE
    from nescio.metrics.percent import percent
    from nescio.report.figures import figure_format, save_figure
    from nescio.report.gallery import gallery_figure
    from nescio.store.run import move_to, open_runs

    figure_format(output)
    path = output.with_suffix(".json")
    check_output(path, "Gallery record", folders=runs)
    check_output(output, FIGURE, folders=runs)
    models, facts = open_runs(runs)
    known = facts.load(root)
    for model in models.values():
        move_to(model, device)
    size: dict[str, Any] = {"images": images, "steps": steps, "batch_size": batch_size}
    record = attack_gallery(models, known, start, **size, eps=eps, seed=seed)
    record.save(path)
    save_figure(gallery_figure(record), output)
    for row in record.rows:
        mean = percent(sum(row.confidence) / len(row.confidence))
        show(f"{escape(row.name)}: mean confidence [bold]{mean}[/] under attack")
    print_saved(path, output)
