"""What a threshold promises, and what it does on test data."""

from dataclasses import dataclass
from typing import Any

from nescio.metrics.percent import percent
from nescio.records.checks import check_counts, check_shares, check_size
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class RefusedSet:
    """A set of unknown data, and how much of it was refused."""

    name: str
    inputs: int
    refused: float  # share answered with "I do not know"

    def __post_init__(self) -> None:
        check_counts(self, "inputs")
        check_shares(self, "refused")


@dataclass(frozen=True)
class Decision(Record):
    """A fitted detector on test data: what it promised, and what it kept. What could not be told is None."""

    method: str
    detector: str  # in DETECTORS or, of a threshold, of its score
    settings: dict[str, Any]  # of the detector
    promise: (
        str | None
    )  # in words; None of a detector that was loaded, which has forgotten how it was fitted
    accept: float | None  # the share of known inputs that was asked for
    bound: (
        float | None
    )  # what is guaranteed of it: the probability that a new known input is accepted is no smaller
    risk: float | None  # the share of wrong answers among accepted ones that was allowed
    confidence: float | None  # with which it is kept
    thresholds: tuple[float, ...]  # one, or one for each class; what scores higher is refused
    calibrated: int  # known inputs that settled them
    known: str
    inputs: int  # test inputs of the known kinds
    accepted: float  # share of them
    usual: (
        tuple[float, ...] | None
    )  # least and largest such share that chance alone gives in 95 % of cases
    accuracy: float | None  # of the model's answers to all of them
    accepted_accuracy: float | None  # of the answers to those that are accepted
    unknown: tuple[RefusedSet, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "calibrated", "inputs")
        check_shares(self, "accept", "bound", "risk", "confidence", "usual")
        check_shares(self, "accepted", "accuracy", "accepted_accuracy")
        check_size(self, "usual", 2)

    def headline(self) -> str:
        refused = ", ".join(f"{one.name} {percent(one.refused)}" for one in self.unknown)
        told = f"{percent(self.accepted)} of {self.inputs} known inputs accepted"
        return f"{told}; refused of unknown ones: {refused}" if refused else told
