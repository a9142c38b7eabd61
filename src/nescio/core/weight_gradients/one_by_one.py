"""Gradients of single inputs for weights without a rule: all of them at once by `vmap`, or else one after another."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from nescio.core.forward import draws_of, fixed_draws
from nescio.core.model_state import SharedBlock
from nescio.core.random_streams import preserve_generators
from nescio.core.weight_gradients.moments import Moments, merged, of_rows, stacked
from nescio.core.weight_gradients.rules import ROOM

Weights = dict[str, Tensor]


@contextmanager
def _without_warning() -> Iterator[None]:
    """A block without torch's warning of what `vmap` does one by one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        yield


_quiet = SharedBlock(_without_warning)


def moments_without_rule(
    model: nn.Module, x: Tensor, delta: Tensor, layers: dict[str, Weights]
) -> dict[str, Moments]:
    """The moments of each layer's gradient of `⟨delta, logits⟩`, for whatever the model does with its weights."""
    weights = {path: parameter for own in layers.values() for path, parameter in own.items()}
    step = max(1, ROOM // sum(weight.numel() for weight in weights.values()))
    chunks: dict[str, list[Moments]] = {name: [] for name in layers}
    for start in range(0, len(x), step):
        found = _gradients(model, weights, x[start : start + step], delta[start : start + step])
        for name, own in layers.items():
            chunks[name].append(
                merged([of_rows(found[path].reshape(len(found[path]), -1)) for path in own])
            )
    return {name: stacked(some) for name, some in chunks.items()}


def _gradients(model: nn.Module, weights: Weights, x: Tensor, delta: Tensor) -> Weights:
    """`(n, …)` for each weight."""

    def pulled(own: Weights, one: Tensor, pull: Tensor) -> Tensor:
        with (
            preserve_generators(),
            fixed_draws(model),
        ):  # a model that draws is one function of all inputs
            # a clone: the first layer may be in place, and autograd keeps no tensor made in inference mode
            given = one[None].clone()
            # a scripted model takes no weights in place of its own
            logits: Tensor = draws_of(
                functional_call(model, own, (given,)) if own else model(given), 1
            )[0, 0]
        return logits @ pull

    free = {path: weight.detach() for path, weight in weights.items()}
    try:
        with torch.no_grad(), _quiet:  # else all would hang on the weights that are not asked for
            found: Weights = vmap(grad(pulled), (None, 0, 0), randomness="same")(free, x, delta)
            return found
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        # what `vmap` cannot follow: recurrent layers, branches on values, a model that asks for an nn.Parameter
        losses = (pulled({}, one, pull) for one, pull in zip(x, delta, strict=True))
        each = [
            torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
            for loss in losses
        ]
    return {
        path: torch.stack(rows) for path, rows in zip(weights, zip(*each, strict=True), strict=True)
    }
