"""How long things took, measured in turns on one machine."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_not_negative
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Timings(Record):
    """Seconds of each round of each piece of work; a round holds all of them, so that a neighbour disturbs all."""

    network: str
    batch: int
    threads: int
    seconds: dict[str, tuple[float, ...]]
    provenance: Provenance

    def __post_init__(self) -> None:
        check_counts(self, "batch", "threads")
        check_not_negative(self, "seconds")
