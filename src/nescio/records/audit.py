"""What a model does far away from its data: along rays and features, by region, and scaled."""

from dataclasses import dataclass
from typing import Annotated

from nescio.records.checks import (
    Checked,
    Count,
    CountFromOne,
    Fraction,
    NonNegative,
    Pair,
    Positive,
    check_lengths,
    check_pairs,
    check_together,
    damaged,
    of_length,
    one_of,
)
from nescio.records.pictures import Points
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Ray(Checked):
    """The confidence in one input as it is scaled by growing factors."""

    factors: tuple[Positive, ...]
    confidence: tuple[Fraction, ...]
    asymptote: tuple[Fraction, ...] | None  # the confidence of the law at infinity
    breakpoints: tuple[Positive, ...] | None  # where the law changes; None if not all were found
    start: Positive | None  # one law holds for all larger factors
    certain_from: Positive | None  # the smallest factor at which the model is certain
    unknown_from: Positive | None  # a kernel model is never certain at larger factors
    limit: Fraction | None  # the confidence at infinity

    def check(self) -> None:
        lists = {"confidence": self.confidence, "asymptote": self.asymptote}
        check_together(self, factors=self.factors, **lists)


@dataclass(frozen=True)
class Audit(Record):
    """Inputs scaled until the model is certain (table 2 of the paper on ReLU overconfidence).

    Fractions are of all trials. What could not be determined is None.
    """

    method: str
    law: Annotated[str, one_of("affine", "kernels", "unknown")]  # how it is proved; or measured
    trials: CountFromOne
    classes: Count
    draws: Count
    drawn: bool  # whether inputs were drawn uniformly in the box, or given
    low: tuple[float, ...] | None  # of the box, flattened; one number if it is the same everywhere
    high: tuple[float, ...] | None
    certain: Fraction  # the confidence that counts as certain
    bold: Fraction  # the confidence that is too much for what is projected back into the box
    eps: Fraction  # the confidence of kernels, or the excess over 1/K, that counts as unknown
    ends_certain: Fraction | None  # rays whose confidence provably → 1
    ends_in: tuple[Count, ...] | None  # of those, how many end in each class
    end_confidence: Annotated[tuple[Fraction, ...] | None, of_length(5)]  # its five quartiles
    reached: Fraction  # trials that become certain at some factor
    at_once: Fraction  # trials that are certain as they are
    median_factor: Positive | None  # at which inputs become certain; None if half never are
    factors: tuple[Positive | None, ...]  # their percentiles, 0 to 100
    proved: Fraction  # of the factors that are exact; the others were found by a scan
    overconfident: Fraction | None  # above `bold` when scaled and projected back into the box
    ends_unknown: Fraction | None  # rays that provably end unknown
    unknown_factor: Positive | None  # median of the factors after which they stay unknown
    unknown_factors: tuple[Positive | None, ...] | None  # percentiles
    unknown_exact: Fraction | None  # of these factors that are exact; the others are upper bounds
    rays: tuple[Ray, ...]
    provenance: Provenance
    budget: Positive | None = None  # seconds that the audit had; None: as many as it took
    unfollowed: Count = 0  # rays without time to follow, whose factors are not proved
    # what `eps` is of: class probabilities or kernels; None if it was not kept
    confidence_kind: Annotated[str | None, one_of("softmax", "kernel", None)] = None
    # above `bold` when projected back at one of many factors, not at that of `factors` alone
    ever_overconfident: Fraction | None = None

    def check(self) -> None:
        if self.ends_in is not None and len(self.ends_in) != self.classes:
            damaged(self, "ends_in", f"{self.classes} of them")


@dataclass(frozen=True)
class CounterExample(Checked):
    """Why a model is not strictly monotonic: a point without slope, or two of opposite slope.

    Slopes are `∂p̄_c/∂x_d` over the mean of `p_c p_k` (other classes k, in draws in which the two
    move apart): for one draw, as a rule, the slope of the log-odds of class c. They have the sign
    of the probability's own, and do not underflow far away.
    """

    feature: Count  # its position in the flattened input
    label: Count  # the class
    points: tuple[tuple[float, ...], ...]  # flattened inputs
    slopes: tuple[float, ...]  # one for each point

    def check(self) -> None:
        check_together(self, points=self.points, slopes=self.slopes)


