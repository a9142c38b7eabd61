"""Which detector suits a model, and by what it was chosen."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_not_negative, check_shares, check_together
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Ranked:
    """One detector that was tried."""

    name: str  # in DETECTORS or, of a threshold, of its score
    auroc: dict[str, float]  # against each kind of outliers
    mean: float
    worst: float
    seconds: float  # to fit, and to score without the model's own time
    refused: dict[str, float] | None = (
        None  # share of each kind; None in records from before it was kept
    )

    def __post_init__(self) -> None:
        check_shares(self, "auroc", "mean", "worst", "refused")
        check_not_negative(self, "seconds")
        check_together(self, auroc=self.auroc)


@dataclass(frozen=True)
class Recommendation(Record):
    """Detectors ranked by how they tell known inputs from outliers made of such."""

    detector: str  # the chosen one
    criterion: str
    ranking: tuple[Ranked, ...]  # the best first
    skipped: dict[str, str]  # why others could not be tried
    inputs: int  # known ones, and of each kind of outliers
    calibrated: int  # known inputs that the threshold is settled by
    classes: int
    draws: int
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "inputs", "calibrated", "classes", "draws")

    def headline(self) -> str:
        return f"{self.detector}, of " + ", ".join(
            f"{one.name} {one.mean:.3f}" for one in self.ranking[:3]
        )
