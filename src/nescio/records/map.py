"""What a model says over the plane."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_lengths, check_shares, check_size
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Surface:
    """A quantity over the grid of a map and the norm of its gradient, to five digits; `[i][j]` is at `(x[j], y[i])`."""

    name: str  # a score, or "confidence"
    label: str  # what it is on the scale it is given on
    values: tuple[tuple[float, ...], ...]
    slopes: tuple[tuple[float, ...], ...]  # ‖∇ₓ value‖₂, which dies away where a model saturates

    def __post_init__(self) -> None:
        check_lengths(self, values=self.values, slopes=self.slopes)


@dataclass(frozen=True)
class Points:
    """Training points in the plane, with the numbers of their classes."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        check_lengths(self, x=self.x, y=self.y, labels=self.labels)
        check_counts(self, "labels")


@dataclass(frozen=True)
class Map(Record):
    """What a model says over the plane, around its training data and far beyond."""

    method: str
    data: str
    draws: int
    features: tuple[str, ...]  # names of the two axes
    classes: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    scores: tuple[Surface, ...]  # those that compare draws only if there are several
    confidence: Surface
    points: Points
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "draws")
        check_size(self, "features", 0, 2)
        check_shares(self.confidence, "values")
