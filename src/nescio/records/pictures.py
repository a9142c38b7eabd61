"""What is drawn: inputs of highest and lowest confidence, images under attack, and maps."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from nescio.records.checks import (
    Checked,
    Count,
    Fraction,
    check_image,
    check_lengths,
    damaged,
    of_length,
    one_of,
)
from nescio.records.provenance import Provenance
from nescio.records.record import Record

Image = tuple[tuple[tuple[float, ...], ...], ...]  # channels × rows × columns, in [0, 1]


@dataclass(frozen=True)
class Example(Checked):
    """One input, and what the model says of it."""

    number: Count  # its place in its set, from 0
    answer: str  # the predicted class
    truth: str | None  # its class; None if it has none that the model knows
    confidence: Fraction
    score: float  # higher = more likely unknown
    image: Image | None  # small, and grey or in colour; None of other inputs
    span: Annotated[tuple[float, ...] | None, of_length(2)]  # range of values that leave [0, 1]
    values: tuple[float, ...] | None  # of a table's row, in its own units

    def check(self) -> None:
        check_image(self, "image", self.image)


@dataclass(frozen=True)
class ExampleSet(Checked):
    """Some inputs of one set of data."""

    name: str
    inputs: Count  # in the whole set
    surest: tuple[Example, ...]  # the most certain first
    unsure: tuple[Example, ...]  # the least certain first; none is among the surest


@dataclass(frozen=True)
class Examples(Record):
    """Inputs at both ends of a score, of known data and of unknown sets."""

    method: str
    score: str  # what they are ranked by
    features: tuple[str, ...]  # names of what `values` hold, () of images
    left_out: Count  # further features, which are not kept
    known: ExampleSet
    unknown: tuple[ExampleSet, ...]
    provenance: Provenance

    def check(self) -> None:
        for group in (self.known, *self.unknown):
            for example in (*group.surest, *group.unsure):
                check_lengths(example, features=self.features, values=example.values)


@dataclass(frozen=True)
class GalleryRow(Checked):
    """What an attack on one model made of each image, and what the model says of it."""

    name: str
    images: tuple[Image, ...]
    answers: tuple[str, ...]  # the class predicted for each
    confidence: tuple[Fraction, ...]
    confidence_before: tuple[Fraction, ...]  # in the images that the attack started from

    def check(self) -> None:
        for image in self.images:
            check_image(self, "images", image)


@dataclass(frozen=True)
class Gallery(Record):
    """Images that attacks start from, and for each model a row of what they end in."""

    OF_MODEL: ClassVar = False

    data: str  # what the models know
    start: Annotated[str, one_of("noise", "samples")]
    images: tuple[Image, ...]
    kinds: tuple[str, ...]  # of each image: what noise it is or, of a sample, its class
    rows: tuple[GalleryRow, ...]
    provenance: Provenance

    def check(self) -> None:
        for image in self.images:
            check_image(self, "images", image)
        check_lengths(self, images=self.images, kinds=self.kinds)
        for row in self.rows:
            sure = {"confidence": row.confidence, "confidence_before": row.confidence_before}
            check_lengths(row, kinds=self.kinds, images=row.images, answers=row.answers, **sure)


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
