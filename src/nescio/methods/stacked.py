"""One architecture with many sets of weights, stacked along a first axis and run at once."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.batchnorm import _NormBase

from nescio.core.logits import two_classes
from nescio.core.replica import replica

MAX_ROWS = 2**16  # inputs × draws run at a time
MAX_IMAGE_ROWS = 2**12  # the same for networks with convolutions, whose activations are larger
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_ATTRIBUTES_OF_TORCH = set(vars(nn.Module()))
_PLAIN = (bool, int, float, complex, str, bytes, torch.device, torch.dtype)

Stacked = Tensor | dict[str, Tensor]


def map_stacked(run: Callable[..., Tensor], *stacked: Stacked) -> Tensor:
    """Return `run` over the first axis of its arguments, vectorised: outputs `(S, …)`.

    What does not depend on that axis, such as the layers before the first dropout, is computed
    once. A network that cannot be vectorised (it depends on its values, or has an operation without
    a batching rule) is run in a loop.
    """
    try:
        return vmap(run, randomness="different")(*stacked)
    except RuntimeError:  # an error of the network itself is raised again by the loop
        return loop_stacked(run, *stacked)


def loop_stacked(run: Callable[..., Tensor], *stacked: Stacked) -> Tensor:
    """Return what `map_stacked` does, by a loop."""
    return torch.stack([run(*rows) for rows in zip(*map(_rows, stacked), strict=True)])


def run_stacked(
    net: nn.Module, weights: dict[str, Tensor], x: Tensor, own_inputs: bool = False
) -> Tensor:
    """Return logits `(S, N, C)` of a network with each of several sets of weights `(S, …)`.

    All sets get the same inputs `(N, …)` or, with `own_inputs`, each its own: `(S, N, …)`.
    """
    # weights are put into the modules, which other threads may be running
    net = net if net.training else replica(net) or net
    # on a CPU a loop is up to five times faster than a grouped convolution, one group per draw
    grouped = x.device.type == "cpu" and _has_convolutions(net)
    # batch statistics are written in place, and a vectorised run may fail after some were
    writes = any(m.training and _keeps_statistics(m) for m in net.modules())
    # a tensor of another type, as audits use, goes through one draw at a time
    single = type(x) is not Tensor or len(next(iter(weights.values()))) == 1
    over = loop_stacked if grouped or writes or single else map_stacked
    if own_inputs:
        return over(lambda w, x: two_classes(functional_call(net, w, (x,))), weights, x)
    # a clone, since a network may write to its input
    return over(lambda w: two_classes(functional_call(net, w, (x.clone(),))), weights)


def chunks(x: Tensor, draws: int, net: nn.Module) -> tuple[Tensor, ...]:
    """Split a batch so that the draws of one part at a time bound the memory."""
    rows = MAX_IMAGE_ROWS if _has_convolutions(net) else MAX_ROWS
    return x.tensor_split(max(1, min(len(x), -(-len(x) * draws // rows))))


def why_not_stackable(nets: Sequence[nn.Module]) -> str | None:
    """Return why networks cannot be stacked, or None if they can."""
    for module in nets[0].modules():
        if _keeps_statistics(module):
            return f"{type(module).__name__} keeps batch statistics"
    if any(_layout(net) != _layout(nets[0]) for net in nets[1:]):
        return "their architectures differ"
    for net in nets[1:]:
        for module, other in zip(net.modules(), nets[0].modules(), strict=True):
            if not _same(_attributes(module), _attributes(other)):
                kind = type(module).__name__
                return f"attributes of their {kind} modules differ, or cannot be compared"
    return None


def stack_networks(nets: Sequence[nn.Module]) -> nn.Module:
    """Return one network with stacked tensors, which only `functional_call` can run."""
    weights, buffers = stack_module_state(list(nets))
    return replace_tensors(copy.deepcopy(nets[0]), {**weights, **buffers})


def replace_tensors(net: nn.Module, tensors: dict[str, Tensor]) -> nn.Module:
    """Put other tensors in place of a network's parameters and buffers, shared ones included."""
    new: dict[int, Any] = {id(b): tensors[name].detach() for name, b in net.named_buffers()}
    for name, weight in net.named_parameters():
        new[id(weight)] = nn.Parameter(tensors[name].detach(), weight.requires_grad)
    for module in net.modules():
        for held in (module._parameters, module._buffers):
            held.update({name: new[id(v)] for name, v in held.items() if v is not None})
    return net


def _keeps_statistics(module: nn.Module) -> bool:
    return isinstance(module, _NormBase) and module.track_running_stats


def _has_convolutions(net: nn.Module) -> bool:
    return any(isinstance(module, _CONVOLUTIONS) for module in net.modules())


def _rows(stacked: Stacked) -> list[Stacked]:
    if isinstance(stacked, Tensor):
        return list(stacked.unbind())
    columns = zip(*(value.unbind() for value in stacked.values()), strict=True)
    return [dict(zip(stacked, row, strict=True)) for row in columns]


def _layout(net: nn.Module) -> list[Any]:
    tensors = [*net.named_parameters(), *net.named_buffers()]
    return [repr(net), [(name, _kind(v)) for name, v in tensors], [*map(type, net.modules())]]


def _kind(value: Tensor) -> tuple[Any, ...]:
    return value.shape, value.dtype, value.device, value.layout, value.requires_grad


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return what a forward pass may depend on beside tensors and modules."""
    return {k: value for k, value in vars(module).items() if k not in _ATTRIBUTES_OF_TORCH}


def _same(value: Any, other: Any) -> bool:
    """Return whether two attributes are certainly equal."""
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if isinstance(value, Tensor):
        readable = value.layout == torch.strided and not value.is_meta
        return _kind(value) == _kind(other) and readable and torch.equal(value, other)
    if isinstance(value, np.ndarray):
        return value.dtype == other.dtype and np.array_equal(value, other)
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(_same(v, other[k]) for k, v in value.items())
    if isinstance(value, list | tuple):
        return len(value) == len(other) and all(map(_same, value, other))
    return isinstance(value, _PLAIN) and value == other
