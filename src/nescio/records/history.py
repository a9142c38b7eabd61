"""What a training run went through."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nescio.records.checks import check_counts, check_not_negative, check_shares
from nescio.records.record import Provenance, Record


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data; validation figures are None without a validation set."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    learning_rate: float
    seconds: float

    def __post_init__(self) -> None:
        check_counts(self, "epoch")
        check_shares(self, "accuracy", "validation_accuracy")
        check_not_negative(self, "learning_rate", "seconds")


@dataclass(frozen=True)
class History(Record):
    """What a training run went through, and why it ended.

    Of members trained one after the other, `epochs` are the means, over those that got so far, and `members` tell more.
    """

    method: str
    epochs: tuple[Epoch, ...]
    steps: int
    best_epoch: int | None
    stopped_early: bool
    provenance: Provenance
    members: tuple["History", ...] = ()

    def __post_init__(self) -> None:
        check_counts(self, "steps", "best_epoch")

    @classmethod
    def together(cls, members: Sequence["History"], seed: int) -> "History":
        """The history of an ensemble whose members were trained one after the other."""
        longest = max(len(member.epochs) for member in members)
        epochs = [
            [member.epochs[i] for member in members if i < len(member.epochs)]
            for i in range(longest)
        ]
        first = members[0].provenance
        seconds = sum(member.provenance.seconds for member in members)
        origin = dataclasses.replace(
            first, seed=seed, settings={**first.settings, "seed": seed}, seconds=seconds
        )
        stopped = any(member.stopped_early for member in members)
        steps = sum(member.steps for member in members)
        return cls(
            members[0].method,
            tuple(map(_mean_epoch, epochs)),
            steps,
            None,
            stopped,
            origin,
            tuple(members),
        )


def _mean_epoch(epochs: Sequence[Epoch]) -> Epoch:
    def mean(name: str) -> Any:
        values = [getattr(epoch, name) for epoch in epochs]
        return None if None in values else sum(values) / len(values)

    averaged = {field.name: mean(field.name) for field in dataclasses.fields(Epoch)}
    return Epoch(
        **averaged | {"epoch": epochs[0].epoch, "seconds": sum(epoch.seconds for epoch in epochs)}
    )
