"""What a network sees before it answers: the features of a layer, kept in the same forward pass as the logits."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor  # what a layer inside vmap returns: all draws at once

from nescio.errors import NescioError
from nescio.methods import Method
from nescio.predict import draws_of, run

HEAD, RAISED = "(head)", "(raised)"  # stand for the input of the last linear layer, and for what it returns
SPATIAL = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.modules.pooling._MaxPoolNd,
           nn.modules.pooling._AvgPoolNd, nn.modules.pooling._AdaptiveAvgPoolNd)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What a model made of a batch.

    Attributes:
        logits: `(S, B, C)`.
        features: `(B, F)` for each layer that was asked for, in the model's type; HEAD is the input of the last linear
            layer.
        head: that layer, if it was asked for and the model has one.
        raised: what it returned, `(B, C)`: the logits, if nothing comes after it.
    """

    logits: Tensor
    features: Mapping[str, Tensor]
    head: nn.Linear | None = None
    raised: Tensor | None = None

    def of(self, rows: Tensor) -> "Seen":
        """That of some inputs of the batch."""
        rows = rows.to(self.logits.device)
        features = {name: value[rows] for name, value in self.features.items()}
        return Seen(self.logits[:, rows], features, self.head, None if self.raised is None else self.raised[rows])


def head_of(seen: Seen, who: str) -> tuple[nn.Linear, Tensor]:
    """The last linear layer and what it returned, `(B, C)`, or an error to whoever needs it if there is none."""
    if seen.head is None or seen.raised is None:
        raise NescioError(f"{who} needs a model that ends in a linear layer, but the logits of this one come from none "
                          "(those of DUQ are kernels); take a detector on features, such as Mahalanobis")  # fmt: skip
    return seen.head, seen.raised


def look(model: nn.Module, x: Tensor, layers: Sequence[str] = ()) -> Seen:
    """Run a model on a batch, without gradients, and keep what some layers return.

    A map of features is averaged over its positions. Models with draws have no such features: each draw has its own.
    """
    kept: dict[str, tuple[nn.Module, Tensor]] = {}
    with torch.no_grad(), _kept(model, layers, kept):
        logits = draws_of(run(model, x.clone()), len(x))
    if layers and (len(logits) > 1 or any(is_batchedtensor(value) for _, value in kept.values())):
        raise NescioError(f"the model has draws ({len(logits)}), each with features of its own; give one network, "
                          "such as ensemble.member(0), or take a detector on the logits")  # fmt: skip
    found = {name: _rows(*kept[name], len(x), name) for name in layers if name in kept}
    for name in layers:
        if name not in found:
            what = "the model runs no linear layer, whose input" if name == HEAD else f"no layer {name!r} is run that"
            raise NescioError(f"{what} could be taken for features. {_layers_of(model, x)}")
    head = kept[HEAD][0] if HEAD in layers else None
    if isinstance(head, nn.Linear) and head.out_features != logits.shape[2]:
        raise NescioError(f"the last linear layer returns {head.out_features} numbers, but the model {logits.shape[2]}"
                          f", so that its input need not be the features. {_layers_of(model, x)}")  # fmt: skip
    if not isinstance(head, nn.Linear):
        return Seen(logits, found)
    return Seen(logits, found, head, _rows(*kept[RAISED], len(x), RAISED))


@contextmanager
def _kept(model: nn.Module, layers: Sequence[str], kept: dict[str, tuple[nn.Module, Tensor]]) -> Iterator[None]:
    """A block in which layers that run leave on `kept` what they return; the head, what it was given."""
    modules = dict(model.named_modules())
    hooks = []

    def keep(name: str, of_input: bool) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
            kept[name] = module, given[0] if of_input else returned
            if of_input:
                kept[RAISED] = module, returned

        return hook

    for name in layers:
        if name == HEAD and isinstance(model, Method) and model.on_features:  # whose network ends in features
            hooks.append(model.net.register_forward_hook(keep(name, of_input=False)))
        elif name == HEAD:  # the last one to run leaves its own
            linear = [module for module in modules.values() if isinstance(module, nn.Linear)]
            hooks += [module.register_forward_hook(keep(name, of_input=True)) for module in linear]
        elif name in modules:
            hooks.append(modules[name].register_forward_hook(keep(name, of_input=False)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _rows(module: nn.Module, found: Any, count: int, name: str) -> Tensor:
    """Features `(B, F)` of what a layer returned: the mean over positions of images, series or words."""
    if not isinstance(found, Tensor) or found.dim() < 2 or len(found) != count or not found.is_floating_point():
        what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise NescioError(f"the features of {name!r} are {what}; expected a tensor (B, …) for {count} inputs")
    if found.dim() == 3 and not isinstance(module, SPATIAL):
        return found.mean(1)  # (B, words, F)
    return found.flatten(2).mean(2) if found.dim() > 2 else found  # (B, F, …)


def _layers_of(model: nn.Module, x: Tensor) -> str:
    """All modules that run, with the shapes that they return for one input, in order."""
    names = [name for name, _ in model.named_modules() if name]
    kept: dict[str, tuple[nn.Module, Any]] = {}
    with torch.no_grad(), _kept(model, names, kept):
        run(model, x[:1].clone())
    shapes = {name: tuple(out.shape[1:]) if isinstance(out, Tensor) else "" for name, (_, out) in kept.items()}
    return "Give one by name: " + ", ".join(f"{name} {shapes[name]}" for name in names if name in shapes)
