"""Whoever runs a user's model leaves it as found."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip


@contextmanager
def untouched(model: nn.Module) -> Iterator[nn.Module]:
    """Put back what a block may change, even when it raises.

    That is train/eval flags, hooks, `requires_grad`, `.grad`, buffers, and the state of torch's random generators.
    """
    modules = list(model.modules())
    flags = [module.training for module in modules]
    hooks = [{name: getattr(module, name).copy() for name in _HOOKS if hasattr(module, name)} for module in modules]
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    buffers = [
        (module, name, buffer, None if buffer is None else buffer.clone())
        for module in modules
        for name, buffer in module._buffers.items()
    ]
    with torch.random.fork_rng():
        try:
            yield model
        finally:
            for module, flag, found in zip(modules, flags, hooks, strict=True):
                module.training = flag
                for name, entries in found.items():
                    getattr(module, name).clear()
                    getattr(module, name).update(entries)
            for parameter, requires_grad, grad in parameters:
                parameter.requires_grad_(requires_grad)
                parameter.grad = grad
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    module._buffers[name] = buffer
                    if buffer is not None and before is not None:
                        buffer.copy_(before)