@dataclass(frozen=True)
class Monotonicity(Record):
    """Whether each class's probability was seen to change in one direction along each feature."""

    method: str
    classes: Count
    draws: Count
    low: tuple[float | None, ...]  # flattened; None where the box has no bound
    high: tuple[float | None, ...]
    partially_unbounded: bool
    points: Count
    features: tuple[Count, ...]  # those looked at
    signs: tuple[tuple[int, ...], ...]  # feature × class: +1 rising, −1 falling, 0 neither
    monotone_features: tuple[Count, ...]
    monotone: bool
    counter_example: CounterExample | None
    provenance: Provenance

    def check(self) -> None:
        check_lengths(self, features=self.features, signs=self.signs)
        check_lengths(self, low=self.low, high=self.high)


@dataclass(frozen=True)
class Reach(Checked):
    """How far rows must be moved until something holds, in units of the feature.

    Quartiles and median are distances that occur, of an even number of rows the smaller ones; None
    where too few rows get there. Rows that are certain as they are do not count, unless all are.
    """

    rows: Fraction  # rows that get there at all
    proved: Fraction  # rows for which provably no smaller distance would do
    lower: NonNegative | None
    median: NonNegative | None
    upper: NonNegative | None
    spreads: NonNegative | None  # the median over the feature's spread; None if that has none

    def check(self) -> None:
        if self.spreads and not self.median:
            damaged(self, "spreads", "none of no distance")


@dataclass(frozen=True)
class FeatureSide(Checked):
    """Rows moved along one feature without end, to lower or to higher values."""

    ends: tuple[Count, ...] | None  # rows that end in each class; None without a law at infinity
    ends_certain: Fraction | None  # rows in which the probability of that class tends to 1
    certain: Reach  # until the model is certain for the first time
    certain_of: tuple[Count, ...]  # rows of `certain` by the class that the model is certain of
    unknown: Reach | None  # until a kernel model stays uncertain; None for others


@dataclass(frozen=True)
class AuditedFeature(Checked):
    """One feature: what the rows hold, and where each side of it leads."""

    name: str
    position: Count
    low: float  # the smallest value in the rows
    high: float
    spread: NonNegative | None  # the standard deviation; None if all rows hold the same
    monotone: bool | None  # as `Monotonicity` in the box of the rows; None if not looked at
    lower: FeatureSide
    higher: FeatureSide


@dataclass(frozen=True)
class FeatureAudit(Record):
    """Where a model ends as rows are moved along one feature, and how far until it is certain."""

    method: str
    rows: Count
    classes: tuple[str, ...]
    draws: Count
    confidence: Fraction  # what counts as certain
    eps: NonNegative | None  # of kernel models: the confidence above the least that is unknown
    already: Fraction  # rows that the model is certain of as they are
    features: tuple[AuditedFeature, ...]
    provenance: Provenance
    budget: Positive | None = None  # seconds that the audit had; None: as many as it took
    unfollowed: Count = 0  # ways of rows without time to follow, whose distances are not proved

    def check(self) -> None:
        for side in (side for feature in self.features for side in (feature.lower, feature.higher)):
            lists = {"ends": side.ends, "certain_of": side.certain_of}
            check_together(side, classes=self.classes, **lists)


@dataclass(frozen=True)
class Cell(Checked):
    """A linear region within a window of the plane."""

    corners: tuple[tuple[float, ...], ...]  # of its polygon in the window, counter-clockwise
    unbounded: bool  # whether the region itself, whatever the window, is unbounded
    label: Count  # the class at the middle of the polygon
    confidence: Fraction  # there

    def check(self) -> None:
        check_pairs(self, "corners", self.corners, least=3)


@dataclass(frozen=True)
class Regions(Record):
    """All linear regions of a network in a window of the plane."""

    method: str
    data: str | None
    features: Annotated[tuple[str, ...], of_length(2)]  # names of the two axes
    classes: tuple[str, ...]  # () if not given
    window: Annotated[tuple[Pair, ...], of_length(2)]  # (left, right), (bottom, top)
    count: Count
    unbounded: Count
    covered: Fraction  # of the window that the polygons, which do not overlap, fill
    cells: tuple[Cell, ...]
    boundary: tuple[
        tuple[Pair, ...], ...
    ]  # segments on which two classes tie for the largest logit
    points: Points | None  # training data
    provenance: Provenance

    def check(self) -> None:
        check_pairs(self, "window", self.window)
        if any(low >= high for low, high in self.window):
            damaged(self, "window", "edges in ascending order")
        for segment in self.boundary:
            check_pairs(self, "boundary", segment, least=2)


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
        for way in self.directions:
            lists = {"confidence": way.confidence, "median_confidence": way.median_confidence}
            check_together(way, factors=self.factors, **lists)
            check_together(way, gauges=self.gauges, scores=way.scores)
            for course in way.scores or ():
                check_together(course, factors=self.factors, mean=course.mean)
