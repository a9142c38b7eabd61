"""Tables, figures and theorem 3.2 of *Why ReLU networks yield high-confidence predictions far away*."""

from nescio.reproduce import paper2_figures, paper2_tables, paper2_theorem
from nescio.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *paper2_tables.EXPERIMENTS,
    *paper2_figures.EXPERIMENTS,
    *paper2_theorem.EXPERIMENTS,
)
