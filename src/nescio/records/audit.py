"""What a model does far away from its data."""

from dataclasses import dataclass

from nescio.records.checks import (
    check_counts,
    check_lengths,
    check_not_negative,
    check_pairs,
    check_positive,
    check_shares,
    check_size,
    check_together,
    damaged,
)
from nescio.records.map import Points
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Gauge:
    """A score, what it is on its natural scale, and the threshold that accepts 95 % of the inputs as they are."""

    score: str
    label: str
    threshold: float


@dataclass(frozen=True)
class Course:
    """A score and its gradient in x, factor by factor, over the inputs that move."""

    score: str
    mean: tuple[float, ...]
    gradient_mean: tuple[float, ...]  # of ‖∇ₓ score‖₂
    gradient_largest: tuple[float, ...]
    flagged: tuple[float, ...]  # share of the inputs above the threshold
    notices: bool  # whether at least half are flagged at the largest factor

    def __post_init__(self) -> None:
        check_shares(self, "flagged")
        check_not_negative(self, "gradient_mean", "gradient_largest")
        slopes = {"gradient_mean": self.gradient_mean, "gradient_largest": self.gradient_largest}
        check_together(self, mean=self.mean, **slopes, flagged=self.flagged)


@dataclass(frozen=True)
class Direction:
    """Inputs moved along one feature, or along the rays from 0 through each of them; figures are None if none moves."""

    name: str
    feature: int | None  # its position in the flattened input; None for rays
    moved: int  # inputs that are not 0 there, and so can be moved by a factor
    certain_from: (
        float | None
    )  # from here on the median input's confidence exceeds 99.9 %; None if it never does
    confidence: tuple[float, ...] | None  # mean, factor by factor
    median_confidence: tuple[float, ...] | None
    scores: tuple[Course, ...] | None

    def __post_init__(self) -> None:
        check_counts(self, "feature", "moved")
        check_shares(self, "confidence", "median_confidence")
        check_positive(self, "certain_from")


@dataclass(frozen=True)
class Scaling(Record):
    """What a model's confidence and scores do as inputs are scaled by growing factors."""

    method: str
    inputs: int
    classes: int
    draws: int
    factors: tuple[float, ...]
    gauges: tuple[Gauge, ...]
    directions: tuple[Direction, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "inputs", "classes", "draws")
        check_positive(self, "factors")
        check_together(self, factors=self.factors)
        check_together(self, gauges=self.gauges)
        for one in self.directions:
            lists = {"confidence": one.confidence, "median_confidence": one.median_confidence}
            check_together(one, factors=self.factors, **lists)
            check_together(one, gauges=self.gauges, scores=one.scores)
            for course in one.scores or ():
                check_together(course, factors=self.factors, mean=course.mean)


@dataclass(frozen=True)
class CounterExample:
    """Why a model is not strictly monotonic: one point without a slope, or two points with slopes of opposite sign."""

    feature: int  # its position in the flattened input
    label: int  # the class
    points: tuple[tuple[float, ...], ...]  # flattened inputs
    slopes: tuple[float, ...]  # one for each point

    def __post_init__(self) -> None:
        check_counts(self, "feature", "label")
        check_together(self, points=self.points, slopes=self.slopes)


@dataclass(frozen=True)
class Monotonicity(Record):
    """Whether each class's probability was seen to change in one direction only along each feature of a box."""

    method: str
    classes: int
    draws: int
    low: tuple[float | None, ...]  # flattened; None where the box has no bound
    high: tuple[float | None, ...]
    partially_unbounded: bool
    points: int
    features: tuple[int, ...]  # those looked at
    signs: tuple[
        tuple[int, ...], ...
    ]  # of each feature × class: +1 rising, −1 falling, 0 not seen to be strictly so
    monotone_features: tuple[int, ...]
    monotone: bool
    counter_example: CounterExample | None
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "classes", "draws", "points", "features", "monotone_features")
        check_lengths(self, features=self.features, signs=self.signs)
        check_lengths(self, low=self.low, high=self.high)


