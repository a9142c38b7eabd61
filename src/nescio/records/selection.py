"""How a setting was chosen: what was tried, and what came of it."""

from dataclasses import dataclass

from nescio.records.checks import (
    check_counts,
    check_not_negative,
    check_shares,
    check_word,
    damaged,
)
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Trial:
    """One value tried; figures are means over the seeds, and None if undefined or not asked for."""

    value: float
    accuracy: float | None  # on validation data
    auroc: float | None
    accuracies: tuple[float, ...]  # one for each seed
    aurocs: tuple[float | None, ...]
    failed: str | None  # why its training came to no end; such a value is never chosen
    seconds: float

    def __post_init__(self) -> None:
        check_shares(self, "accuracy", "auroc", "accuracies", "aurocs")
        check_not_negative(self, "value", "seconds")


@dataclass(frozen=True)
class Selection(Record):
    """A setting chosen by training once, or once for each seed, with every candidate."""

    method: str
    setting: str
    value: float  # the chosen one
    criterion: str  # in words
    measure: str  # the figure of a trial that decided: "accuracy" or "auroc"
    inputs: int  # of the validation data
    trials: tuple[Trial, ...]  # in ascending order of their values
    provenance: Provenance

    def __post_init__(self) -> None:
        check_word(self, "measure", ("accuracy", "auroc"))
        check_counts(self, "inputs")
        if self.trials and all(trial.value != self.value for trial in self.trials):
            damaged(self, "value", "one that was tried")

    @property
    def chosen(self) -> Trial:
        """The trial of the chosen value."""
        return next(trial for trial in self.trials if trial.value == self.value)
