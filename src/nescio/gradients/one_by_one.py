"""Gradients of single inputs for weights without a rule: all of them at once by `vmap`, or else one after another."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from nescio.gradients.moments import Moments, merged, of_rows, stacked
from nescio.gradients.rules import ROOM
from nescio.predict import draws_of

Weights = dict[str, Tensor]


def moments_without_rule(model: nn.Module, x: Tensor, delta: Tensor, layers: dict[str, Weights]) -> dict[str, Moments]:
    """The moments of each layer's gradient of `⟨delta, logits⟩`, for whatever the model does with its weights."""
    weights = {path: parameter for own in layers.values() for path, parameter in own.items()}

    def pulled(own: Weights, one: Tensor, pull: Tensor) -> Tensor:
        # a clone: the first layer may be in place, and autograd keeps no tensor made in inference mode
        logits: Tensor = draws_of(functional_call(model, own, (one[None].clone(),)), 1)[0, 0]
        return logits @ pull

    step = max(1, ROOM // sum(weight.numel() for weight in weights.values()))
    chunks: dict[str, list[Moments]] = {name: [] for name in layers}
    for start in range(0, len(x), step):
        found = _gradients(grad(pulled), weights, x[start : start + step], delta[start : start + step])
        for name, own in layers.items():
            chunks[name].append(merged([of_rows(found[path].flatten(1)) for path in own]))
    return {name: stacked(some) for name, some in chunks.items()}


def _gradients(of_one: Callable[..., Weights], weights: Weights, x: Tensor, delta: Tensor) -> Weights:
    """`(n, …)` for each weight; every input meets the same random numbers."""
    weights = {path: weight.detach() for path, weight in weights.items()}
    try:
        with torch.random.fork_rng():
            return vmap(of_one, (None, 0, 0), randomness="same")(weights, x, delta)
    except (RuntimeError, NotImplementedError):  # what `vmap` cannot follow: recurrent layers, branches on values
        each = []
        for one, pull in zip(x, delta, strict=True):
            with torch.random.fork_rng():
                each.append(of_one(weights, one, pull))
    return {path: torch.stack([found[path] for found in each]) for path in weights}
