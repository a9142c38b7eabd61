"""How long things took, measured in turns on one machine."""

from dataclasses import dataclass

from nescio.records.checks import Count, NonNegative
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Timings(Record):
    """Seconds of each round of each piece of work; a round holds all of them, so that a neighbour disturbs all."""

    network: str
    batch: Count
    threads: Count
    seconds: dict[str, tuple[NonNegative, ...]]
    provenance: Provenance
