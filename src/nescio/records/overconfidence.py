"""How certain a model is on the way to infinity."""

from dataclasses import dataclass

from nescio.records.checks import (
    check_counts,
    check_positive,
    check_shares,
    check_size,
    check_together,
    check_word,
)
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Ray:
    """The confidence in one input as it is scaled by growing factors."""

    factors: tuple[float, ...]
    confidence: tuple[float, ...]
    asymptote: (
        tuple[float, ...] | None
    )  # the confidence that the law at infinity would have at these factors
    breakpoints: (
        tuple[float, ...] | None
    )  # factors at which the network changes its law; None if not all were found
    start: float | None  # the factor from which on one law holds for ever
    certain_from: float | None  # the smallest factor at which the model is certain
    unknown_from: float | None  # the factor after which a model of kernels never is certain again
    limit: float | None  # the confidence at infinity

    def __post_init__(self) -> None:
        check_positive(self, "factors", "breakpoints", "start", "certain_from", "unknown_from")
        check_shares(self, "confidence", "asymptote", "limit")
        check_together(
            self, factors=self.factors, confidence=self.confidence, asymptote=self.asymptote
        )


@dataclass(frozen=True)
class Audit(Record):
    """Table 2 of *Why ReLU networks yield high-confidence predictions far away*: inputs scaled until all is certain.

    Shares are of all trials. What could not be told is None.
    """

    method: str
    law: str  # "affine": proved by laws at infinity; "kernels": by the distance to centroids; "unknown": only measured
    trials: int
    classes: int
    draws: int
    drawn: bool  # whether inputs were drawn uniformly in the box, or given
    low: tuple[float, ...] | None  # of the box, flattened; one number if it is the same everywhere
    high: tuple[float, ...] | None
    certain: float  # the confidence that counts as certain
    bold: float  # the confidence that counts as too much for what is projected back into the box
    eps: float  # the confidence, of kernels, or what is above 1/K, that counts as not knowing
    ends_certain: float | None  # share of rays that are proved to end at confidence 1
    ends_in: tuple[int, ...] | None  # of those, how many end in each class
    end_confidence: tuple[float, ...] | None  # its least, quartiles and largest at infinity
    reached: float  # share that become certain at some factor
    at_once: float  # share that are certain as they are
    median_factor: (
        float | None
    )  # of the smallest factors at which inputs are certain; None if half never are
    factors: tuple[float | None, ...]  # their percentiles, 0 to 100
    proved: float  # share of the factors that are exact; the others were found by a scan
    overconfident: (
        float | None
    )  # share above `bold` when scaled by their factor and projected back into the box
    ends_unknown: float | None  # share of rays that are proved to end not knowing
    unknown_factor: (
        float | None
    )  # median of the factors after which they never know again; None if half go on
    unknown_factors: tuple[float | None, ...] | None  # percentiles
    unknown_exact: (
        float | None
    )  # share of these factors that are exact; the others are late enough for sure
    rays: tuple[Ray, ...]
    provenance: Provenance
    budget: float | None = None  # seconds that the audit had; None: as many as it took
    unfollowed: int = 0  # rays that it left no time to follow, so that their factors are not proved

    def __post_init__(self) -> None:
        check_word(self, "law", ("affine", "kernels", "unknown"))
        check_counts(self, "trials", least=1)
        check_counts(self, "classes", "draws", "ends_in", "unfollowed")
        shares = (
            "certain",
            "bold",
            "eps",
            "ends_certain",
            "end_confidence",
            "reached",
            "at_once",
            "proved",
        )
        check_shares(self, *shares, "overconfident", "ends_unknown", "unknown_exact")
        check_size(self, "end_confidence", 5)
        check_size(self, "ends_in", self.classes)
        check_positive(
            self, "median_factor", "factors", "unknown_factor", "unknown_factors", "budget"
        )
