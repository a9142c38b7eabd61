"""Detectors side by side on one model: on unknown data, or on synthetic outliers alone."""

from dataclasses import dataclass
from typing import ClassVar

from nescio.records.checks import Checked, Count, Fraction, NonNegative, check_together, damaged
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Contestant(Checked):
    """One detector, and how it separates known inputs from each set of unknown ones."""

    name: str  # in DETECTORS or, of a threshold, of its score
    auroc: dict[str, Fraction]
    fpr95: dict[str, Fraction]
    mean: Fraction  # AUROC over the sets
    fit_seconds: NonNegative  # the model's own time included
    seconds_per_1000: NonNegative  # to score so many known inputs, the model's own time included


@dataclass(frozen=True)
class Contest(Record):
    """Detectors compared on the same known and unknown data."""

    NEEDED: ClassVar = ("contestants",)

    method: str
    contestants: tuple[Contestant, ...]  # the largest mean AUROC first
    skipped: dict[str, str]  # why others could not be tried
    known: Count  # test inputs
    calibrated: Count  # calibration inputs
    unknown: dict[str, Count]  # inputs of each set
    model_seconds_per_1000: NonNegative  # of the model by itself
    provenance: Provenance

    def check(self) -> None:
        for contestant in self.contestants:
            for name in ("auroc", "fpr95"):
                if getattr(contestant, name).keys() != self.unknown.keys() or not self.unknown:
                    damaged(contestant, name, "one number for each unknown set")

    def headline(self) -> str:
        best = (f"{contestant.name} {contestant.mean:.3f}" for contestant in self.contestants[:3])
        return f"mean AUROC of {', '.join(best)}"


@dataclass(frozen=True)
class Ranked(Checked):
    """One detector that was tried on synthetic outliers."""

    name: str  # in DETECTORS or, of a threshold, of its score
    auroc: dict[str, Fraction]  # against each kind of outliers
    mean: Fraction
    worst: Fraction
    seconds: NonNegative  # to fit, and to score without the model's own time
    refused: dict[str, Fraction] | None = None  # of each kind

    def check(self) -> None:
        check_together(self, auroc=self.auroc)


@dataclass(frozen=True)
class Recommendation(Record):
    """Detectors ranked by how they separate known inputs from synthetic outliers."""

    NEEDED: ClassVar = ("ranking",)

    detector: str  # the chosen one
    criterion: str
    ranking: tuple[Ranked, ...]  # the best first
    skipped: dict[str, str]  # why others could not be tried
    inputs: Count  # known ones, and of each kind of outliers
    calibrated: Count  # calibration inputs
    classes: Count
    draws: Count
    provenance: Provenance

    def headline(self) -> str:
        best = (f"{ranked.name} {ranked.mean:.3f}" for ranked in self.ranking[:3])
        return f"{self.detector}, of {', '.join(best)}"
