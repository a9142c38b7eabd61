"""Scores of the gradient: how much would the weights have to change, were the predicted class the right one?

Oberdiek et al. (2018). The gradient is that of the cross-entropy at the predicted class; it is taken for each input by
itself, at all weights, in one pass forward and one back for a whole batch.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nescio.core.logits import mean_log_probs
from nescio.core.predict import map_batches
from nescio.core.weight_gradients import STATISTICS, BatchGradients, Moments, batch_gradients
from nescio.errors import NescioError
from nescio.scores.output import entropy, log_entropy, max_prob

ALL = "all"
EXTRA = (
    "entropy",
    "max_prob",
)  # what the paper adds to them, and what it compares with
_NOTHING = 1e-38  # of the gradient at the logits; a smaller one counts as this, for it must have a logarithm


class GradientFeatures(NamedTuple):
    """Numbers `(N, F)` in float64 and the name of each column: `conv2/l2`, …, `all/kurtosis`, `entropy`, `max_prob`."""

    values: Tensor
    names: tuple[str, ...]


def gradient_features(
    model: nn.Module,
    data: Any,
    layers: Sequence[str] | None = None,
    *,
    log: bool = False,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> GradientFeatures:
    """Eight statistics of each input's weight gradient, for every layer and the whole network.

    They are `l1`, `l2`, `min`, `max`, `mean`, `std`, `skewness` and `kurtosis` (3 for a normal; where all entries are
    equal, 0 and 1). The mean is left out for the layer that returns the logits, where it is zero by construction.

    Args:
        model: any module from inputs to logits `(N, C)` that keeps the inputs in order; it is run in eval mode and left
            as found.
        data: a tensor, an array, a dataset or a loader; labels are passed over. It is streamed.
        layers: names of layers, or `all`; by default every one. A wrong name lists those there are.
        log: give magnitudes by their logarithm (`min` as that of its negative), the mean as a share of the root mean
            square, skewness by its asinh: no input is then too certain to differ from another, and no tail too long.
        batch_size, seed, progress: as in `predict`.

    >>> features = gradient_features(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)), torch.zeros(5, 2))
    >>> features.values.shape, features.names[0], features.names[-3:]
    (torch.Size([5, 25]), 'linear1/l1', ('all/kurtosis', 'entropy', 'max_prob'))
    """
    names = layer_names(layers)
    found: list[GradientFeatures] = []
    map_batches(
        partial(batch_gradients, layers=names),
        model,
        data,
        lambda x, gradients, _: found.append(columns(gradients, log, x.device)),
        "gradients",
        batch_size=batch_size,
        seed=seed,
        progress=progress,
        requires_grad=True,
    )
    return joined_features(found)


def joined_features(found: Sequence[GradientFeatures]) -> GradientFeatures:
    """Batches of features put together."""
    if len({part.names for part in found}) > 1:
        raise NescioError(
            "the model uses other layers for some batches than for others, so their statistics have no "
            "common columns"
        )
    return GradientFeatures(torch.cat([part.values for part in found]), found[0].names)


def layer_names(given: Sequence[str] | None) -> list[str] | None:
    """Names of layers as they may be given: one alone, several, or None for all."""
    if not isinstance(given, Sequence | None) or not all(
        isinstance(name, str) for name in given or ()
    ):
        raise NescioError(f"layers must be names of layers, such as 'all', not {given!r}")
    return [given] if isinstance(given, str) else given if given is None else list(given)


def columns(found: BatchGradients, log: bool, device: torch.device | str) -> GradientFeatures:
    """The features of one batch."""
    parts, names = [], []
    for layer, moments in found.layers.items():
        plain = _logarithmic(found, moments) if log else _plain(found, moments)
        for statistic, value in zip(STATISTICS, plain, strict=True):
            if (layer, statistic) != (found.last, "mean"):
                parts.append(value)
                names.append(f"{layer}/{statistic}")
    doubt = log_entropy(*mean_log_probs(found.logits)) if log else entropy(found.logits)
    parts += [doubt, max_prob(found.logits)]
    return GradientFeatures(torch.stack(parts, 1).to(device), (*names, *EXTRA))


def _plain(found: BatchGradients, moments: Moments) -> Tensor:
    values = moments.statistics(found.precision)
    values[:6] *= found.log_scale.exp()
    return values


def _logarithmic(found: BatchGradients, moments: Moments) -> Tensor:
    l1, l2, low, high, mean, std, skewness, kurtosis = moments.statistics(found.precision)
    size = torch.stack([l1, l2, -low, high, std]).clamp(min=_NOTHING).log() + found.log_scale
    share = mean * moments.count**0.5 / l2.where(l2 > 0, 1.0)
    return torch.stack([*size[:4], share, size[4], skewness.asinh(), kurtosis.log()])


def gradient_l1(model: nn.Module, data: Any, layer: str = ALL, **how: Any) -> Tensor:
    """Log of the absolute norm `‖∇_w L‖₁` of the gradient at the predicted class (Oberdiek et al. 2018)."""
    return _single("l1", model, data, layer, **how)


def gradient_l2(model: nn.Module, data: Any, layer: str = ALL, **how: Any) -> Tensor:
    """Log of the Euclidean norm `‖∇_w L‖₂` of the gradient at the predicted class (Oberdiek et al. 2018)."""
    return _single("l2", model, data, layer, **how)


def gradient_min(model: nn.Module, data: Any, layer: str = ALL, **how: Any) -> Tensor:
    """Log of how far the gradient at the predicted class goes below zero, `−min ∇_w L` (Oberdiek et al. 2018)."""
    return _single("min", model, data, layer, **how)


def gradient_max(model: nn.Module, data: Any, layer: str = ALL, **how: Any) -> Tensor:
    """Log of the largest entry of the gradient at the predicted class, `max ∇_w L` (Oberdiek et al. 2018)."""
    return _single("max", model, data, layer, **how)


def gradient_std(model: nn.Module, data: Any, layer: str = ALL, **how: Any) -> Tensor:
    """Log of the standard deviation of the gradient's entries at the predicted class (Oberdiek et al. 2018)."""
    return _single("std", model, data, layer, **how)


def _single(statistic: str, model: nn.Module, data: Any, layer: str, **how: Any) -> Tensor:
    values, names = gradient_features(model, data, [layer], log=True, **how)
    return values[:, names.index(f"{layer}/{statistic}")]
