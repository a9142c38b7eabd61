"""One batch through a network and back: the moments of each input's gradient at the class it was given."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from nescio.core.forward import autograd_errors, draws_of, fixed_draws, run
from nescio.core.logits import log_probs
from nescio.core.random_streams import preserve_generators
from nescio.core.weight_gradients.layers import layers_of
from nescio.core.weight_gradients.moments import Moments, merged
from nescio.core.weight_gradients.one_by_one import moments_without_rule
from nescio.core.weight_gradients.rules import Rule, fits, rule_for
from nescio.errors import NescioError, unknown_name

ALL = "all"
_PASSED = (
    "SelectBackward0",
    "UnsqueezeBackward0",
    "SqueezeBackward1",
    "ViewBackward0",
    "UnsafeViewBackward0",
    "LogSoftmaxBackward0",
)  # from a gradient that sums to 0 over classes they make another


@dataclass(frozen=True)
class BatchGradients:
    """What a batch of N inputs asks of the weights, if the class each was given were right.

    Gradients are those of the cross-entropy divided by `exp(log_scale)`, the largest entry of its gradient in the
    logits: however certain the network is, they have all their digits.
    """

    layers: dict[str, Moments]  # by name; `all` is the whole network
    last: (
        str | None
    )  # the layer that returns the logits: the mean of its gradient is 0 by construction
    log_scale: Tensor  # float64 (N,)
    logits: Tensor  # (1, N, C), as the model returned them
    precision: float  # of the numbers it computed with


@dataclass
class _Use:
    """One call of a layer: what it was given, then, and the place in autograd's graph of what it returned."""

    module: nn.Module
    own: Mapping[str, Tensor]  # its weights in this call; a model may put others in their place
    given: Tensor
    version: int
    returned: GradientEdge
    fits: bool  # the inputs lie along the first axis, as far as its length tells


def batch_gradients(
    model: nn.Module, x: Tensor, layers: Sequence[str] | None = None
) -> BatchGradients:
    """The moments of each input's weight gradient, layer by layer.

    The model must be in eval mode and is changed (hooks, `requires_grad`): call it on a replica, see `running`. Each of
    its passes starts from one random state, so that one that draws is one function.

    Args:
        model: any module from inputs to logits `(N, C)`, which keeps the order of its inputs on the way.
        x: inputs on the model's device; they are not written on.
        layers: names of `layers_of(model)`, or `all`; by default every one.
    """
    known = layers_of(model)
    _check(model, known, layers)
    with torch.inference_mode(False), torch.enable_grad():
        uses, logits = _forward(model, x)
        log_scale, delta = _pull(logits.detach()[None])
        reached = _reached(logits)
        known = {
            name: {path: p for path, p in own.items() if p in reached}
            for name, own in known.items()
        }
        known = {name: own for name, own in known.items() if own}
        _check_reached(known, layers)
        wanted = (
            list(known)
            if layers is None or ALL in layers
            else [name for name in known if name in layers]
        )
        found = _moments(
            model, x, uses, logits, delta, reached, {name: known[name] for name in wanted}
        )
    last = next(
        (name for name, own in known.items() if _returns_logits(uses, own, logits, reached)), None
    )
    if layers is None or ALL in layers:
        found[ALL] = merged(list(found.values()))
    kept = {name: found[name] for name in found if layers is None or name in layers}
    return BatchGradients(
        kept, last, log_scale, logits.detach()[None], torch.finfo(logits.dtype).eps
    )


def _check(model: nn.Module, known: dict[str, Any], layers: Sequence[str] | None) -> None:
    if not known:
        raise NescioError(f"a {type(model).__name__} without weights has no gradient at them")
    if any(weight.is_inference() for own in known.values() for weight in own.values()):
        raise NescioError(
            "the model was made under torch.inference_mode, so its weights can have no gradient; make it "
            "outside"
        )
    for name in layers or ():
        if name not in (*known, ALL):
            raise unknown_name("layer", name, [*known, ALL])
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise NescioError(
                f"{type(module).__name__} without running statistics mixes the inputs of a batch, so "
                "that none has a gradient of its own"
            )


def _check_reached(known: dict[str, Any], layers: Sequence[str] | None) -> None:
    """An error if no weights, or not those that were asked for, have a part in the logits."""
    if not known:
        raise NescioError(
            "the model's output does not depend on its weights in a way autograd can follow"
        )
    for name in layers or ():
        if name not in (*known, ALL):
            raise NescioError(
                f"the model's output does not depend on the weights of {name!r}; expected one of "
                f"{', '.join([*known, ALL])}"
            )


