"""Figure 1 and theorem 1 of *Know your limits*."""

from nescio.reproduce import paper1_figure, paper1_theorem
from nescio.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (*paper1_figure.EXPERIMENTS, *paper1_theorem.EXPERIMENTS)
