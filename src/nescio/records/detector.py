"""Detectors: how one was fitted, what it does on test data, and several side by side."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from nescio.metrics.percent import percent
from nescio.records.checks import (
    Checked,
    Count,
    Fraction,
    NonNegative,
    check_together,
    damaged,
    of_length,
)
from nescio.records.provenance import Provenance
from nescio.records.record import Record, as_json

UNCOVERED = "Unknown inputs: not guaranteed"  # beside every promise


@dataclass(frozen=True)
class RefusedSet(Checked):
    """A set of unknown data, and how much of it was refused."""

    name: str
    inputs: Count
    refused: Fraction  # answered with "I do not know"


@dataclass(frozen=True)
class Decision(Record):
    """A fitted detector on test data: what it promised, and what it kept; None is undetermined."""

    method: str
    detector: str  # in DETECTORS or, of a threshold, of its score
    settings: dict[str, Any]  # of the detector
    promise: str | None  # in words; None of a loaded detector with a rule of the user's own
    accept: Fraction | None  # the fraction of known inputs that was asked for
    bound: Fraction | None  # guaranteed probability that a new known input is accepted
    risk: Fraction | None  # the error rate among accepted inputs that was allowed
    confidence_level: Fraction | None  # with which that holds
    thresholds: tuple[float, ...]  # one, or one for each class; what scores higher is refused
    calibrated: Count  # calibration inputs
    known: str
    inputs: Count  # test inputs of the known classes
    accepted: Fraction  # of them
    usual: Annotated[tuple[Fraction, ...] | None, of_length(2)]  # its 95 % interval
    accuracy: Fraction | None  # of the model's answers to all of them
    accepted_accuracy: Fraction | None  # of the answers to those that are accepted
    unknown: tuple[RefusedSet, ...]
    provenance: Provenance
    on_calibration_inputs: bool = False  # whether the known inputs are those of the threshold

    def headline(self) -> str:
        refused = ", ".join(f"{side.name} {percent(side.refused)}" for side in self.unknown)
        accepted = f"{percent(self.accepted)} of {self.inputs} known inputs accepted"
        return f"{accepted}; refused of unknown ones: {refused}" if refused else accepted


@dataclass(frozen=True)
class Fitted(Record):
    """How a detector was fitted, and what must be known to score new inputs with it."""

    detector: str  # as in DETECTORS
    settings: dict[str, Any]  # of the detector
    factory: str | None  # of the user's network, `package.module:factory`; None of ours
    network: str  # where it is: "graph" or "weights", each a file of the folder, or "detector"
    why: str | None  # there is no graph of the user's network
    shape: tuple[Count, ...]  # of one input
    kind: str | None  # what a user's network takes: "images", in [0, 1], or "inputs", as they are
    classes: tuple[str, ...]
    encoding: dict[str, Any] | None  # of a table's columns
    data: str  # calibration data
    inputs: Count  # calibration inputs
    learned_from: str | None  # what else was learned from, if anything
    promise: str  # in words
    thresholds: tuple[float, ...]  # one, or one for each class
    provenance: Provenance
    files: dict[str, str] = dataclasses.field(default_factory=dict)  # the folder's others: SHA-256
    digest: str = ""  # of all other fields
    dtype: str = "float32"  # of inputs: "int64" of token ids
    refused: dict[str, Fraction] | None = None  # of each kind of synthetic outliers, where tried
    run: dict[str, Any] | None = None  # of a network of ours: facts of its training data

    @property
    def uncovered(self) -> str:
        """What the promise does not cover, and what was measured of it all the same, in words."""
        if not self.refused:
            return UNCOVERED
        parts = ", ".join(f"{name} {percent(value)}" for name, value in self.refused.items())
        return f"{UNCOVERED}; synthetic outliers rejected: {parts}"

    def sealed(self, files: Mapping[str, str]) -> "Fitted":
        """Return the same with digests: of the folder's other files, and of what it says itself."""
        named = dataclasses.replace(self, files=dict(files))
        return dataclasses.replace(named, digest=named.own_digest())

    def own_digest(self) -> str:
        """Digest of all it says: shows damage, though not a deliberate forgery."""
        body = json.loads(dataclasses.replace(self, digest="").to_json())
        return hashlib.sha256(as_json(body).encode()).hexdigest()


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
