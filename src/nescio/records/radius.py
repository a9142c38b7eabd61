"""How far from its centres a network of kernels must be to know nothing, promised and measured."""

from dataclasses import dataclass

from nescio.records.checks import (
    Checked,
    Count,
    Fraction,
    NonNegative,
    Positive,
    check_lengths,
    damaged,
)
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Promise(Checked):
    """Theorem 3.2 for one ε, held against inputs beyond the radius it gives."""

    eps: NonNegative
    radius: NonNegative  # from all centres, in units of the normalised input
    beyond: Count  # inputs that were looked at, none of them nearer
    worst: NonNegative  # the most by which a probability differs from 1/K there; at most ε if the theorem is kept


@dataclass(frozen=True)
class Radius(Record):
    """An RBF network and a ReLU network on inputs ever farther from the training data."""

    data: str
    classes: Count
    centres: Count
    gamma: Positive
    alpha: NonNegative  # the largest Σ_l |α_rl − α_kl|
    accuracy: Fraction  # of the RBF network on test data
    promises: tuple[Promise, ...]
    distance: tuple[NonNegative, ...]  # of some inputs to their nearest centre
    departs: tuple[
        float, ...
    ]  # how far a probability of the RBF network is from 1/K there, at most
    other: tuple[float, ...]  # the same of a ReLU network
    provenance: Provenance

    def check(self) -> None:
        if self.classes < 2:
            damaged(self, "classes", "whole numbers of at least 2")
        check_lengths(self, distance=self.distance, departs=self.departs, other=self.other)
