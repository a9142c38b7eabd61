"""Detectors side by side on one model and the same data."""

from dataclasses import dataclass

from nescio.records.checks import (
    check_counts,
    check_not_negative,
    check_shares,
    check_together,
    damaged,
)
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Contestant:
    """One detector, and how it tells known inputs from each set of unknown ones."""

    name: str  # in DETECTORS or, of a threshold, of its score
    auroc: dict[str, float]
    fpr95: dict[
        str, float
    ]  # share of unknown inputs accepted when 95 % of known inputs are accepted
    mean: float  # AUROC over the sets
    fit_seconds: float  # to learn and to settle the threshold, the model's own time included
    seconds_per_1000: float  # to score so many known inputs, the model's own time included

    def __post_init__(self) -> None:
        check_shares(self, "auroc", "fpr95", "mean")
        check_not_negative(self, "fit_seconds", "seconds_per_1000")


@dataclass(frozen=True)
class Contest(Record):
    """What each detector makes of the same data."""

    method: str
    contestants: tuple[Contestant, ...]  # the largest mean AUROC first
    skipped: dict[str, str]  # why others could not be tried
    known: int  # inputs that all are judged by
    calibrated: int  # other known inputs, that thresholds are settled by
    unknown: dict[str, int]  # inputs of each set
    model_seconds_per_1000: float  # of the model by itself
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "known", "calibrated", "unknown")
        check_not_negative(self, "model_seconds_per_1000")
        for one in self.contestants:
            check_together(one, unknown=self.unknown, auroc=one.auroc, fpr95=one.fpr95)
            for name in ("auroc", "fpr95"):
                if getattr(one, name).keys() != self.unknown.keys():
                    damaged(one, name, "one number for each unknown set")

    def headline(self) -> str:
        return "mean AUROC of " + ", ".join(
            f"{one.name} {one.mean:.3f}" for one in self.contestants[:3]
        )
