"""Networks of one architecture as one, each tensor with a first axis of members."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import stack_module_state
from torch.nn.modules.batchnorm import _NormBase

_TORCHS_OWN = set(vars(nn.Module()))


def obstacle(nets: Sequence[nn.Module]) -> str | None:
    """Why networks cannot live side by side, or None if they can."""
    for module in nets[0].modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            return f"{type(module).__name__} keeps statistics of its batches"
    if any(_layout(net) != _layout(nets[0]) for net in nets[1:]):
        return "they are of different architectures"
    for net in nets[1:]:
        for module, other in zip(net.modules(), nets[0].modules(), strict=True):
            if not _alike(_attributes(module), _attributes(other)):
                return f"their {type(module).__name__} modules have attributes that differ, or cannot be compared"
    return None


def _layout(net: nn.Module) -> list[Any]:
    tensors = [*net.named_parameters(), *net.named_buffers()]
    return [
        repr(net),
        *(
            (name, value.shape, value.dtype, value.device, value.requires_grad)
            for name, value in tensors
        ),
        *map(type, net.modules()),
    ]


def _attributes(module: nn.Module) -> dict[str, Any]:
    """What a module keeps beside tensors, modules and torch's own, and its forward pass may go by."""
    return {name: value for name, value in vars(module).items() if name not in _TORCHS_OWN}


def _alike(one: Any, other: Any) -> bool:
    """Whether two attributes are surely the same."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        kinds = [(v.shape, v.dtype, v.device, v.layout, v.requires_grad) for v in (one, other)]
        return (
            kinds[0] == kinds[1]
            and one.layout == torch.strided
            and not one.is_meta
            and torch.equal(one, other)
        )
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _alike(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return (
        isinstance(one, bool | int | float | complex | str | bytes | torch.device | torch.dtype)
        and one == other
    )


def side_by_side(nets: Sequence[nn.Module]) -> nn.Module:
    """One network whose tensors have a first axis of members; only `functional_call` with slices of them can run it."""
    weights, buffers = stack_module_state(list(nets))
    return with_tensors(copy.deepcopy(nets[0]), {**weights, **buffers})


def with_tensors(net: nn.Module, tensors: dict[str, Tensor]) -> nn.Module:
    """The network with other tensors in place of its own, also where two layers share one."""
    weights = {
        id(w): nn.Parameter(tensors[name].detach(), w.requires_grad)
        for name, w in net.named_parameters()
    }
    buffers = {id(buffer): tensors[name].detach() for name, buffer in net.named_buffers()}
    for module in net.modules():
        module._parameters.update(
            {name: weights[id(w)] for name, w in module._parameters.items() if w is not None}
        )
        module._buffers.update(
            {name: buffers[id(b)] for name, b in module._buffers.items() if b is not None}
        )
    return net
