"""Every table and figure of the four papers that can be made again, by name."""

from nescio.reproduce import paper1, paper2, paper3, paper4
from nescio.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for paper in (paper1, paper2, paper3, paper4) for one in paper.EXPERIMENTS
}
NOT_MADE = {  # by paper and item: why
    (1, "Figure 2"): "a drawing, taken from another work",
    (3, "Figure 1"): "pictures of the data",
    (4, "Figure 2"): "a drawing of the architecture",
    (4, "Figure 9"): "of a reversible network, which is not part of nescio",
}


def not_made() -> str:
    """A line on what is not among the experiments, and why."""
    left = (f"{item} of paper {paper} ({why})" for (paper, item), why in NOT_MADE.items())
    return f"Not made again: {'; '.join(left)}."
