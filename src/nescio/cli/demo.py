"""`nescio demo`: the tour."""

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli import stopped
from nescio.cli.arguments import Force, Seed, out


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for records and report.")
    ] = Path("nescio-demo"),
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """The tour, in one to two minutes, on embedded data: five methods learn, and are judged by what they never learned.

    It writes runs, records and a report into a folder, which must be new, or a demo's.

    Example: `nescio demo -o nescio-demo`
    """
    from nescio.cli.tour.tour import tour

    kept = f"what was done so far is whole, in {output}, and the same command starts anew"
    with stopped.told(lambda: kept):
        tour(output, seed, out)
