"""What a training run went through, how a setting was chosen, and what was learned after it."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from nescio.records.checks import (
    Checked,
    Count,
    Fraction,
    NonNegative,
    Positive,
    check_lengths,
    damaged,
    one_of,
)
from nescio.records.provenance import Provenance
from nescio.records.record import Record


@dataclass(frozen=True)
class Epoch(Checked):
    """One pass over the training data; validation figures are None without a validation set."""

    epoch: Count
    loss: float
    accuracy: Fraction
    validation_loss: float | None
    validation_accuracy: Fraction | None
    learning_rate: NonNegative
    seconds: NonNegative


@dataclass(frozen=True)
class History(Record):
    """What a training run went through, and why it ended.

    For members trained one after the other, `epochs` are means over those that got so far.
    """

    method: str
    epochs: tuple[Epoch, ...]
    steps: Count
    best_epoch: Count | None
    stopped_early: bool
    provenance: Provenance
    members: tuple["History", ...] = ()

    @classmethod
    def together(cls, members: Sequence["History"], seed: int) -> "History":
        """Return the history of an ensemble whose members were trained one after the other."""
        longest = max(len(member.epochs) for member in members)
        epochs = tuple(
            _mean_epoch([member.epochs[i] for member in members if i < len(member.epochs)])
            for i in range(longest)
        )
        first = members[0].provenance
        seconds = sum(member.provenance.seconds for member in members)
        settings = {**first.settings, "seed": seed}
        origin = dataclasses.replace(first, seed=seed, settings=settings, seconds=seconds)
        stopped = any(member.stopped_early for member in members)
        steps = sum(member.steps for member in members)
        return cls(members[0].method, epochs, steps, None, stopped, origin, tuple(members))


def _mean_epoch(epochs: Sequence[Epoch]) -> Epoch:
    def mean(name: str) -> Any:
        values = [getattr(epoch, name) for epoch in epochs]
        return None if None in values else sum(values) / len(values)

    means = {field.name: mean(field.name) for field in dataclasses.fields(Epoch)}
    seconds = sum(epoch.seconds for epoch in epochs)
    return Epoch(**means | {"epoch": epochs[0].epoch, "seconds": seconds})


@dataclass(frozen=True)
class Trial(Checked):
    """One value tried; figures are means over the seeds, and None if undefined or not needed."""

    value: NonNegative
    accuracy: Fraction | None  # on validation data
    auroc: Fraction | None
    accuracies: tuple[Fraction, ...]  # one for each seed
    aurocs: tuple[Fraction | None, ...]
    failed: str | None  # why its training failed; such a value is never chosen
    seconds: NonNegative


@dataclass(frozen=True)
class Selection(Record):
    """A setting chosen by training once, or once for each seed, with every candidate."""

    NEEDED: ClassVar = ("trials",)

    method: str
    setting: str
    value: float  # the chosen one
    criterion: str  # in words
    measure: Annotated[str, one_of("accuracy", "auroc")]  # the figure of a trial that decided
    inputs: Count  # of the validation data
    trials: tuple[Trial, ...]  # in ascending order of their values
    provenance: Provenance

    def check(self) -> None:
        if self.trials and all(trial.value != self.value for trial in self.trials):
            damaged(self, "value", "one that was tried")

    @property
    def chosen(self) -> Trial:
        """The trial of the chosen value."""
        return next(trial for trial in self.trials if trial.value == self.value)


@dataclass(frozen=True)
class Temperature(Record):
    """A temperature found on calibration data, and its effect there; accuracy stays the same.

    >>> nescio.TemperatureScaled(net).fit(known.test).record.temperature > 0
    True
    """

    temperature: Positive
    accuracy: Fraction
    nll_before: float
    nll_after: float
    ece_before: Fraction
    ece_after: Fraction
    inputs: Count
    draws: Count
    provenance: Provenance


@dataclass(frozen=True)
class MetaWeights(Record):
    """Weights of a meta-classifier over standardised features; positive: less trust."""

    kind: str
    features: tuple[str, ...]
    weights: tuple[float, ...] | None  # None of a network, where no feature has one weight
    strength: float | None  # scikit-learn's C, where one was chosen
    right: Count  # answers it learned from
    wrong: Count
    unknown: dict[str, Count]  # inputs of each set of known unknowns
    provenance: Provenance

    def check(self) -> None:
        check_lengths(self, features=self.features, weights=self.weights)
