"""What is believed of a weight before any data: a Gaussian, or a mixture of a wide and a narrow one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.errors import NescioError, check_float

SPREADS = 1e-15, 1e6  # beyond which float32 soon has no digits left for a density


@dataclass(frozen=True)
class Gaussian:
    """`N(0, std²)`."""

    std: float

    def log_prob(self, weight: Tensor) -> Tensor:
        """The log density of each weight."""
        return (
            -0.5 * (weight / self.std).square() - math.log(self.std) - 0.5 * math.log(2 * math.pi)
        )

    def divergence(self, mean: Tensor, std: Tensor, drawn: Tensor) -> Tensor:
        """`KL(N(mean, std²) ‖ prior)`, summed over weights, in closed form."""
        ratio = std / self.std
        return (0.5 * (ratio.square() + (mean / self.std).square() - 1) - ratio.log()).sum()


@dataclass(frozen=True)
class ScaleMixture:
    """`share · N(0, std_1²) + (1 − share) · N(0, std_2²)` (Blundell et al. 2015, section 3.3)."""

    share: float
    std_1: float
    std_2: float

    def log_prob(self, weight: Tensor) -> Tensor:
        """The log density of each weight."""
        return torch.logaddexp(
            Gaussian(self.std_1).log_prob(weight) + math.log(self.share),
            Gaussian(self.std_2).log_prob(weight) + math.log1p(-self.share),
        )

    def divergence(self, mean: Tensor, std: Tensor, drawn: Tensor) -> Tensor:
        """`KL(N(mean, std²) ‖ prior)`, summed over weights, estimated from weights drawn `(S, …)`.

        Only the prior's term is sampled; the entropy of the Gaussian is known: `½ log(2πe std²)`.
        """
        entropy = std.log().sum() + 0.5 * math.log(2 * math.pi * math.e) * std.numel()
        return -self.log_prob(drawn).sum() / len(drawn) - entropy


def prior_of(given: Any) -> Gaussian | ScaleMixture:
    """A number is the spread of a Gaussian; three, `(share, std_1, std_2)`, make a scale mixture.

    >>> prior_of(0.5), prior_of((0.25, 1.0, 0.01))
    (Gaussian(std=0.5), ScaleMixture(share=0.25, std_1=1.0, std_2=0.01))
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        return Gaussian(check_float("a prior's spread", given, *SPREADS))
    if len(given) != 3:
        raise NescioError(
            f"a prior is a spread, or (share, spread, spread) of a mixture, not {given!r}"
        )
    share = check_float("the share of a mixture", given[0], 1e-10, 1 - 1e-10)
    return ScaleMixture(
        share, *(check_float("a prior's spread", one, *SPREADS) for one in given[1:])
    )
