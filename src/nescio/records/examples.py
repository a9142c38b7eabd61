"""The inputs that a model is surest and least sure of."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_image, check_lengths, check_shares, check_size
from nescio.records.gallery import Image
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Example:
    """One input, and what the model says of it."""

    number: int  # its place in its set, from 0
    answer: str  # the class given
    truth: str | None  # its class; None if it has none that the model knows
    confidence: float
    score: float  # larger = less known
    image: Image | None  # small, and grey or in colour; None of other inputs
    span: (
        tuple[float, ...] | None
    )  # least and largest value where they leave [0, 1]; the image is stretched from them
    values: tuple[float, ...] | None  # of a table's row, in its own units

    def __post_init__(self) -> None:
        check_counts(self, "number")
        check_shares(self, "confidence")
        check_image(self, "image", self.image)
        check_size(self, "span", 2)


@dataclass(frozen=True)
class ExampleSet:
    """Some inputs of one set of data."""

    name: str
    inputs: int  # in the whole set
    surest: tuple[Example, ...]  # the surest first
    unsure: tuple[Example, ...]  # the least sure first; none is among the surest

    def __post_init__(self) -> None:
        check_counts(self, "inputs")


@dataclass(frozen=True)
class Examples(Record):
    """Inputs at both ends of a score, of known data and of unknown sets."""

    method: str
    score: str  # what they are ranked by
    features: tuple[str, ...]  # names of what `values` hold, () of images
    left_out: int  # further features, which are not kept
    known: ExampleSet
    unknown: tuple[ExampleSet, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "left_out")
        for one in (self.known, *self.unknown):
            for example in (*one.surest, *one.unsure):
                check_lengths(example, features=self.features, values=example.values)
