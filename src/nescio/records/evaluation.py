"""A model evaluated: on known data, and on data it should not know."""

from dataclasses import dataclass

from nescio.metrics.percent import percent
from nescio.records.checks import (
    Checked,
    Count,
    CountFromOne,
    Fraction,
    NonNegative,
    PositiveFraction,
    check_together,
)
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Separation(Checked):
    """How well a score separates known from unknown inputs. Undefined figures are None."""

    score: str
    auroc: Fraction | None
    aupr_in: Fraction | None
    aupr_out: Fraction | None
    fpr95: Fraction | None


@dataclass(frozen=True)
class Rejection(Checked):
    """Accuracy of what is kept when inputs are rejected; unknown inputs always count as wrong."""

    score: str
    rejected: tuple[Fraction, ...]
    accuracy: tuple[Fraction, ...]
    maximum: tuple[Fraction, ...]  # of a perfect model that rejects every unknown input first
    area: Fraction
    maximum_area: PositiveFraction

    def check(self) -> None:
        curves = {"accuracy": self.accuracy, "maximum": self.maximum}
        check_together(self, rejected=self.rejected, **curves)


@dataclass(frozen=True)
class Roc(Checked):
    """Fractions of inputs accepted by a score as its threshold rises; known is positive."""

    score: str
    unknown: tuple[Fraction, ...]  # false-positive rate
    known: tuple[Fraction, ...]  # true-positive rate

    def check(self) -> None:
        check_together(self, unknown=self.unknown, known=self.known)


@dataclass(frozen=True)
class Histogram(Checked):
    """How many inputs of each set fall between the edges of a score, or of the confidence."""

    score: str
    edges: tuple[float, ...]
    counts: dict[str, tuple[Count, ...]]

    def check(self) -> None:
        check_together(self, counts=self.counts)
        named = {f"counts of {name}": counts for name, counts in self.counts.items()}
        check_together(self, edges=self.edges[1:], **named)


@dataclass(frozen=True)
class Reliability(Checked):
    """Accuracy of answers whose confidence lies between two edges; None without inputs."""

    edges: tuple[Fraction, ...]
    counts: tuple[Count, ...]
    confidence: tuple[Fraction | None, ...]  # mean
    accuracy: tuple[Fraction | None, ...]

    def check(self) -> None:
        means = {"confidence": self.confidence, "accuracy": self.accuracy}
        check_together(self, edges=self.edges[1:], counts=self.counts, **means)


@dataclass(frozen=True)
class KnownSide(Checked):
    """The model on data of the classes it was trained on."""

    name: str
    inputs: Count
    accuracy: Fraction
    mmc: Fraction
    nll: float
    brier: NonNegative
    ece: Fraction
    misclassification: tuple[Separation, ...]  # correct against wrong
    rejection: tuple[Rejection, ...]
    reliability: Reliability | None = None


@dataclass(frozen=True)
class Against(Checked):
    """An attack that made unknown data for the model itself; see `nescio.attacks.Attack`."""

    tried: CountFromOne  # inputs; perhaps only those that ended in a wrong class are evaluated
    objective: str
    eps: NonNegative
    steps: Count
    step_size: NonNegative
    norm: str
    random_start: bool
    restarts: Count
    adaptive: bool
    targets: Count = 0
    known_starts: Count = 0


@dataclass(frozen=True)
class UnknownSide(Checked):
    """The model on data it should not know."""

    name: str
    inputs: Count
    mmc: Fraction
    separation: tuple[Separation, ...]
    rejection: tuple[Rejection, ...]
    roc: tuple[Roc, ...] = ()
    attack: Against | None = None


@dataclass(frozen=True)
class Evaluation(Record):
    """A model or detector on known data and on named sets of unknown data."""

    method: str
    score: str  # the one the method is paired with
    classes: Count
    draws: Count
    known: KnownSide
    unknown: tuple[UnknownSide, ...]
    histograms: tuple[Histogram, ...]
    provenance: Provenance
    confidence: Histogram | None = None  # over [0, 1]

    def headline(self) -> str:
        known = self.known
        accuracy = f"accuracy {percent(known.accuracy)} on {known.inputs} inputs of {known.name}"
        aurocs = [
            f"{side.name} {'–' if result.auroc is None else f'{result.auroc:.3f}'}"
            for side in self.unknown
            for result in side.separation
            if result.score == self.score
        ]
        return f"{accuracy}; AUROC by {self.score}: {', '.join(aurocs)}" if aurocs else accuracy
