"""Every table and figure of the four papers that can be made again, by name."""

from papers.duq import appendix, curves, fashion, irrelevant, kinds, planes, runtime, start
from papers.duq import tables as duq_tables
from papers.experiment import Experiment
from papers.gradient_uncertainty import figure1 as concepts
from papers.gradient_uncertainty import figure2, layers, tables
from papers.know_your_limits import figure1, theorem1
from papers.know_your_limits import figure2 as softmax_figure
from papers.know_your_limits import lemmas as limits_lemmas
from papers.relu_overconfidence import attacked, figure4, noise_figures, table1, table2, theorem32
from papers.relu_overconfidence import figure1 as regions

_FILES = (
    *(figure1, softmax_figure, limits_lemmas, theorem1),
    *(table1, table2, regions, noise_figures, figure4, theorem32, attacked),
    *(tables, layers, concepts, figure2),
    *(planes, curves, duq_tables, runtime, start, kinds, irrelevant, appendix, fashion),
)
EXPERIMENTS: dict[str, Experiment] = {one.name: one for file in _FILES for one in file.EXPERIMENTS}
NOT_MADE = {  # by paper and item: why
    (4, "Figure 2"): "a drawing of the architecture",
}


def not_made() -> str:
    """Return a line on what is not among the experiments, and why."""
    left = (f"{item} of paper {paper} ({why})" for (paper, item), why in NOT_MADE.items())
    return f"Not made again: {'; '.join(left)}."
