"""The layers of a network, and the gradient of each single input at their weights.

The usual layers have a rule, others go through `vmap`. A rule takes a pair for each call, what the
layer was given, `(N, …)`, and the gradient at what it returned, and gives the moments of the
gradient at its weights. Large gradients are made for a few inputs at a time.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from nescio.core.forward import draws_of, fixed_draws
from nescio.core.model_state import SharedBlock
from nescio.core.random_streams import preserve_generators
from nescio.core.weight_gradients.moments import Moments, merge, of_outer, of_rows, stack

Weights = dict[str, Tensor]
Calls = Sequence[tuple[Tensor, Tensor]]  # of one layer: its inputs, and gradients at its outputs
Rule = Callable[[Any, Calls], Moments]
Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
MAX_NUMBERS = 2**24  # in the largest tensor that is made for some inputs at a time
_KINDS = {f"Conv{axes}d": "conv" for axes in (1, 2, 3)}
_KINDS |= {f"BatchNorm{axes}d": "norm" for axes in (1, 2, 3)}
_KINDS |= {"LayerNorm": "norm", "GroupNorm": "norm"}


def layers_of(model: nn.Module) -> dict[str, Weights]:
    """Return the weights of each layer, biases included, by the layer's name and their full names.

    A layer is named by its path in the network, without what all paths share (a method's `net.`);
    where that is only a number, as in `nn.Sequential`, by its kind and place: `conv2`, `linear1`.
    Weights of two layers count to the first.

    >>> list(layers_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))))
    ['linear1', 'linear2']
    """
    weights: dict[str, Weights] = {}
    for path, parameter in model.named_parameters():
        if parameter.is_floating_point():
            weights.setdefault(_layer_path(path), {})[path] = parameter
    modules = dict(model.named_modules())  # a scripted one has no get_submodule
    names = _names({path: modules[path] for path in weights})
    return dict(zip(names, weights.values(), strict=True))


def _layer_path(path: str) -> str:
    """The path of a weight's layer; a parametrised one keeps its weight in modules of their own.

    >>> _layer_path("net.2.bias"), _layer_path("net.2.parametrizations.weight.original0")
    ('net.2', 'net.2')
    """
    return f".{path.rpartition('.')[0]}.".partition(".parametrizations.")[0].strip(".")


def _names(layers: dict[str, nn.Module]) -> list[str]:
    parents = [path.split(".")[:-1] for path in layers]
    shortest = min(map(len, parents), default=0)
    differing = (at for at in range(shortest) if len({parts[at] for parts in parents}) > 1)
    shared = next(differing, shortest)  # parts that all paths begin with
    places: Counter[str] = Counter()
    names = []
    for path, module in layers.items():
        kind = str(getattr(module, "original_name", type(module).__name__))
        kind = kind.removeprefix("Parametrized")
        kind = _KINDS.get(kind, kind.lower())
        places[kind] += 1
        short = ".".join(path.split(".")[shared:])
        # `all` is the whole network
        telling = any(character.isalpha() for character in short) and short != "all"
        names.append(short if telling else f"{kind}{places[kind]}")
    return [path or "own" for path in layers] if len(set(names)) < len(names) else names


def rule_for(module: nn.Module) -> Rule | None:
    """Return the rule of a layer, if it is of a kind that has one, and works as torch made it."""
    kind = next((kind for kind in _RULES if isinstance(module, kind)), None)
    if kind is None or type(module).forward is not kind.forward:
        return None
    parametrised = nn.utils.parametrize.is_parametrized(module)
    return None if parametrised or module._parameters.get("weight") is None else _RULES[kind]


def runs_on_batch(module: nn.Module, layer_input: Tensor, returned: Tensor, inputs: int) -> bool:
    """Whether a layer was called on a batch of so many inputs, along its first axis."""
    axes = {nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5}
    least = next((number for kind, number in axes.items() if isinstance(module, kind)), 2)
    return len(layer_input) == len(returned) == inputs and layer_input.dim() >= least


def _linear(module: nn.Linear, calls: Calls) -> Moments:
    """`δ ⊗ a`, summed over the vectors of one input if there are several, such as tokens."""
    inputs = torch.cat([a.reshape(len(a), -1, a.shape[-1]) for a, _ in calls], 1)  # (N, T, in)
    delta = torch.cat([d.reshape(len(d), -1, d.shape[-1]) for _, d in calls], 1)  # (N, T, out)
    if inputs.shape[1] == 1:
        weight = of_outer(delta[:, 0], inputs[:, 0])
    else:
        size = inputs.shape[2] * delta.shape[2]
        weight = _chunked(len(inputs), size, lambda rows: torch.bmm(delta[rows].mT, inputs[rows]))
    return weight if module.bias is None else merge([weight, of_rows(delta.sum(1))])


def _convolution(module: Conv, calls: Calls) -> Moments:
    """The products of `δ` at each place with the window it came from, summed over places."""
    places = max(d[0, 0].numel() for _, d in calls)
    size = max(module.weight.numel(), places * module.weight[0].numel() * module.groups)

    def gradient(rows: slice) -> Tensor:
        return reduce(torch.add, (_windowed(module, a[rows], d[rows]) for a, d in calls))

    weight = _chunked(len(calls[0][0]), size, gradient)
    if module.bias is None:
        return weight
    return merge([weight, of_rows(reduce(torch.add, (d.flatten(2).sum(2) for _, d in calls)))])


def _windowed(module: Conv, inputs: Tensor, delta: Tensor) -> Tensor:
    """`(n · groups, out / groups, window)`; windows are read in place, channels innermost."""
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    if any(module._reversed_padding_repeated_twice):
        inputs = F.pad(inputs, module._reversed_padding_repeated_twice, mode=mode)
    n, groups, axes = len(inputs), module.groups, len(module.kernel_size)
    last = [0, *range(2, axes + 2), 1]
    inputs, delta = inputs.permute(last).contiguous(), delta.permute(last)  # (n, places…, channels)
    places, channels = delta.shape[1:-1], inputs.shape[-1] // groups
    batch, *along, _ = inputs.stride()
    strides = [a * s for a, s in zip(along, module.stride, strict=True)]
    dilations = [a * d for a, d in zip(along, module.dilation, strict=True)]
    shape = (n, *places, groups, *module.kernel_size, channels)
    windows = inputs.as_strided(shape, (batch, *strides, channels, *dilations, 1))
    columns = windows.movedim(axes + 1, 1).reshape(n * groups, places.numel(), -1)
    deltas = delta.reshape(n, places.numel(), groups, -1).permute(0, 2, 3, 1)
    return torch.bmm(deltas.reshape(n * groups, -1, places.numel()), columns)


def _batch_norm(module: BatchNorm, calls: Calls) -> Moments:
    """In eval mode, where it scales and shifts each channel by itself."""
    mean, variance = cast(Tensor, module.running_mean), cast(Tensor, module.running_var)
    scale = (variance + module.eps).rsqrt()
    shift = -mean * scale

    def normalised(a: Tensor) -> Tensor:
        per_channel = (1, -1, *[1] * (a.dim() - 2))
        return torch.addcmul(shift.view(per_channel), a, scale.view(per_channel))

    def over_places(values: Tensor) -> Tensor:  # (N, channels, …) → (N, channels)
        return values.reshape(len(values), scale.numel(), -1).sum(2)

    parts = [[over_places(d * normalised(a)) for a, d in calls]]  # of the weight, and of the bias
    parts += [] if module.bias is None else [[over_places(d) for _, d in calls]]
    return merge([of_rows(reduce(torch.add, part)) for part in parts])


def _chunked(inputs: int, size: int, gradient: Callable[[slice], Tensor]) -> Moments:
    """The moments of `gradient(rows)`, reshaped to a row for each input, some inputs at a time."""
    chunks = []
    for start in range(0, inputs, step := max(1, MAX_NUMBERS // size)):
        rows = slice(start, min(start + step, inputs))
        chunks.append(of_rows(gradient(rows).reshape(rows.stop - rows.start, -1)))
    return stack(chunks)


_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _batch_norm),
}


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
    """Return the moments of the layers' gradients of `⟨delta, logits⟩`, for any use of weights."""
    weights = {path: weight for params in layers.values() for path, weight in params.items()}
    step = max(1, MAX_NUMBERS // sum(weight.numel() for weight in weights.values()))
    chunks: dict[str, list[Moments]] = {name: [] for name in layers}
    for start in range(0, len(x), step):
        chunk = slice(start, start + step)
        rows = _gradients(model, weights, x[chunk], delta[chunk])
        for name, params in layers.items():
            parts = (rows[path].reshape(len(rows[path]), -1) for path in params)
            chunks[name].append(merge([of_rows(part) for part in parts]))
    return {name: stack(parts) for name, parts in chunks.items()}


def _gradients(model: nn.Module, weights: Weights, x: Tensor, delta: Tensor) -> Weights:
    """`(n, …)` for each weight: of all inputs at once by `vmap`, or else one after another."""

    def projected(params: Weights, row: Tensor, pull: Tensor) -> Tensor:
        with preserve_generators(), fixed_draws(model):  # a stochastic model is one function
            # a clone: the first layer may work in place, and autograd keeps no inference tensor
            x_row = row[None].clone()
            # a scripted model takes no weights in place of its own
            output = functional_call(model, params, (x_row,)) if params else model(x_row)
            logits: Tensor = draws_of(output, 1)[0, 0]
        return logits @ pull

    detached = {path: weight.detach() for path, weight in weights.items()}
    try:
        with torch.no_grad(), _quiet:  # else all would hang on the weights that are not asked for
            per_input = vmap(grad(projected), (None, 0, 0), randomness="same")
            return cast(Weights, per_input(detached, x, delta))
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        # `vmap` cannot follow recurrent layers, branches on values, checks for an nn.Parameter
        losses = (projected({}, row, pull) for row, pull in zip(x, delta, strict=True))
        parameters = list(weights.values())
        each = [torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in losses]
    columns = zip(*each, strict=True)  # detached: older torch's materialised zeros require grad
    return {path: torch.stack(rows).detach() for path, rows in zip(weights, columns, strict=True)}
