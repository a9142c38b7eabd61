"""What a model says over the plane."""

from dataclasses import dataclass
from typing import Annotated

from nescio.records.checks import Checked, Count, check_lengths, damaged, of_length
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Surface(Checked):
    """A quantity and the norm of its gradient over a grid; `[i][j]` is at `(x[j], y[i])`."""

    name: str  # a score, or "confidence"
    label: str  # what it is on the scale it is given on
    values: tuple[tuple[float, ...], ...]
    slopes: tuple[tuple[float, ...], ...]  # ‖∇ₓ value‖₂, which vanishes where a model saturates

    def check(self) -> None:
        check_lengths(self, values=self.values, slopes=self.slopes)


@dataclass(frozen=True)
class Points(Checked):
    """Training points in the plane, with the numbers of their classes."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    labels: tuple[Count, ...]

    def check(self) -> None:
        check_lengths(self, x=self.x, y=self.y, labels=self.labels)


@dataclass(frozen=True)
class Map(Record):
    """What a model says over the plane, around its training data and far beyond."""

    method: str
    data: str
    draws: Count
    features: Annotated[tuple[str, ...], of_length(0, 2)]  # names of the two axes
    classes: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    scores: tuple[Surface, ...]  # those that compare draws only if there are several
    confidence: Surface
    points: Points
    provenance: Provenance

    def check(self) -> None:
        if any(not -1e-6 <= value <= 1 + 1e-6 for row in self.confidence.values for value in row):
            damaged(self.confidence, "values", "fractions in [0, 1]")
