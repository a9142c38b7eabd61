"""The paper, and the figures of its tables by row and set, to stand beside ours."""

from papers.gradient_uncertainty.separations import Figures
from papers.paper import read_paper

PAPER = read_paper("gradient_uncertainty")
# what is comparable with a measure of the paper: AUPR depends on how many inputs each side has
COMPARABLE = {"auroc": "auroc", "aupr_in": "aupr_in_paper", "aupr_out": "aupr_out_paper"}


def table(number: int) -> Figures:
    """Return a table of the paper, in per cent."""
    table = PAPER.published[f"table{number}"]
    return {
        (row, name): {ours: figures[theirs][i] for theirs, ours in COMPARABLE.items()}
        for row, figures in table["rows"].items()
        for i, name in enumerate(table["sets"])
    }


def prevalence(group: str, name: str) -> float | None:
    """Return the fraction of inputs that are of a set, of these and right answers, in a table."""
    inputs = PAPER.published["inputs"].get(group, {})
    return inputs[name] / (inputs["right"] + inputs[name]) if name in inputs else None


def implied(number: int, name: str) -> float:
    """Return about how many inputs of a set there were for a digit, by the paper's own AUPR-In.

    Up to a threshold that accepts a fraction t of digits, about r · fpr(t) / t of the accepted are
    of the set, if there are r of it for a digit: 1 − AUPR-In, the mean over t, is r · (1 − AUROC)
    or a little more. Of the entropy, in tables 1 and 3: table 2 prints it with fewer digits.
    """
    figures = PUBLISHED[3 if number == 3 else 1]["entropy", name]
    return (100 - figures["aupr_in_paper"]) / (100 - figures["auroc"])


PUBLISHED = {number: table(number) for number in (1, 2, 3)}
