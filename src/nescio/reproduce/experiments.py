"""Every table and figure of the four papers that can be made again, by name."""

from nescio.reproduce import paper1, paper2, paper3, paper4
from nescio.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for paper in (paper1, paper2, paper3, paper4) for one in paper.EXPERIMENTS
}
