"""Images, and what attacks on several models make of them."""

from dataclasses import dataclass

from nescio.records.checks import check_image, check_lengths, check_shares, check_word
from nescio.records.record import Provenance, Record

Image = tuple[
    tuple[tuple[float, ...], ...], ...
]  # channels × rows × columns, in [0, 1], to three digits


@dataclass(frozen=True)
class GalleryRow:
    """What an attack on one model made of each image, and what the model says of it."""

    name: str
    images: tuple[Image, ...]
    answers: tuple[str, ...]  # the class it gives each
    confidence: tuple[float, ...]
    confidence_before: tuple[float, ...]  # in the images that the attack started from

    def __post_init__(self) -> None:
        check_shares(self, "confidence", "confidence_before")
        for image in self.images:
            check_image(self, "images", image)


@dataclass(frozen=True)
class Gallery(Record):
    """Images that attacks start from, and for each model a row of what they end in."""

    data: str  # what the models know
    start: str  # "noise" or "samples"
    images: tuple[Image, ...]
    kinds: tuple[str, ...]  # of each image: what noise it is or, of a sample, its class
    rows: tuple[GalleryRow, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        check_word(self, "start", ("noise", "samples"))
        for image in self.images:
            check_image(self, "images", image)
        for row in self.rows:
            said = {
                "answers": row.answers,
                "confidence": row.confidence,
                "confidence_before": row.confidence_before,
            }
            check_lengths(row, kinds=self.kinds, images=row.images, **said)
        check_lengths(self, images=self.images, kinds=self.kinds)
