"""How much too sure a model was, and what set it right."""

from dataclasses import dataclass

from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Temperature(Record):
    """A temperature found on held-out data, and its effect on these; classes, and so accuracy, stay the same."""

    temperature: float
    accuracy: float
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    inputs: int
    draws: int
    provenance: Provenance
