"""A fitted detector: how it was fitted, what it promises, and what it does on test data."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from nescio.metrics.percent import percent
from nescio.records.checks import Checked, Count, Fraction, of_length
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
    promise: str | None  # in words; None of a detector that was loaded
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
