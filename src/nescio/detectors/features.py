"""What a network sees before it answers: the features of a layer, kept in the same forward pass as the logits."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import (
    is_batchedtensor,  # what a layer inside vmap returns: all draws at once
)

from nescio.core.predict import draws_of, run
from nescio.core.shared_block import SharedBlock
from nescio.errors import NescioError
from nescio.methods import Method


class NoFeaturesError(NescioError):
    """A model has no features to be had: no linear layer gives its logits, or each draw has features of its own."""


HEAD = "(head)"  # stands for the input of the last linear layer
ROUNDING = 1e-5  # of the largest logit
SPATIAL = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
)


@dataclass(frozen=True)
class ForwardPass:
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

    def of(self, rows: Tensor) -> "ForwardPass":
        """That of some inputs of the batch."""
        rows = rows.to(self.logits.device)
        features = {name: value[rows] for name, value in self.features.items()}
        return ForwardPass(
            self.logits[:, rows],
            features,
            self.head,
            None if self.raised is None else self.raised[rows],
        )


def head_of(seen: ForwardPass, who: str) -> tuple[nn.Linear, Tensor]:
    """The last linear layer and what it returned, `(B, C)`, or an error to whoever needs it if there is none."""
    if seen.head is None or seen.raised is None:
        raise NescioError(
            f"{who} needs a model that ends in a linear layer, but the logits of this one come from none "
            "(those of DUQ are kernels); take a detector on features, such as Mahalanobis"
        )
    return seen.head, seen.raised


def forward_with_features(model: nn.Module, x: Tensor, layers: Sequence[str] = ()) -> ForwardPass:
    """Run a model on a batch, without gradients, and keep what some layers return.

    A map of features is averaged over its positions. Models with draws have no such features: each draw has its own.
    """
    kept = _Kept()
    with torch.no_grad(), _as_written(model), kept.of(model, layers):
        logits = draws_of(run(model, x.clone()), len(x))
    if layers and (len(logits) > 1 or kept.batched):
        raise NoFeaturesError(
            f"the model has draws ({len(logits)}), each with features of its own; give one network, "
            "such as ensemble.member(0), or take a detector on the logits"
        )
    found = {
        name: _rows(*kept.returned[name], len(x), name) for name in layers if name in kept.returned
    }
    head = raised = None
    if HEAD in layers and HEAD not in found:
        head, found[HEAD], raised = _head(kept.linear, logits[0], model, x)
    for name in layers:
        if name not in found:
            raise NescioError(
                f"no layer {name!r} is run that could be taken for features. {_layers_of(model, x)}"
            )
    return ForwardPass(logits, found, head, raised)


def _as_written(model: nn.Module) -> AbstractContextManager[object]:
    """A block in which a model runs as it was written: what torch.compile made of it may pass over later hooks."""
    compiled = any(
        "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )
    return _eager if compiled else nullcontext()


_eager = SharedBlock(lambda: torch.compiler.set_stance("force_eager"))


class _Kept:
    """What layers leave behind as a model runs."""

    def __init__(self) -> None:
        self.returned: dict[str, tuple[nn.Module, Any]] = {}
        self.linear: list[
            tuple[nn.Linear, Tensor, Tensor]
        ] = []  # each that ran, what it was given and returned

    @property
    def batched(self) -> bool:
        return any(is_batchedtensor(value) for _, value in self.returned.values()) or any(
            is_batchedtensor(value) for _, value, _ in self.linear
        )

    @contextmanager
    def of(self, model: nn.Module, layers: Sequence[str]) -> Iterator[None]:
        """A block in which layers of a model that run are watched."""
        modules = dict(model.named_modules())
        on_features = next(
            (one for one in modules.values() if isinstance(one, Method) and one.on_features), None
        )
        watched = {name: modules[name] for name in layers if name in modules}
        if HEAD in layers and on_features is not None:  # a method whose network ends in features
            watched[HEAD] = on_features.net
        watched = {
            name: one
            for name, one in watched.items()
            if not isinstance(one, torch.jit.ScriptModule)
        }
        hooks = [
            module.register_forward_hook(self._keeper(name)) for name, module in watched.items()
        ]
        if HEAD in layers and on_features is None:
            linear = [module for module in modules.values() if isinstance(module, nn.Linear)]
            hooks += [
                module.register_forward_hook(self._keep_linear, with_kwargs=True)
                for module in linear
            ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _keeper(self, name: str) -> Any:
        def hook(module: nn.Module, _: tuple[Any, ...], returned: Any) -> None:
            # a copy, since what comes next may write on it
            self.returned[name] = (
                module,
                returned.clone() if isinstance(returned, Tensor) else returned,
            )

        return hook

    def _keep_linear(
        self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], returned: Any
    ) -> None:
        if isinstance(module, nn.Linear):
            self.linear.append((module, given[0] if given else named["input"], returned))


def _head(
    ran: Sequence[tuple[nn.Linear, Tensor, Tensor]], logits: Tensor, model: nn.Module, x: Tensor
) -> tuple[nn.Linear, Tensor, Tensor]:
    """The last linear layer that gives the logits `(B, C)`, what it was given and returned."""
    for module, given, returned in reversed(ran):
        if module.out_features == logits.shape[1]:
            features, raised = (_rows(module, value, len(x), HEAD) for value in (given, returned))
            if _same_answers(raised, logits):
                return module, features, raised
    what = (
        "no linear layer that it runs gives the model's logits"
        if ran
        else "the model runs no linear layer"
    )
    raise NoFeaturesError(
        f"{what}, so that none has an input to take for features. {_layers_of(model, x)}"
    )


def _same_answers(raised: Tensor, logits: Tensor) -> bool:
    """Whether logits are what a layer returned, up to a temperature and what all classes of an input share.

    Or up to one function that never falls, such as a bound on them, `c·tanh(z / c)`, which changes far inputs most.
    """
    if torch.equal(raised, logits):  # as of nearly all networks, and cheaper to see
        return True
    ours, theirs = ((value - value.mean(1, keepdim=True)).double() for value in (raised, logits))
    sizes = torch.linalg.vector_norm(ours, dim=1) * torch.linalg.vector_norm(theirs, dim=1)
    close = (ours * theirs).sum(1) >= 0.999 * sizes
    return bool((close | ~sizes.isfinite() | ~(sizes > 0)).all()) or _never_falls(raised, logits)


def _never_falls(raised: Tensor, logits: Tensor) -> bool:
    """Whether of any two entries, of one input or of two, the larger one gives no smaller logit, up to rounding."""
    found = logits.flatten()[raised.flatten().argsort()].double()
    return bool((found.cummax(0).values - found <= ROUNDING * found.abs().amax()).all())


def _rows(module: nn.Module, found: Any, count: int, name: str) -> Tensor:
    """Features `(B, F)` of what a layer returned: the mean over positions of images, series or words."""
    if (
        not isinstance(found, Tensor)
        or found.dim() < 2
        or len(found) != count
        or not found.is_floating_point()
    ):
        what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise NescioError(
            f"the features of {name!r} are {what}; expected a tensor (B, …) for {count} inputs"
        )
    if found.dim() == 3 and not isinstance(module, SPATIAL):
        return found.mean(1)  # (B, words, F)
    return found.flatten(2).mean(2) if found.dim() > 2 else found  # (B, F, …)


def _layers_of(model: nn.Module, x: Tensor) -> str:
    """All modules that run, with the shapes that they return for one input, in order."""
    names = [name for name, _ in model.named_modules() if name]
    kept = _Kept()
    with torch.no_grad(), _as_written(model), kept.of(model, names):
        run(model, x[:1].clone())
    shapes = {
        name: tuple(out.shape[1:]) if isinstance(out, Tensor) else ""
        for name, (_, out) in kept.returned.items()
    }
    if not shapes and any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        return "Its modules are scripted or traced, and cannot be looked into; give the network it was made from"
    if not shapes:
        return "It runs no module that has a name"
    return "Give one by name: " + ", ".join(
        f"{name} {shapes[name]}" for name in names if name in shapes
    )
