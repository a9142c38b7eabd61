"""Experiments of paper 4, *Uncertainty estimation using a single deep deterministic neural network* (DUQ)."""

from nescio.reproduce import paper4_curves, paper4_planes, paper4_runtime, paper4_tables
from nescio.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *paper4_planes.EXPERIMENTS,
    *paper4_curves.EXPERIMENTS,
    *paper4_tables.EXPERIMENTS,
    *paper4_runtime.EXPERIMENTS,
)
