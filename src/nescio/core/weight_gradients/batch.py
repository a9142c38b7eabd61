"""The moments of each input's weight gradient at its predicted class, for one batch."""

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
from nescio.core.weight_gradients import layers as rules
from nescio.core.weight_gradients.layers import Rule, Weights, layers_of, rule_for
from nescio.core.weight_gradients.moments import Moments, merge
from nescio.errors import NescioError, check_name

ALL = "all"
NO_PATH = "the model's output does not depend on its weights in a way autograd can follow"
# from a gradient that sums to 0 over classes these make another
_PRESERVE_SUM = [f"{name}Backward0" for name in ("Select", "Unsqueeze", "View", "UnsafeView")]
_PRESERVE_SUM += ["SqueezeBackward1", "LogSoftmaxBackward0"]


@dataclass(frozen=True)
class BatchGradients:
    """What N inputs ask of the weights, if the class predicted for each were right.

    Gradients are those of the cross-entropy divided by `exp(log_scale)`, the largest entry of its
    gradient in the logits: however certain the network is, they have all their digits.

    Attributes:
        layers: moments by the layer's name; `all` is the whole network.
        last: the layer that returns the logits, if any, whose gradient always has the mean 0.
        log_scale: float64 `(N,)`.
        logits: `(1, N, C)`, as the model returned them.
        precision: of the numbers they were computed in.
    """

    layers: dict[str, Moments]
    last: str | None
    log_scale: Tensor
    logits: Tensor
    precision: float


@dataclass
class _Call:
    """One call of a layer: its input, and the place in autograd's graph of its output."""

    module: nn.Module
    weights: Mapping[str, Tensor]  # in this call; a model may put others in their place
    given: Tensor
    version: int  # of `given`, which tells whether it was overwritten since
    returned: GradientEdge
    on_batch: bool  # the inputs lie along the first axis, as far as its length tells


def batch_gradients(
    model: nn.Module, x: Tensor, layers: Sequence[str] | None = None
) -> BatchGradients:
    """Return the moments of each input's weight gradient, layer by layer.

    The model must be in eval mode and is changed (hooks, `requires_grad`): give a replica, see
    `running`. Each pass starts from one random state, so that a stochastic model is one function.

    Args:
        model: any module from inputs to logits `(N, C)` that keeps the order of its inputs.
        x: inputs on the model's device; they are not written on.
        layers: names of `layers_of(model)`, or `all`; by default every one.
    """
    known = layers_of(model)
    _check(model, known, layers)
    whole = layers is None or ALL in layers
    with torch.inference_mode(False), torch.enable_grad():
        calls, logits = _forward(model, x)
        log_scale, delta = _logit_gradient(logits.detach()[None])
        uses = _uses(logits)
        used: dict[str, Weights] = {}
        for name, params in known.items():
            if params := {path: weight for path, weight in params.items() if weight in uses}:
                used[name] = params
        if not used:
            raise NescioError(NO_PATH)
        for name in layers or ():
            if name not in (*used, ALL):
                problem = f"the model's output does not depend on the weights of {name!r}"
                raise NescioError(f"{problem}; expected one of {', '.join([*used, ALL])}")
        wanted = {name: params for name, params in used.items() if whole or name in (layers or ())}
        moments = _moments(model, x, calls, logits, delta, uses, wanted)
    returning = (name for name in used if _returns_logits(calls, used[name], logits, uses))
    if whole:
        moments[ALL] = merge(list(moments.values()))
    asked = {name: moments[name] for name in moments if layers is None or name in layers}
    precision = torch.finfo(logits.dtype).eps
    return BatchGradients(asked, next(returning, None), log_scale, logits.detach()[None], precision)


def _check(model: nn.Module, known: dict[str, Weights], layers: Sequence[str] | None) -> None:
    if not known:
        raise NescioError(f"a {type(model).__name__} without weights has no gradient at them")
    if any(weight.is_inference() for params in known.values() for weight in params.values()):
        made = "the model was made under torch.inference_mode"
        raise NescioError(f"{made}, so its weights can have no gradient; make it outside")
    for name in layers or ():
        check_name("layer", name, [*known, ALL])
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            problem = f"{type(module).__name__} without running statistics mixes the inputs"
            raise NescioError(f"{problem} of a batch, so that none has a gradient of its own")


def _forward(model: nn.Module, x: Tensor) -> tuple[list[_Call], Tensor]:
    """Logits `(N, C)` with a graph, and every call of a layer that has a rule."""
    calls: list[_Call] = []

    def hook(module: nn.Module, args: Any, kwargs: dict[str, Any], returned: Any) -> None:
        given = args[0] if args else kwargs["input"]
        if isinstance(returned, Tensor) and returned.requires_grad:
            on_batch = rules.runs_on_batch(module, given, returned, len(x))
            weights = {name: w for name, w in module._parameters.items() if w is not None}
            edge = get_gradient_edge(returned)
            calls.append(_Call(module, weights, given.detach(), given._version, edge, on_batch))

    for weight in model.parameters():
        weight.requires_grad_(weight.is_floating_point())
    ruled = [module for module in model.modules() if rule_for(module) is not None]
    handles = [m.register_forward_hook(hook, with_kwargs=True, prepend=True) for m in ruled]
    try:
        with preserve_generators(), fixed_draws(model):
            # a clone: the first layer may work in place
            draws = draws_of(run(model, x.detach().clone()), len(x))
    finally:
        for handle in handles:
            handle.remove()
    if len(draws) != 1:
        needed = "gradient statistics need a model with one answer for each input"
        raise NescioError(f"{needed}, but this one gives {len(draws)} draws")
    if not draws.requires_grad:
        raise NescioError(NO_PATH)
    return calls, draws[0]


