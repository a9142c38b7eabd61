"""`nescio demo`: a tour of the methods on built-in data."""

from pathlib import Path

from nescio.cli.options import Force, Output, Seed
from nescio.cli.output import on_interrupt, out


def demo(output: Output = Path("nescio-demo"), seed: Seed = 0, force: Force = False) -> None:
    """Run a two-minute demo on built-in data.

    Five methods are trained on two small problems and tested on inputs they cannot know.

    Args:
        output: Folder for runs, records and a report; it must be new, or of an earlier demo.

    Examples:
        nescio demo -o nescio-demo --seed 1
    """
    from nescio.cli.demo_tour import tour

    finished = f"complete files so far are in {output}; run the same command to start again"
    with on_interrupt(lambda: finished):
        tour(output, seed, out)
