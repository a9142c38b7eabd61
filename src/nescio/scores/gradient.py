"""Scores of the weight gradient of the cross-entropy at the predicted class (Oberdiek et al. 2018).

Gradients are per input, at all weights, in one pass forward and one back for a whole batch.
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
from nescio.scores.spec import declare

ALL = "all"
EXTRA = ("entropy", "max_prob")  # which the paper adds to them, and compares them with
_SMALLEST = 1e-38  # a smaller magnitude counts as this, so that it has a logarithm


class GradientFeatures(NamedTuple):
    """Values `(N, F)` in float64 and the names of columns: `conv2/l2`, …, `entropy`, `max_prob`."""

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
    """Compute eight statistics of each input's weight gradient, per layer and of the whole network.

    They are `l1`, `l2`, `min`, `max`, `mean`, `std`, `skewness` and `kurtosis` (3 for a normal; if
    all entries are equal, 0 and 1). The mean at the layer that gives the logits is 0, and left out.

    Args:
        model: any module from inputs to logits `(N, C)` that keeps the inputs in order.
        data: a tensor, an array, a dataset or a loader, which is streamed; labels are ignored.
        layers: names of layers, or `all`; by default every one. A wrong name lists those there are.
        log: return logarithms of magnitudes (of `−min`), the mean over the root mean square, and
            asinh of the skewness: saturated inputs still differ, and no tail is too long.
        batch_size, seed, progress: as in `predict`.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    >>> features = gradient_features(net, torch.zeros(5, 2))
    >>> features.values.shape, features.names[0], features.names[-3:]
    (torch.Size([5, 25]), 'linear1/l1', ('all/kurtosis', 'entropy', 'max_prob'))
    """
    if not isinstance(layers, Sequence | None) or not all(isinstance(n, str) for n in layers or ()):
        raise NescioError(f"layers must be names of layers, such as 'all', got {layers!r}")
    names = [layers] if isinstance(layers, str) else layers
    parts: list[GradientFeatures] = []
    step = partial(batch_gradients, layers=names)
    options: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}

    def on_batch(x: Tensor, gradients: BatchGradients, _: Tensor | None) -> None:
        parts.append(columns(gradients, log, x.device))

    map_batches(step, model, data, on_batch, "gradients", requires_grad=True, **options)
    return joined_features(parts)


def joined_features(parts: Sequence[GradientFeatures]) -> GradientFeatures:
    """Concatenate batches of features."""
    if len({part.names for part in parts}) > 1:
        raise NescioError("the model uses different layers for some batches than for others")
    return GradientFeatures(torch.cat([part.values for part in parts]), parts[0].names)


def columns(batch: BatchGradients, log: bool, device: torch.device | str) -> GradientFeatures:
    """Return the features of one batch."""
    parts, names = [], []
    for layer, moments in batch.layers.items():
        values = _log_statistics(batch, moments) if log else moments.statistics(batch.precision)
        if not log:
            values[:6] *= batch.log_scale.exp()
        for statistic, value in zip(STATISTICS, values, strict=True):
            if (layer, statistic) != (batch.last, "mean"):
                parts.append(value)
                names.append(f"{layer}/{statistic}")
    parts.append(log_entropy(*mean_log_probs(batch.logits)) if log else entropy(batch.logits))
    parts.append(max_prob(batch.logits))
    return GradientFeatures(torch.stack(parts, 1).to(device), (*names, *EXTRA))


def _log_statistics(batch: BatchGradients, moments: Moments) -> Tensor:
    l1, l2, low, high, mean, std, skewness, kurtosis = moments.statistics(batch.precision)
    size = torch.stack([l1, l2, -low, high, std]).clamp(min=_SMALLEST).log() + batch.log_scale
    mean = mean * moments.count**0.5 / l2.where(l2 > 0, 1.0)
    return torch.stack([*size[:4], mean, size[4], skewness.asinh(), kurtosis.log()])


def _log_statistic(
    statistic: str, model: nn.Module, data: Any, layer: str, options: dict[str, Any]
) -> Tensor:
    values, names = gradient_features(model, data, [layer], log=True, **options)
    return values[:, names.index(f"{layer}/{statistic}")]


@declare(of_model=True)
def gradient_l1(model: nn.Module, data: Any, layer: str = ALL, **options: Any) -> Tensor:
    """Log of the gradient's norm `‖∇_w L‖₁` at the predicted class (Oberdiek et al. 2018).

    `layer` is "all", or the name of one; `options` are those of `gradient_features`.

    >>> gradient_l1(net, x).shape
    torch.Size([2])
    """
    return _log_statistic("l1", model, data, layer, options)


@declare(of_model=True)
def gradient_l2(model: nn.Module, data: Any, layer: str = ALL, **options: Any) -> Tensor:
    """Log of the gradient's norm `‖∇_w L‖₂` at the predicted class (Oberdiek et al. 2018).

    `layer` is "all", or the name of one; `options` are those of `gradient_features`.

    >>> gradient_l2(net, x, layer="linear2").shape  # of the last layer alone
    torch.Size([2])
    """
    return _log_statistic("l2", model, data, layer, options)


@declare(of_model=True)
def gradient_min(model: nn.Module, data: Any, layer: str = ALL, **options: Any) -> Tensor:
    """Log of `−min ∇_w L`, the gradient's least, at the predicted class (Oberdiek et al. 2018).

    `layer` is "all", or the name of one; `options` are those of `gradient_features`.

    >>> gradient_min(net, x).shape
    torch.Size([2])
    """
    return _log_statistic("min", model, data, layer, options)


@declare(of_model=True)
def gradient_max(model: nn.Module, data: Any, layer: str = ALL, **options: Any) -> Tensor:
    """Log of `max ∇_w L`, the gradient's largest, at the predicted class (Oberdiek et al. 2018).

    `layer` is "all", or the name of one; `options` are those of `gradient_features`.

    >>> gradient_max(net, x).shape
    torch.Size([2])
    """
    return _log_statistic("max", model, data, layer, options)


@declare(of_model=True)
def gradient_std(model: nn.Module, data: Any, layer: str = ALL, **options: Any) -> Tensor:
    """Log of the gradient's standard deviation at the predicted class (Oberdiek et al. 2018).

    `layer` is "all", or the name of one; `options` are those of `gradient_features`.

    >>> gradient_std(net, x).shape
    torch.Size([2])
    """
    return _log_statistic("std", model, data, layer, options)
