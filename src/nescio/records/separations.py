"""Many scores against many sets, over several splits of the data: a paper's tables."""

from dataclasses import dataclass

from nescio.records.checks import Checked, Count, Fraction, check_together
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Repeated(Checked):
    """How well a score tells right answers from one set; a figure for each split, larger = better."""

    auroc: tuple[Fraction, ...]
    aupr_in: tuple[Fraction, ...]
    aupr_out: tuple[Fraction, ...]

    def check(self) -> None:
        lists = {"auroc": self.auroc, "aupr_in": self.aupr_in, "aupr_out": self.aupr_out}
        check_together(self, **lists)


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
    accuracy: tuple[Fraction, ...]  # of each split
    sets: dict[str, tuple[Count, ...]]  # inputs of each, in each split
    rows: tuple[Row, ...]
    spreads: tuple[Spread, ...]
    provenance: Provenance
