"""What a way to train must bring: logits, a loss, and what it calls its confidence."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.core.logits import log_confidence, mean_log_probs
from nescio.core.model_state import check_model
from nescio.errors import NescioError
from nescio.seeds import derived_seed


@dataclass(frozen=True)
class TrainingStep:
    """Where in its training a method is; a loss may depend on it."""

    step: int  # from 0
    steps_per_epoch: int
    steps: int  # of the whole run
    inputs: int  # in the training set


class Method(nn.Module, ABC):
    """A model that also brings its training loss.

    A method wraps a network and, if given, the normalisation that raw inputs go through first. `fit` trains any of
    them, `predict` runs any of them. To make another, subclass this class, not one of the finished ones.
    """

    name: ClassVar[str]  # as in METHODS
    score: ClassVar[str]  # the score its paper pairs with it, as in SCORES
    sampled: ClassVar[bool] = (
        False  # whether it returns several draws, which SAMPLED scores compare
    )
    on_features: ClassVar[bool] = (
        False  # whether its network ends in features, and it makes the logits itself
    )
    on_network: ClassVar[bool] = True  # whether there is a network within at all
    # what `confidence` is: a probability that competes with other classes, or a kernel that does not
    confidence_kind: ClassVar[Literal["softmax", "kernel"]] = "softmax"

    def __init__(self, net: nn.Module, normalise: nn.Module | None = None) -> None:
        super().__init__()
        check_network(net)
        if not isinstance(normalise, nn.Module | None):
            raise NescioError(
                f"normalise must be a module such as known.normalise, or None, not {normalise!r}"
            )
        self.net = net
        # a copy, since one that comes with the data goes into many models, and each may be moved or cast
        self.normalise = nn.Identity() if normalise is None else copy.deepcopy(normalise)
        self.training_step: TrainingStep | None = None  # set by the training loop before each step

    @classmethod
    def of(
        cls, make_net: Callable[[], nn.Module], normalise: nn.Module | None = None, **settings: Any
    ) -> Self:
        """The method over a network, or several, that a function makes."""
        return cls(make_net(), normalise=normalise, **settings)

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Logits `(N, C)`, or several draws `(S, N, C)`, of raw inputs."""

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss to go down, a scalar, and the logits it came from, which tell the loop its accuracy."""

    @abstractmethod
    def confidence(self, logits: Tensor) -> Tensor:
        """How sure the method says it is, `(N,)` in [0, 1], from logits `(S, N, C)`."""

    def log_confidence(self, logits: Tensor) -> Tensor:
        """The logarithm of the confidence, in the logits' own precision and differentiable: what an attack raises."""
        return log_confidence(logits)

    def validation_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """What tells the best epoch, a scalar, from logits `(S, N, C)` of validation data: `−log p` of the labels."""
        return -mean_log_probs(logits)[0].gather(-1, y[:, None]).mean()

    def prepare(self, train: Dataset[Any], held: Dataset[Any] | None, seed: int) -> bool:
        """What is to be learned from all training data before the first step; whether no step is left to be made."""
        return False

    def after_step(self, x: Tensor, y: Tensor) -> None:
        """What is to be done after each step of the optimizer, on the same batch."""

    def order(self, inputs: int, seed: int, epoch: int) -> Tensor:
        """The order in which an epoch takes the training data: positions `(inputs,)`, or a row for each member."""
        return torch.randperm(
            inputs, generator=torch.Generator().manual_seed(derived_seed(seed, "epoch", epoch))
        )

    def parts(self) -> "Sequence[Method]":
        """What is to be trained one after the other: the method itself, unless it is made of several."""
        return [self]

    def networks(self) -> Sequence[nn.Module]:
        """The plain networks it is made of."""
        return [self.net]

    def fix_draws(self) -> AbstractContextManager[None]:
        """A block in which every forward pass starts from the same random state, so that draws need be made once."""
        return nullcontext()

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beside network and normalisation, as plain data for saved files."""
        return {}


def check_network(net: object) -> None:
    """An error if this is no network, or a method, whose own loss would never be asked."""
    check_model(net)
    if isinstance(net, Method):
        raise NescioError(
            f"a {type(net).__name__} was given for a network, but is a method itself; give the network "
            "it was made over"
        )
