"""What decides how a training run goes, and the optimizer it asks for."""

import math
from dataclasses import dataclass

from torch import nn
from torch.optim import SGD, Adam, Optimizer

from nescio.errors import NescioError, unknown_name
from nescio.seeds import check_seed

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
    seed: int

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS)
        for name, least in (("epochs", 1), ("batch_size", 1), ("patience", 1)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise NescioError(f"{name} must be a whole number of at least {least}, not {value!r}")
        if not 0 < self.learning_rate < math.inf or not 0 <= self.weight_decay < math.inf:
            raise NescioError(f"learning_rate must be positive and weight_decay not negative, both finite, "
                              f"not {self.learning_rate} and {self.weight_decay}")  # fmt: skip
        if not 0 <= self.momentum < 1:
            raise NescioError(f"momentum must lie in [0, 1), not {self.momentum}")


def make_optimizer(model: nn.Module, settings: Settings) -> Optimizer:
    """The optimizer over all weights that are not frozen."""
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not weights:
        raise NescioError(
            "the model has no weights to train (every parameter has requires_grad=False, or there are none)"
        )
    if settings.optimizer == "sgd":
        return SGD(weights, settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay, fused=True)
    return Adam(weights, settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
