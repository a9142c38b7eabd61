"""What decides how a training run goes, and the optimizer it asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, Optimizer

from nescio.errors import NescioError, check_float, check_int, unknown_name

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True)
class Settings:
    """What decides how a run goes; a checkpoint is only taken up under the same ones."""

    epochs: int
    batch_size: int
    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    schedule: str
    augment: tuple[str, ...]
    validation: float
    patience: int | None
    checkpoint_every: int | None
    seed: int

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("epochs", "batch_size", "patience", "checkpoint_every"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name))
        for name in ("learning_rate", "momentum", "weight_decay"):
            check_float(name, getattr(self, name))
        if self.learning_rate == 0 or self.momentum >= 1:
            raise NescioError(
                f"learning_rate must be above 0 and momentum below 1, not {self.learning_rate} and "
                f"{self.momentum}"
            )


def make_optimizer(model: nn.Module, settings: Settings) -> Optimizer:
    """The optimizer over all weights that are not frozen."""
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not weights:
        raise NescioError(
            "the model has no weights to train (every parameter has requires_grad=False, or there are none)"
        )
    if settings.optimizer == "sgd":
        return SGD(
            weights,
            settings.learning_rate,
            settings.momentum,
            weight_decay=settings.weight_decay,
            fused=True,
        )
    return Adam(weights, settings.learning_rate, weight_decay=settings.weight_decay, fused=True)


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """An error if what is there was made with other settings: only those that differ are told, also within groups.

    >>> check_same({"seed": 0, "own": {"a": 1, "b": 2}}, {"seed": 0, "own": {"a": 1, "b": 3}}, "it")
    Traceback (most recent call last):
    nescio.errors.NescioError: it was made with b=2, not 3; use the same settings, or another path
    """
    if found := _differences(before, now):
        raise NescioError(
            f"{where} was made with {' and '.join(found)}; use the same settings, or another path"
        )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    found = []
    for name in {**now, **before}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new)
        elif old != new:
            found.append(f"{name}={old!r}, not {new!r}")
    return found
