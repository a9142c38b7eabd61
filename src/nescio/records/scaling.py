"""What a model's confidence and scores do as inputs are scaled (theorem 1, *Know your limits*)."""

from dataclasses import dataclass

from nescio.records.checks import Checked, Count, Fraction, NonNegative, Positive, check_together
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Gauge(Checked):
    """A score, its natural scale, and the threshold that accepts 95 % of the inputs as they are."""

    score: str
    label: str
    threshold: float


@dataclass(frozen=True)
class Course(Checked):
    """A score and its gradient in x, factor by factor, over the inputs that move."""

    score: str
    mean: tuple[float, ...]
    gradient_mean: tuple[NonNegative, ...]  # of ‖∇ₓ score‖₂
    gradient_largest: tuple[NonNegative, ...]
    flagged: tuple[Fraction, ...]  # of the inputs, above the threshold
    notices: bool  # whether at least half are flagged at the largest factor

    def check(self) -> None:
        slopes = {"gradient_mean": self.gradient_mean, "gradient_largest": self.gradient_largest}
        check_together(self, mean=self.mean, **slopes, flagged=self.flagged)


@dataclass(frozen=True)
class Direction(Checked):
    """Inputs moved along one feature, or scaled from 0; figures are None if none moves."""

    name: str
    feature: Count | None  # its position in the flattened input; None if the input is scaled
    moved: Count  # inputs that are not 0 there, and so can be moved by a factor
    certain_from: Positive | None  # the median input's confidence exceeds 99.9 % from here on
    confidence: tuple[Fraction, ...] | None  # mean, factor by factor
    median_confidence: tuple[Fraction, ...] | None
    scores: tuple[Course, ...] | None


@dataclass(frozen=True)
class Scaling(Record):
    """What a model's confidence and scores do as inputs are scaled by growing factors."""

    method: str
    inputs: Count
    classes: Count
    draws: Count
    factors: tuple[Positive, ...]
    gauges: tuple[Gauge, ...]
    directions: tuple[Direction, ...]
    provenance: Provenance

    def check(self) -> None:
        check_together(self, factors=self.factors)
        check_together(self, gauges=self.gauges)
        for one in self.directions:
            lists = {"confidence": one.confidence, "median_confidence": one.median_confidence}
            check_together(one, factors=self.factors, **lists)
            check_together(one, gauges=self.gauges, scores=one.scores)
            for course in one.scores or ():
                check_together(course, factors=self.factors, mean=course.mean)
