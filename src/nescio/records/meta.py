"""What a meta-classifier learned to look at."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_lengths
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class MetaWeights(Record):
    """The weights of a meta-classifier over standardised features: above 0 where more of one means less trust."""

    kind: str
    features: tuple[str, ...]
    weights: tuple[float, ...] | None  # None of a network, where no feature has one weight
    strength: float | None  # scikit-learn's C, where one was chosen
    right: int  # answers it learned from
    wrong: int
    unknown: dict[str, int]  # inputs of each set of known unknowns
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "right", "wrong", "unknown")
        check_lengths(self, features=self.features, weights=self.weights)
