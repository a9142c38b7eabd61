"""Many scores against many sets, over several splits of the data: a paper's tables."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_shares, check_together
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Repeated:
    """How well a score tells right answers from one set; a figure for each split, larger = better."""

    auroc: tuple[float, ...]
    aupr_in: tuple[float, ...]
    aupr_out: tuple[float, ...]

    def __post_init__(self) -> None:
        check_shares(self, "auroc", "aupr_in", "aupr_out")
        check_together(self, auroc=self.auroc, aupr_in=self.aupr_in, aupr_out=self.aupr_out)


@dataclass(frozen=True)
class Row:
    """One score, or one fitted meta-classifier."""

    name: str
    group: str  # the rows of one table
    against: dict[str, Repeated]  # by the name of the set


@dataclass(frozen=True)
class Spread:
    """Some of a score's values on each set, for one split."""

    score: str
    values: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Separations(Record):
    """Right answers to known inputs against wrong ones and against unknown inputs, by many scores."""

    data: str
    network: str
    accuracy: tuple[float, ...]  # of each split
    sets: dict[str, tuple[int, ...]]  # inputs of each, in each split
    rows: tuple[Row, ...]
    spreads: tuple[Spread, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        check_shares(self, "accuracy")
        check_counts(self, "sets")
