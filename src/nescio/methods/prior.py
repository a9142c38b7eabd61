"""Priors over the weights of affine layers: a Gaussian, or a mixture of a wide and a narrow one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from nescio.errors import NescioError, check_float

STD_RANGE = 1e-15, 1e6  # outside it, densities soon have no digits left in float32
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)


@dataclass(frozen=True)
class Gaussian:
    """`N(0, std²)`."""

    std: float

    def log_prob(self, weight: Tensor) -> Tensor:
        """Return the log density of each weight."""
        std = self.std
        return -0.5 * (weight / std).square() - math.log(std) - 0.5 * math.log(2 * math.pi)

    def divergence(self, mean: Tensor, std: Tensor, drawn: Tensor) -> Tensor:
        """Return `KL(N(mean, std²) ‖ prior)`, summed over weights, in closed form."""
        ratio = std / self.std
        return (0.5 * (ratio.square() + (mean / self.std).square() - 1) - ratio.log()).sum()


@dataclass(frozen=True)
class ScaleMixture:
    """`fraction · N(0, std_1²) + (1 − fraction) · N(0, std_2²)` (Blundell et al. 2015)."""

    fraction: float
    std_1: float
    std_2: float

    def log_prob(self, weight: Tensor) -> Tensor:
        """Return the log density of each weight."""
        first = Gaussian(self.std_1).log_prob(weight) + math.log(self.fraction)
        second = Gaussian(self.std_2).log_prob(weight) + math.log1p(-self.fraction)
        return torch.logaddexp(first, second)

    def divergence(self, mean: Tensor, std: Tensor, drawn: Tensor) -> Tensor:
        """Return `KL(N(mean, std²) ‖ prior)`, summed over weights, estimated from draws `(S, …)`.

        Only the prior's term is sampled; the entropy of the Gaussian is `½ log(2πe std²)`.
        """
        entropy = std.log().sum() + 0.5 * math.log(2 * math.pi * math.e) * std.numel()
        return -self.log_prob(drawn).sum() / len(drawn) - entropy


def make_prior(prior: Any) -> Gaussian | ScaleMixture:
    """Return a Gaussian of a standard deviation, or a mixture of `(fraction, std_1, std_2)`.

    >>> make_prior(0.5), make_prior((0.25, 1.0, 0.01))
    (Gaussian(std=0.5), ScaleMixture(fraction=0.25, std_1=1.0, std_2=0.01))
    """
    if not isinstance(prior, Sequence) or isinstance(prior, str):
        return Gaussian(check_float("prior", prior, *STD_RANGE))
    if len(prior) != 3:
        raise NescioError(f"prior must be a std, or (fraction, std_1, std_2), got {prior!r}")
    fraction = check_float("the fraction of a mixture", prior[0], 1e-10, 1 - 1e-10)
    stds = (check_float("the std of a mixture", std, *STD_RANGE) for std in prior[1:])
    return ScaleMixture(fraction, *stds)


def affine_weights(net: nn.Module) -> dict[str, int]:
    """Return the names of all weights and biases of affine layers, and the inputs of their units.

    >>> affine_weights(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    {'0.weight': 3, '0.bias': 3}
    """
    inputs: dict[str, int] = {}
    counted: set[int] = set()  # weights shared by two layers count once
    for path, layer in net.named_modules():
        if not isinstance(layer, AFFINE):
            continue
        if is_parametrized(layer) or "weight" not in layer._parameters:  # torch's older way
            raise NescioError(
                f"the weights of layer {path!r} are parametrised and cannot have a prior; remove "
                "that with torch.nn.utils.parametrize.remove_parametrizations"
            )
        size = layer.weight[0].numel()
        if isinstance(layer, TRANSPOSED):  # has its inputs first, divided into groups
            size = layer.weight[:, 0].numel() // layer.groups
        for name, weight in layer.named_parameters(path, recurse=False):
            if id(weight) not in counted:
                counted.add(id(weight))
                inputs[name] = size
    if not inputs:
        raise NescioError(f"this {type(net).__name__} has no linear or convolutional layer")
    return inputs
