"""A Gaussian over every weight, learned by backpropagation (Blundell et al. 2015)."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.random_streams import new_generator
from nescio.errors import NescioError, check_float, check_int, check_name
from nescio.methods.method import Method
from nescio.methods.prior import STD_RANGE, affine_weights, make_prior
from nescio.methods.stacked import chunks, run_stacked

KL_WEIGHTS = ("uniform", "decreasing")
MAX_SAMPLES = 1_000_001
MAX_DRAWN = 2**25  # weights drawn at a time: 128 MiB in float32
MAX_KEPT = 2**28  # weights kept from batch to batch: 1 GiB


class BayesByBackprop(Method):
    """A Gaussian over every weight of affine layers, learned by backprop (Blundell et al. 2015).

    The network's own weights are the means; `posterior()` gives means and standard deviations by
    name. Other weights, such as those of BatchNorm, attention or recurrent layers, stay numbers,
    and the standard deviation of a frozen weight stays as it is. The loss is the negative ELBO
    divided by the batch size.

    Args:
        net: any network with linear or convolutional layers, not parametrised ones.
        normalise: what raw inputs go through first.
        samples: draws at prediction.
        prior: the std of a Gaussian, or `(fraction, std_1, std_2)` of a scale mixture.
        std: the standard deviation of every weight before training.
        beta: factor of the KL divergence; 1 is the ELBO, less trusts the data more.
        warm_up: fraction of the training over which `beta` grows from 0.
        elbo_samples: draws for each training step.
        kl_weights: how an epoch's batches share the KL: "uniform", or "decreasing" by halves
            (Blundell's eq. 9).

    >>> model = BayesByBackprop(nescio.models.mlp(2, 3), samples=10)
    >>> nescio.predict(model, x).shape  # draws, inputs, classes
    torch.Size([10, 2, 3])
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
        self.samples = check_int("samples", samples, below=MAX_SAMPLES)
        self.elbo_samples = check_int("elbo_samples", elbo_samples, below=MAX_SAMPLES)
        self.kl_weights = check_name("kl_weights", kl_weights, KL_WEIGHTS)
        self.prior, self.prior_distribution = prior, make_prior(prior)
        self.std, self.beta = check_float("std", std, *STD_RANGE), check_float("beta", beta)
        self.warm_up = check_float("warm_up", warm_up, most=1.0)
        self.drawn = tuple(affine_weights(net))
        rho = self.std + math.log(-math.expm1(-self.std))  # softplus(rho) is the std
        means = [net.get_parameter(name) for name in self.drawn]
        rhos = (nn.Parameter(torch.full_like(mean, rho), mean.requires_grad) for mean in means)
        self.rho = nn.ParameterList(rhos)
        self._kept: list[dict[str, Tensor]] | None = None  # draws, while they are fixed

    def posterior(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return mean and standard deviation of each drawn weight, by its name in the network."""
        pairs = zip(self.drawn, self.rho, strict=True)
        return {name: (self.net.get_parameter(name), F.softplus(rho)) for name, rho in pairs}

    def draw(self, count: int, source: torch.Generator | None = None) -> dict[str, Tensor]:
        """Return weights drawn from the posterior, `(count, …)` each: `mean + std · noise`."""
        how: dict[str, Any] = {"dtype": torch.float32, "generator": source}  # for any model's dtype
        weights = {}
        for name, (mean, std) in self.posterior().items():
            noise = torch.randn((count, *mean.shape), device=mean.device, **how)
            weights[name] = torch.addcmul(mean, std, noise.to(mean.dtype))
        return weights

    def divergence(self, drawn: dict[str, Tensor]) -> Tensor:
        """Return `KL(posterior ‖ prior)`; for a scale mixture estimated from drawn weights."""
        kl = self.prior_distribution.divergence
        terms = [kl(mean, std, drawn[n]) for n, (mean, std) in self.posterior().items()]
        return torch.stack(terms).sum()

    def forward(self, x: Tensor) -> Tensor:
        weights = sum(rho.numel() for rho in self.rho)
        at_once = max(1, min(self.samples, MAX_DRAWN // weights))
        counts = [min(at_once, self.samples - start) for start in range(0, self.samples, at_once)]
        inputs = chunks(self.normalise(x), at_once, self.net)
        source = new_generator(x.device)  # a forward pass advances no other
        drawn: Iterable[dict[str, Tensor]] = (self.draw(count, source) for count in counts)
        if self._kept is not None and weights * self.samples <= MAX_KEPT:
            drawn = self._kept = self._kept or list(drawn)
        runs = ([run_stacked(self.net, w, chunk) for chunk in inputs] for w in drawn)
        return torch.cat([torch.cat(run, 1) for run in runs])

    @contextmanager
    def fix_draws(self) -> Iterator[None]:
        self._kept = []
        try:
            yield
        finally:
            self._kept = None

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.draw(self.elbo_samples)
        logits = run_stacked(self.net, weights, self.normalise(x))  # (elbo_samples, N, C)
        errors = F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)))
        return errors + self._kl_weight() / len(y) * self.divergence(weights), logits

    def _kl_weight(self) -> float:
        """Return beta times the fraction of the KL this batch bears, one in all over an epoch."""
        now = self.training_step
        if now is None:
            raise NescioError(
                "the loss of Bayes by backprop depends on the number of batches per epoch; train "
                "with nescio.train, or set model.training_step = nescio.methods.TrainingStep(…)"
            )
        batches = now.steps_per_epoch
        fraction = 1 / batches
        if self.kl_weights == "decreasing":
            fraction = 0.5 ** (now.step % batches + 1) / (1 - 0.5**batches)
        warm = min(1.0, now.step / (self.warm_up * now.steps)) if self.warm_up else 1.0
        return self.beta * warm * fraction
