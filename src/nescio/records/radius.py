"""How far from its centres a network of kernels must be to know nothing, promised and measured."""

from dataclasses import dataclass

from nescio.records.checks import (
    check_counts,
    check_lengths,
    check_not_negative,
    check_positive,
    check_shares,
)
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Promise:
    """Theorem 3.2 for one ε, held against inputs beyond the radius it gives."""

    eps: float
    radius: float  # from all centres, in units of the normalised input
    beyond: int  # inputs that were looked at, none of them nearer
    worst: float  # the most by which a probability differs from 1/K there; at most ε if the theorem is kept

    def __post_init__(self) -> None:
        check_counts(self, "beyond")
        check_not_negative(self, "eps", "radius", "worst")


@dataclass(frozen=True)
class Radius(Record):
    """An RBF network and a ReLU network on inputs ever farther from the training data."""

    data: str
    classes: int
    centres: int
    gamma: float
    alpha: float  # the largest Σ_l |α_rl − α_kl|
    accuracy: float  # of the RBF network on test data
    promises: tuple[Promise, ...]
    distance: tuple[float, ...]  # of some inputs to their nearest centre
    departs: tuple[
        float, ...
    ]  # how far a probability of the RBF network is from 1/K there, at most
    other: tuple[float, ...]  # the same of a ReLU network
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "classes", least=2)
        check_counts(self, "centres")
        check_positive(self, "gamma")
        check_not_negative(self, "alpha", "distance")
        check_shares(self, "accuracy")
        check_lengths(self, distance=self.distance, departs=self.departs, other=self.other)