def _logit_gradient(logits: Tensor) -> tuple[Tensor, Tensor]:
    """`p − onehot(argmax p)` `(N, C)` over its largest entry, after the log of that entry."""
    log_p, log_q = (part[0] for part in log_probs(logits))
    top = logits[0].argmax(1, keepdim=True)
    log_delta = log_p.scatter(1, top, log_q.gather(1, top))
    log_scale = log_delta.amax(1, keepdim=True)
    delta = (log_delta - log_scale).exp()
    delta = delta.scatter(1, top, -delta.gather(1, top))
    return log_scale[:, 0], delta.to(logits.dtype)


def _uses(logits: Tensor) -> Counter[Tensor]:
    """How often each weight is used on the way to the logits: edges of the graph that end in it."""
    uses: Counter[Tensor] = Counter()
    seen, waiting = set(), [logits.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node.name() == "CheckpointFunctionBackward":
            problem = "the model uses reentrant checkpoints (torch.utils.checkpoint)"
            effect = "which hide weights from autograd's graph; use_reentrant=False will do"
            raise NescioError(f"{problem}, {effect}")
        seen.add(node)
        for after, _ in node.next_functions:
            if (variable := getattr(after, "variable", None)) is not None:
                uses[variable] += 1
            else:
                waiting.append(after)
    return uses


def _returns_logits(
    calls: list[_Call], params: Weights, logits: Tensor, uses: Counter[Tensor]
) -> bool:
    """Whether a layer returned the logits, up to their shape, and its weights do nothing else."""
    node = logits.grad_fn
    while node is not None and node.name() in _PRESERVE_SUM:
        node = node.next_functions[0][0]
    weights, batch_norm = set(params.values()), nn.modules.batchnorm._BatchNorm
    layer_calls = (call for call in calls if call.weights["weight"] in weights)
    at_end = (call for call in layer_calls if call.returned.node is node)
    returns = any(not isinstance(call.module, batch_norm) for call in at_end)
    return returns and all(uses[weight] == 1 for weight in weights)


def _moments(
    model: nn.Module,
    x: Tensor,
    calls: list[_Call],
    logits: Tensor,
    delta: Tensor,
    uses: Counter[Tensor],
    layers: dict[str, Weights],
) -> dict[str, Moments]:
    """By a layer's rule where the graph shows that it alone used its weights, else without."""
    by_weight: dict[Tensor, list[_Call]] = {}
    for call in calls:
        by_weight.setdefault(call.weights["weight"], []).append(call)
    by_layer: dict[str, list[_Call]] = {}
    for name, params in layers.items():
        by_layer[name] = [call for weight in params.values() for call in by_weight.get(weight, [])]
    on_batch = _on_batch(model, x, calls)
    needed = [call for calls in by_layer.values() for call in calls]
    edges = [call.returned for call in needed]
    with autograd_errors():
        pulled = torch.autograd.grad(logits, edges, delta, allow_unused=True) if edges else ()
    deltas = {id(c): pull for c, pull in zip(needed, pulled, strict=True) if pull is not None}
    moments: dict[str, Moments] = {}
    with torch.no_grad():
        for name, group in by_layer.items():
            group = [call for call in group if id(call) in deltas]
            if on_batch.issuperset(map(id, group)) and _by_rule(group, layers[name], uses):
                module, rule = group[0].module, cast(Rule, rule_for(group[0].module))
                moments[name] = rule(module, [(call.given, deltas[id(call)]) for call in group])
    if others := {name: params for name, params in layers.items() if name not in moments}:
        with autograd_errors():
            moments |= rules.moments_without_rule(model, x, delta, others)
    return {name: moments[name] for name in layers}


def _on_batch(model: nn.Module, x: Tensor, calls: list[_Call]) -> set[int]:
    """The calls, by id, along whose first axis the inputs lie, also if there are more or fewer.

    Tokens come first in some networks, and may be as many as the inputs.
    """
    number = 3 if len(x) == 2 else 2
    others, _ = _forward(model, x[:1].repeat_interleave(number, 0))
    if [other.module for other in others] != [call.module for call in calls]:
        return set()  # it takes one input after another, say
    pairs = zip(calls, others, strict=True)
    return {id(call) for call, other in pairs if call.on_batch and other.on_batch}


def _by_rule(calls: list[_Call], params: Weights, uses: Counter[Tensor]) -> bool:
    """Whether a layer's weights were used by its own calls alone, on what is as it was then."""
    if len({call.module for call in calls}) != 1:
        return False
    weights = set(params.values())
    unchanged = all(call.given._version == call.version for call in calls)
    alone = all(set(call.weights.values()) == weights for call in calls)
    return unchanged and alone and all(uses[weight] == len(calls) for weight in weights)
