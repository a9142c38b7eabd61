"""Every table and figure of the four papers that can be made again, by name."""

from papers.duq import curves, planes, runtime
from papers.duq import tables as duq_tables
from papers.experiment import Experiment
from papers.gradient_uncertainty import figure2, tables
from papers.know_your_limits import figure1, theorem1
from papers.relu_overconfidence import attacked, figure4, noise_figures, table1, table2, theorem32
from papers.relu_overconfidence import figure1 as regions

_FILES = (
    *(figure1, theorem1),
    *(table1, table2, regions, noise_figures, figure4, theorem32, attacked),
    *(tables, figure2),
    *(planes, curves, duq_tables, runtime),
)
EXPERIMENTS: dict[str, Experiment] = {one.name: one for file in _FILES for one in file.EXPERIMENTS}
NOT_MADE = {  # by paper and item: why
    (1, "Figure 2"): "a drawing, taken from another work",
    (3, "Figure 1"): "pictures of the data",
    (4, "Figure 2"): "a drawing of the architecture",
    (4, "Figure 9"): "of a reversible network, which is not part of nescio",
}


def not_made() -> str:
    """Return a line on what is not among the experiments, and why."""
    left = (f"{item} of paper {paper} ({why})" for (paper, item), why in NOT_MADE.items())
    return f"Not made again: {'; '.join(left)}."