def _forward(model: nn.Module, x: Tensor) -> tuple[list[_Use], Tensor]:
    """Logits `(N, C)` with a graph, and every call of a layer that has a rule."""
    uses: list[_Use] = []

    def hook(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any
    ) -> None:
        given = args[0] if args else kwargs["input"]
        if isinstance(returned, Tensor) and returned.requires_grad:
            fine = fits(module, given, returned, len(x))
            own = {
                name: weight for name, weight in module._parameters.items() if weight is not None
            }
            uses.append(
                _Use(module, own, given.detach(), given._version, get_gradient_edge(returned), fine)
            )

    for parameter in model.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    ruled = [module for module in model.modules() if rule_for(module) is not None]
    handles = [
        module.register_forward_hook(hook, with_kwargs=True, prepend=True) for module in ruled
    ]
    try:
        with preserve_generators(), fixed_draws(model):
            draws = draws_of(
                run(model, x.detach().clone()), len(x)
            )  # a clone: its first layer may be in place
    finally:
        for handle in handles:
            handle.remove()
    if len(draws) != 1:
        raise NescioError(
            f"gradient statistics need a model with one answer for each input, but this one gives "
            f"{len(draws)} draws"
        )
    if not draws.requires_grad:
        raise NescioError(
            "the model's output does not depend on its weights in a way autograd can follow"
        )
    return uses, draws[0]


def _pull(logits: Tensor) -> tuple[Tensor, Tensor]:
    """`p − onehot(argmax p)`, `(N, C)`, divided by its largest entry, after the log of that; exact next to p = 1."""
    log_p, log_q = (part[0] for part in log_probs(logits))
    top = logits[0].argmax(1, keepdim=True)
    log_delta = log_p.scatter(1, top, log_q.gather(1, top))
    log_scale = log_delta.amax(1, keepdim=True)
    delta = (log_delta - log_scale).exp()
    delta = delta.scatter(1, top, -delta.gather(1, top))
    return log_scale[:, 0], delta.to(logits.dtype)


def _reached(logits: Tensor) -> Counter[Tensor]:
    """How often each weight is used on the way to the logits: edges of autograd's graph that end in it."""
    found: Counter[Tensor] = Counter()
    seen, waiting = set(), [logits.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node.name() == "CheckpointFunctionBackward":
            raise NescioError(
                "the model uses reentrant checkpoints (torch.utils.checkpoint), which hide weights from "
                "autograd's graph; use_reentrant=False will do"
            )
        seen.add(node)
        for after, _ in node.next_functions:
            variable = getattr(after, "variable", None)
            if variable is not None:
                found[variable] += 1
            else:
                waiting.append(after)
    return found


def _returns_logits(
    uses: list[_Use], own: dict[str, Tensor], logits: Tensor, reached: Counter[Tensor]
) -> bool:
    """Whether what a layer returned are the logits, but perhaps for their shape, and its weights do nothing else."""
    node = logits.grad_fn
    while node is not None and node.name() in _PASSED:
        node = node.next_functions[0][0]
    mixing = [use for use in uses if not isinstance(use.module, nn.modules.batchnorm._BatchNorm)]
    returns = any(
        use.returned.node is node for use in mixing if use.own["weight"] in set(own.values())
    )
    return returns and all(reached[parameter] == 1 for parameter in own.values())


def _moments(
    model: nn.Module,
    x: Tensor,
    uses: list[_Use],
    logits: Tensor,
    delta: Tensor,
    reached: Counter[Tensor],
    layers: dict[str, dict[str, Tensor]],
) -> dict[str, Moments]:
    """Of each layer: by its rule where the graph shows that its weights were used by it alone, else without."""
    by_weight: dict[Tensor, list[_Use]] = {}
    for use in uses:
        by_weight.setdefault(use.own["weight"], []).append(use)
    called = {
        name: [use for p in own.values() for use in by_weight.get(p, [])]
        for name, own in layers.items()
    }
    along = _along_first_axis(model, x, uses)
    some = [use for calls in called.values() for use in calls]
    edges = [use.returned for use in some]
    with autograd_errors():
        pulled = torch.autograd.grad(logits, edges, delta, allow_unused=True) if edges else ()
    given = {id(use): pull for use, pull in zip(some, pulled, strict=True) if pull is not None}
    found: dict[str, Moments] = {}
    with torch.no_grad():
        for name, calls in called.items():
            calls = [use for use in calls if id(use) in given]
            if along.issuperset(map(id, calls)) and _follows_rule(calls, layers[name], reached):
                rule = cast(Rule, rule_for(calls[0].module))
                found[name] = rule(calls[0].module, [(use.given, given[id(use)]) for use in calls])
    rest = {name: own for name, own in layers.items() if name not in found}
    if rest:
        with autograd_errors():
            found |= moments_without_rule(model, x, delta, rest)
    return {name: found[name] for name in layers}


def _along_first_axis(model: nn.Module, x: Tensor, uses: list[_Use]) -> set[int]:
    """The calls, by their id, along whose first axis the inputs lie: it is as long as they are many, and for another
    number of inputs is so again. Words come first in some networks, and may be as many as the inputs.
    """
    number = 3 if len(x) == 2 else 2
    others, _ = _forward(model, x[:1].repeat_interleave(number, 0))
    if [use.module for use in others] != [
        use.module for use in uses
    ]:  # it takes one input after another, say
        return set()
    return {id(use) for use, other in zip(uses, others, strict=True) if use.fits and other.fits}


def _follows_rule(calls: list[_Use], own: dict[str, Tensor], reached: Counter[Tensor]) -> bool:
    """Whether a layer's weights were used by its own calls alone, on what is as it was then."""
    if len({use.module for use in calls}) != 1:
        return False
    mine = set(own.values())
    fine = all(use.given._version == use.version and set(use.own.values()) == mine for use in calls)
    return fine and all(reached[parameter] == len(calls) for parameter in mine)
