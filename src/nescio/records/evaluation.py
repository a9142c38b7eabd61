"""A model judged: on known data, and on data it should not know."""

from dataclasses import dataclass

from nescio.metrics.percent import percent
from nescio.records.checks import (
    check_counts,
    check_not_negative,
    check_positive,
    check_shares,
    check_together,
)
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Separation:
    """How well a score tells known from unknown; larger score = less known. Undefined figures are None."""

    score: str
    auroc: float | None
    aupr_in: float | None
    aupr_out: float | None
    fpr95: float | None

    def __post_init__(self) -> None:
        check_shares(self, "auroc", "aupr_in", "aupr_out", "fpr95")


@dataclass(frozen=True)
class Rejection:
    """Accuracy of what is kept when the least known share is rejected; unknown inputs always count as wrong."""

    score: str
    rejected: tuple[float, ...]
    accuracy: tuple[float, ...]
    maximum: tuple[float, ...]  # of a perfect model that rejects every unknown input first
    area: float
    maximum_area: float

    def __post_init__(self) -> None:
        check_shares(self, "rejected", "accuracy", "maximum", "area", "maximum_area")
        check_positive(self, "maximum_area")
        check_together(self, rejected=self.rejected, accuracy=self.accuracy, maximum=self.maximum)


@dataclass(frozen=True)
class Roc:
    """Shares of inputs accepted by a score as its threshold rises; the area under the curve is AUROC.

    Known inputs are the positives, as in the papers: it is 1 if every known one is more certain than every unknown one.
    """

    score: str
    unknown: tuple[float, ...]  # false-positive rate
    known: tuple[float, ...]  # true-positive rate

    def __post_init__(self) -> None:
        check_shares(self, "unknown", "known")
        check_together(self, unknown=self.unknown, known=self.known)


@dataclass(frozen=True)
class Histogram:
    """How many inputs of each set fall between the edges of a score, or of the confidence."""

    score: str
    edges: tuple[float, ...]
    counts: dict[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        check_counts(self, "counts")
        check_together(self, counts=self.counts)
        check_together(
            self,
            edges=self.edges[1:],
            **{f"counts of {name}": one for name, one in self.counts.items()},
        )


@dataclass(frozen=True)
class Reliability:
    """How often answers of a confidence between two edges are right; what has no input has None. See `metrics.ece`."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    confidence: tuple[float | None, ...]  # mean
    accuracy: tuple[float | None, ...]

    def __post_init__(self) -> None:
        check_counts(self, "counts")
        check_shares(self, "edges", "confidence", "accuracy")
        lists = {"counts": self.counts, "confidence": self.confidence, "accuracy": self.accuracy}
        check_together(self, edges=self.edges[1:], **lists)


@dataclass(frozen=True)
class KnownSide:
    """The model on data of the kinds it was trained on."""

    name: str
    inputs: int
    accuracy: float
    mmc: float
    nll: float
    brier: float
    ece: float
    misclassification: tuple[Separation, ...]  # correct against wrong
    rejection: tuple[Rejection, ...]
    reliability: Reliability | None = None  # in records from before it was kept

    def __post_init__(self) -> None:
        check_counts(self, "inputs")
        check_shares(self, "accuracy", "mmc", "ece")
        check_not_negative(self, "brier")


@dataclass(frozen=True)
class Against:
    """An attack that made unknown data for the model itself; see `nescio.core.attacks.Attack`."""

    tried: int  # inputs it was tried on; perhaps only those that ended in a wrong class are judged
    objective: str
    eps: float
    steps: int
    step_size: float
    norm: str
    random_start: bool
    restarts: int
    adaptive: bool

    def __post_init__(self) -> None:
        check_counts(self, "tried", least=1)
        check_counts(self, "steps", "restarts")
        check_not_negative(self, "eps", "step_size")


@dataclass(frozen=True)
class UnknownSide:
    """The model on data it should not know."""

    name: str
    inputs: int
    mmc: float
    separation: tuple[Separation, ...]
    rejection: tuple[Rejection, ...]
    roc: tuple[Roc, ...] = ()  # empty in records from before it was kept
    attack: Against | None = None

    def __post_init__(self) -> None:
        check_counts(self, "inputs")
        check_shares(self, "mmc")


@dataclass(frozen=True)
class Evaluation(Record):
    """A model or detector on known data and on named sets of unknown data."""

    method: str
    score: str  # the one the method is paired with
    classes: int
    draws: int
    known: KnownSide
    unknown: tuple[UnknownSide, ...]
    histograms: tuple[Histogram, ...]
    provenance: Provenance
    confidence: Histogram | None = (
        None  # over [0, 1], of what the method says; None in records from before it was kept
    )

    def __post_init__(self) -> None:
        check_counts(self, "classes", "draws")

    def headline(self) -> str:
        known = f"{percent(self.known.accuracy)} of {self.known.inputs} inputs of {self.known.name} right"
        found = {
            side.name: one.auroc
            for side in self.unknown
            for one in side.separation
            if one.score == self.score
        }
        told = ", ".join(
            f"{name} {'–' if auroc is None else f'{auroc:.3f}'}" for name, auroc in found.items()
        )
        return f"{known}; AUROC by {self.score}: {told}" if told else known
