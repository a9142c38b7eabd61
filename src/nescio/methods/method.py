"""The abstract class of all methods: a model that also brings its training loss."""

import copy
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nescio.core.logits import (
    log_confidence,
    mean_kernels,
    mean_log_probs,
    softmax_confidence,
    two_classes,
)
from nescio.core.model_state import check_model
from nescio.errors import NescioError
from nescio.seeds import derived_seed

if TYPE_CHECKING:
    from nescio.methods.kernel_method import KernelMethod

PARTS = ("net", "make_net", "normalise")  # arguments of methods that are modules, not settings


@dataclass(frozen=True)
class TrainingStep:
    """Where in its training a method is; a loss may depend on it.

    >>> now = TrainingStep(step=50, steps_per_epoch=10, steps=100, inputs=1280)
    >>> now.step / now.steps  # the fraction that is done
    0.5
    """

    step: int  # from 0
    steps_per_epoch: int
    steps: int  # of the whole run
    inputs: int  # in the training set


class Method(nn.Module, ABC):
    """A network, the normalisation of its raw inputs, and a training loss.

    `train` and `predict` work with any method. A subclass brings `loss`, and keeps each setting its
    constructor takes as an attribute of the same name. Subclass this class, not a finished method.

    >>> class Smoothed(Method):
    ...     name = "smoothed"
    ...     def loss(self, x, y):
    ...         logits = self(x)
    ...         return nn.functional.cross_entropy(logits, y, label_smoothing=0.1), logits
    >>> model = Smoothed(nn.Linear(2, 3))
    >>> history = nescio.train(model, known.train, epochs=1)
    >>> nescio.Threshold(model).fit(known.test).score(x).shape  # by its score, `max_prob`
    torch.Size([2])
    """

    name: ClassVar[str]  # as in METHODS
    score: ClassVar[str] = "max_prob"  # the score its paper pairs with it, as in SCORES
    sampled: ClassVar[bool] = False  # whether it returns several draws, which SAMPLED scores need
    on_features: ClassVar[bool] = False  # whether its network ends in features, not in logits
    on_network: ClassVar[bool] = True  # whether it contains a network at all
    # what `confidence` is: the largest class probability, or the largest kernel, which may be 0
    confidence_kind: ClassVar[Literal["softmax", "kernel"]] = "softmax"
    # dropout rate of the networks made for it, unless one is chosen
    default_dropout: ClassVar[float] = 0.0
    # where its defaults, those of its paper, do not suit a few hundred rows
    small_data_settings: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.confidence_kind not in (kinds := ("softmax", "kernel")):
            expected = f"confidence_kind of {cls.__name__} must be {' or '.join(map(repr, kinds))}"
            raise NescioError(f"{expected}, got {cls.confidence_kind!r}")

    def __init__(self, net: nn.Module, normalise: nn.Module | None = None) -> None:
        super().__init__()
        check_network(net)
        if not isinstance(normalise, nn.Module | None):
            raise NescioError(
                f"normalise must be a module such as known.normalise, or None, got {normalise!r}"
            )
        self.net = net
        # a copy, since that of a data set goes into many models, and each may be moved or cast
        self.normalise = nn.Identity() if normalise is None else copy.deepcopy(normalise)
        self.training_step: TrainingStep | None = None  # set by the training loop before each step

    @classmethod
    def from_factory(
        cls, make_net: Callable[[], nn.Module], normalise: nn.Module | None = None, **settings: Any
    ) -> Self:
        """Return the method over what a function makes: a network, or several, or none."""
        if cls.on_network:
            settings["net"] = make_net()
        return cls(normalise=normalise, **settings)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits `(N, C)`, or several draws `(S, N, C)`, of raw inputs.

        A network's one logit is that of the second of two classes: (0, z).
        """
        output: Tensor = self.net(self.normalise(x))
        return output if self.on_features else two_classes(output)

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss to minimise, a scalar, and the logits, of which accuracy is computed."""

    def confidence(self, logits: Tensor) -> Tensor:
        """Return the confidence, `(N,)` in [0, 1], given logits `(S, N, C)`."""
        if self.confidence_kind == "kernel":
            return mean_kernels(logits).amax(-1)
        return softmax_confidence(logits)

    def log_confidence(self, logits: Tensor) -> Tensor:
        """Return the log confidence in the logits' own dtype, differentiable: for attacks."""
        return logits[0].amax(-1) if self.confidence_kind == "kernel" else log_confidence(logits)

    def validation_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return what selects the best epoch, a scalar: by default the negative log-likelihood."""
        return -mean_log_probs(logits)[0].gather(-1, y[:, None]).mean()

    def prepare(self, train: Dataset[Any], validation: Dataset[Any] | None, seed: int) -> bool:
        """Learn what takes all training data before the first step; return True if it is solved."""
        return False

    def after_step(self, x: Tensor, y: Tensor) -> None:
        """Update what is no weight, after each step of the optimizer, on the same batch."""

    def expect_all_classes(self) -> None:
        """Note that the training data hold all classes, though the first batches may not."""

    def epoch_order(self, inputs: int, seed: int, epoch: int) -> Tensor:
        """Return the order of an epoch's training data, `(inputs,)`, or a row per member."""
        generator = torch.Generator().manual_seed(derived_seed(seed, "epoch", epoch))
        return torch.randperm(inputs, generator=generator)

    def parts(self) -> "Sequence[Method]":
        """Return what is trained one after the other: itself, unless it has separate members."""
        return [self]

    def networks(self) -> Sequence[nn.Module]:
        """Return the plain networks it contains."""
        return [self.net] if self.on_network else []

    def kernels(self) -> "KernelMethod | None":
        """Return itself if it is unsure far away, being built on kernels; None of all others."""
        return None

    def fix_draws(self) -> AbstractContextManager[None]:
        """Return a context in which all forward passes share one set of draws, made once."""
        return nullcontext()

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments beside its modules, as plain data for saved files."""
        names = [name for name in inspect.signature(type(self)).parameters if name not in PARTS]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}


def with_newer_settings(settings: Mapping[str, Any], method: Method) -> dict[str, Any]:
    """Return settings from a file, and the defaults of those that did not exist when it was made.

    >>> model = nescio.methods.DUQ(nescio.models.mlp(2), classes=3)
    >>> with_newer_settings({"momentum": 0.9}, model)["centroid_spread"]
    1.0
    """
    parameters = inspect.signature(type(method)).parameters
    defaults = {name: parameters[name].default for name in method.settings() if name in parameters}
    newer = {
        name: value for name, value in defaults.items() if value is not inspect.Parameter.empty
    }
    return {**newer, **settings}


def check_network(net: object) -> None:
    """Raise an error if this is no network, or a method, whose own loss would never be used."""
    check_model(net)
    if isinstance(net, Method):
        kind = type(net).__name__
        raise NescioError(f"expected a network, got a {kind}, which is a method; give its network")


def stable_repr(thing: object) -> str:
    """Return the repr of a function or module without addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))
