"""A Gaussian over every weight, learned by backpropagation (Blundell et al. 2015)."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.logits import softmax_confidence
from nescio.core.random_streams import new_generator
from nescio.errors import NescioError, check_float, check_int, unknown_name
from nescio.methods.draws import pieces, with_own_weights
from nescio.methods.layers import affine_weights
from nescio.methods.method import Method
from nescio.methods.prior import SPREADS, prior_of

KL_WEIGHTS = ("uniform", "decreasing")
_TOGETHER = 2**25  # weights drawn at a time: 128 MiB in float32
_KEPT = 2**28  # weights kept from batch to batch, at most: 1 GiB


def _noise(shape: tuple[int, ...], like: Tensor, source: torch.Generator | None) -> Tensor:
    """Standard normal numbers, the same ones whatever the floating type: a model in float64 makes the same draws."""
    return torch.randn(shape, dtype=torch.float32, device=like.device, generator=source).to(
        like.dtype
    )


class BayesByBackprop(Method):
    """A Gaussian over every weight of linear and convolutional layers, learned by backprop (Blundell et al. 2015).

    The network's own weights are the means; `posterior()` gives means and spreads by name. Other weights, such as
    those of BatchNorm, attention or recurrent layers, stay numbers, and the spread of a frozen weight stays as it is.
    The loss is the negative ELBO divided by the size of the batch.

    Args:
        net: any network with linear or convolutional layers, not parametrised ones.
        normalise: what raw inputs go through first.
        samples: draws at prediction.
        prior: the spread of a Gaussian, or `(share, std_1, std_2)` of a scale mixture.
        std: the spread of every weight before training.
        beta: what the KL divergence is multiplied by; 1 is the ELBO, less trusts the data more.
        warm_up: share of the training over which `beta` grows from 0.
        elbo_samples: draws for each step of training.
        kl_weights: how an epoch's batches share the KL: "uniform", or "decreasing" by halves (Blundell's eq. 9).
    """

    name = "bayes_by_backprop"
    score = "entropy"
    sampled = True

    def __init__(
        self,
        net: nn.Module,
        normalise: nn.Module | None = None,
        samples: int = 50,
        prior: Any = 1.0,
        std: float = 0.02,
        beta: float = 1.0,
        warm_up: float = 0.0,
        elbo_samples: int = 1,
        kl_weights: str = "uniform",
    ) -> None:
        super().__init__(net, normalise)
        self.samples = check_int("samples", samples, below=1_000_001)
        self.elbo_samples = check_int("elbo_samples", elbo_samples, below=1_000_001)
        if kl_weights not in KL_WEIGHTS:
            raise unknown_name("kl_weights", kl_weights, KL_WEIGHTS)
        self.given, self.prior, self.std = prior, prior_of(prior), check_float("std", std, *SPREADS)
        self.beta, self.warm_up = (
            check_float("beta", beta),
            check_float("warm_up", warm_up, most=1.0),
        )
        self.kl_weights = kl_weights
        self.drawn = tuple(affine_weights(net))
        rho = self.std + math.log(-math.expm1(-self.std))  # softplus(rho) is the spread
        means = [net.get_parameter(name) for name in self.drawn]
        self.rho = nn.ParameterList(
            nn.Parameter(torch.full_like(mean, rho), mean.requires_grad) for mean in means
        )
        self._kept: list[dict[str, Tensor]] | None = None  # draws, while they are held

    def posterior(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Mean and spread of each drawn weight, by its name in the network."""
        return {
            name: (self.net.get_parameter(name), F.softplus(rho))
            for name, rho in zip(self.drawn, self.rho, strict=True)
        }

    def draw(self, count: int, source: torch.Generator | None = None) -> dict[str, Tensor]:
        """Weights drawn from the posterior, `(count, …)` each: `mean + std · noise`, by default torch's own."""
        return {
            name: torch.addcmul(mean, std, _noise((count, *mean.shape), mean, source))
            for name, (mean, std) in self.posterior().items()
        }

    def divergence(self, drawn: dict[str, Tensor]) -> Tensor:
        """`KL(posterior ‖ prior)`; for a scale mixture estimated from drawn weights."""
        each = [
            self.prior.divergence(*found, drawn[name]) for name, found in self.posterior().items()
        ]
        return torch.stack(each).sum()

    def forward(self, x: Tensor) -> Tensor:
        weights = sum(rho.numel() for rho in self.rho)
        together = max(1, min(self.samples, _TOGETHER // weights))
        counts = [min(together, self.samples - start) for start in range(0, self.samples, together)]
        inputs = pieces(self.normalise(x), together, self.net)
        source = new_generator(x.device)  # a forward pass moves no other
        drawn: Iterable[dict[str, Tensor]] = (self.draw(count, source) for count in counts)
        if self._kept is not None and weights * self.samples <= _KEPT:
            drawn = self._kept = self._kept or list(drawn)
        return torch.cat([self._run(inputs, some) for some in drawn])

    @contextmanager
    def fix_draws(self) -> Iterator[None]:
        self._kept = []
        try:
            yield
        finally:
            self._kept = None

    def _run(self, inputs: tuple[Tensor, ...], weights: dict[str, Tensor]) -> Tensor:
        return torch.cat([with_own_weights(self.net, weights, x) for x in inputs], 1)

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.draw(self.elbo_samples)
        logits = with_own_weights(self.net, weights, self.normalise(x))  # (elbo_samples, N, C)
        errors = F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)))
        return errors + self._kl_weight() / len(y) * self.divergence(weights), logits

    def _kl_weight(self) -> float:
        """What part of the KL this batch bears: shares of an epoch sum to one, times beta, once warmed up."""
        training_step = self.training_step
        if training_step is None:
            raise NescioError(
                "the loss of Bayes by backprop depends on how many batches an epoch has; train with "
                "nescio.train, or set model.moment = nescio.methods.Moment(…) at each step"
            )
        batches = training_step.steps_per_epoch
        share = 1 / batches
        if self.kl_weights == "decreasing":
            share = 0.5 ** (training_step.step % batches + 1) / (1 - 0.5**batches)
        warm = (
            min(1.0, training_step.step / (self.warm_up * training_step.steps))
            if self.warm_up
            else 1.0
        )
        return self.beta * warm * share

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)

    def settings(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "prior": self.given,
            "std": self.std,
            "beta": self.beta,
            "warm_up": self.warm_up,
            "elbo_samples": self.elbo_samples,
            "kl_weights": self.kl_weights,
        }
