"""The paper, and the figures of its tables by row and set, to stand beside ours."""

from papers.gradient_uncertainty.separations import MEASURES, Figures
from papers.paper import read_paper

PAPER = read_paper("gradient_uncertainty")


def table(number: int) -> Figures:
    """Return a table of the paper, in per cent."""
    table = PAPER.published[f"table{number}"]
    return {
        (row, name): {measure: figures[measure][i] for measure in MEASURES}
        for row, figures in table["rows"].items()
        for i, name in enumerate(table["sets"])
    }


PUBLISHED = {number: table(number) for number in (1, 2, 3)}
