"""How much too sure a model was, and what set it right."""

from dataclasses import dataclass

from nescio.records.checks import check_counts, check_positive, check_shares
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

    def __post_init__(self) -> None:
        check_positive(self, "temperature")
        check_shares(self, "accuracy", "ece_before", "ece_after")
        check_counts(self, "inputs", "draws")