@dataclass(frozen=True)
class Reach:
    """How far rows have to be moved until something holds, in units of the feature; None where too few get there.

    The quartiles and the median are distances that occur, of an even number of rows the smaller ones. Of certainty they
    are those of the rows that are not certain as they are, if there is one.
    """

    rows: float  # share of the rows that get there at all
    proved: float  # share of the rows of which it is proved that no smaller distance would do
    lower: float | None
    median: float | None
    upper: float | None
    spreads: float | None  # the median over the feature's spread; None if that has none

    def __post_init__(self) -> None:
        check_shares(self, "rows", "proved")
        check_not_negative(self, "lower", "median", "upper", "spreads")
        if self.spreads and not self.median:
            damaged(self, "spreads", "none of no distance")


@dataclass(frozen=True)
class FeatureSide:
    """Rows moved along one feature, to lower or to higher values, for ever."""

    ends: (
        tuple[int, ...] | None
    )  # how many rows end in each class; None if the model has no law at infinity
    ends_certain: (
        float | None
    )  # share of the rows in which the probability of that class tends to 1
    certain: Reach  # until the model is certain for the first time
    certain_of: tuple[
        int, ...
    ]  # of how many of the rows that `certain` is of it then claims each class
    unknown: Reach | None  # until a model of kernels stays uncertain for ever; None for others

    def __post_init__(self) -> None:
        check_counts(self, "ends", "certain_of")
        check_shares(self, "ends_certain")


@dataclass(frozen=True)
class AuditedFeature:
    """One feature: what the rows hold, and where each side of it leads."""

    name: str
    position: int
    low: float  # the smallest value in the rows
    high: float
    spread: float | None  # the standard deviation; None if all rows hold the same
    monotone: bool | None  # as `Monotonicity` in the box of the rows; None if it was not looked at
    lower: FeatureSide
    higher: FeatureSide

    def __post_init__(self) -> None:
        check_counts(self, "position")
        check_not_negative(self, "spread")


@dataclass(frozen=True)
class FeatureAudit(Record):
    """Where a model ends as the rows of a table are moved along one feature, and how far it is until it is certain."""

    method: str
    rows: int
    classes: tuple[str, ...]
    draws: int
    confidence: float  # what counts as certain
    eps: (
        float | None
    )  # a model of kernels does not know where its confidence exceeds its least by less; else None
    already: float  # share of the rows that the model is certain of as they are
    features: tuple[AuditedFeature, ...]
    provenance: Provenance
    budget: float | None = None  # seconds that the audit had; None: as many as it took
    unfollowed: int = (
        0  # ways of rows that it left no time to follow, so that their distances are not proved
    )

    def __post_init__(self) -> None:
        check_counts(self, "rows", "draws", "unfollowed")
        check_positive(self, "budget")
        check_shares(self, "confidence", "already")
        check_not_negative(self, "eps")
        for side in (side for one in self.features for side in (one.lower, one.higher)):
            check_together(side, classes=self.classes, ends=side.ends, certain_of=side.certain_of)


@dataclass(frozen=True)
class Cell:
    """A linear region within a window of the plane."""

    corners: tuple[tuple[float, ...], ...]  # of its polygon in the window, counter-clockwise
    unbounded: bool  # whether the region itself, whatever the window, goes on for ever
    label: int  # the class at the middle of the polygon
    confidence: float  # there

    def __post_init__(self) -> None:
        check_pairs(self, "corners", self.corners, least=3)
        check_counts(self, "label")
        check_shares(self, "confidence")


@dataclass(frozen=True)
class Regions(Record):
    """All linear regions of a network in a window of the plane."""

    method: str
    data: str | None
    features: tuple[str, ...]  # names of the two axes
    classes: tuple[str, ...]  # () if not told
    window: tuple[tuple[float, ...], ...]  # (left, right), (bottom, top)
    count: int
    unbounded: int  # how many go on for ever
    covered: (
        float  # share of the window that the polygons, which do not overlap, fill; 1 up to rounding
    )
    cells: tuple[Cell, ...]
    boundary: tuple[
        tuple[tuple[float, ...], ...], ...
    ]  # segments on which two classes tie for the largest logit
    points: Points | None  # training data
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "count", "unbounded")
        check_shares(self, "covered")
        check_size(self, "features", 2)
        check_size(self, "window", 2)
        check_pairs(self, "window", self.window)
        if any(low >= high for low, high in self.window):
            damaged(self, "window", "edges in ascending order")
        for segment in self.boundary:
            check_pairs(self, "boundary", segment, least=2)
