"""What a way to train must bring: logits, a loss, and what it calls its confidence."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn


class Method(nn.Module, ABC):
    """A model that also brings its training loss.

    A method wraps a network and, if given, the normalisation that raw inputs go through first. `fit` trains any of
    them, `predict` runs any of them. To make another, subclass this class, not one of the finished ones.
    """

    name: ClassVar[str]  # as in METHODS
    score: ClassVar[str]  # the score its paper pairs with it, as in SCORES

    def __init__(self, net: nn.Module, normalise: nn.Module | None = None) -> None:
        super().__init__()
        self.net = net
        self.normalise = normalise if normalise is not None else nn.Identity()

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Logits `(N, C)`, or several draws `(S, N, C)`, of raw inputs."""

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss to go down, a scalar, and the logits it came from, which tell the loop its accuracy."""

    @abstractmethod
    def confidence(self, logits: Tensor) -> Tensor:
        """How sure the method says it is, `(N,)` in [0, 1], from logits `(S, N, C)`."""

    def after_step(self, x: Tensor, y: Tensor) -> None:
        """What is to be done after each step of the optimizer, on the same batch."""

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beside network and normalisation, as plain data for saved files."""
        return {}
