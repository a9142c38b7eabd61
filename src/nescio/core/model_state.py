"""Whoever runs a user's model leaves it as found."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nescio.core.random_streams import rewinding
from nescio.errors import NescioError

M = TypeVar("M", bound=nn.Module)
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def check_model(model: object) -> None:
    """An error if this is no module, or one whose weights have no shape yet."""
    if not isinstance(model, nn.Module):
        raise NescioError(
            f"a {type(model).__name__} was given for a model; expected a torch.nn.Module"
        )
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        raise NescioError(
            "the model has lazy modules that were never run; run it once on a batch first"
        )
    if not hasattr(model, "training"):
        raise NescioError(
            "the model is scripted and frozen, and has lost its modes; give the one it was made from"
        )


def check_values(model: nn.Module) -> nn.Module:
    """The model, or an error if its weights have no values, as those of one that a file is yet to fill."""
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise NescioError(
            "the model, or a part of it, is on the meta device, where weights have no values"
        )
    return model


@contextmanager
def preserve_state(model: nn.Module) -> Iterator[nn.Module]:
    """Put back what a block may change of a model, and of torch's random generators, even when it raises."""
    check_model(model)
    check_values(model)
    with rewinding(), restore_state(model):
        yield model


@contextmanager
def restore_state(model: nn.Module) -> Iterator[None]:
    """Put back train/eval flags, hooks, `requires_grad`, `.grad` and buffers after a block, even when it raises.

    Other threads see what the block changes; for one thread to change nothing of the model, see `replica`.
    """
    modules = list(model.modules())
    flags = [module.training for module in modules]
    hooks = [
        {
            name: getattr(module, name).copy()
            for name in _HOOKS
            if isinstance(getattr(module, name, None), dict)
        }
        for module in modules  # a scripted one keeps its own
    ]
    parameters = [
        (parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()
    ]
    # a scripted module's are no dictionary: none can be added or taken away, and values are put back below
    buffers = [
        dict(module._buffers) if isinstance(module._buffers, dict) else None for module in modules
    ]
    every = [buffer for module in modules for buffer in module.buffers(recurse=False)]
    values = [(buffer, buffer.clone()) for buffer in every]
    for parameter, _, _ in parameters:
        parameter.grad = (
            None  # a backward pass in the block then makes its own, and cannot add to these
        )
    try:
        try:
            yield
        finally:
            model.train(flags[0])  # a model may do more in train() and eval() than set flags
    finally:
        for module, flag, found, own in zip(modules, flags, hooks, buffers, strict=True):
            module.training = flag
            for name, entries in found.items():
                getattr(module, name).clear()
                getattr(module, name).update(entries)
            if own is not None:
                module._buffers.clear()
                module._buffers.update(own)
        for parameter, requires_grad, grad in parameters:
            if parameter.requires_grad != requires_grad:
                parameter.requires_grad_(requires_grad)
            parameter.grad = grad
        for buffer, before in values:
            _put_back(buffer, before)


@contextmanager
def in_eval(model: nn.Module) -> Iterator[None]:
    """A block in which a model that is being trained is as in prediction, for its own use."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        model.train(modes[0][1])  # a model may do more in train() and eval() than set flags
        for module, mode in modes:
            module.training = mode


def _put_back(buffer: torch.Tensor, before: torch.Tensor) -> None:
    """Write only what was changed: a write, even of equal values, would spoil a graph that waits for its backward."""
    if buffer.shape != before.shape:
        buffer.data = before
    elif not torch.equal(buffer, before):
        with torch.no_grad():
            buffer.copy_(before)


def copied(model: M) -> M:
    """A copy, also of a model that keeps values of its last forward pass, which torch would not copy by itself."""
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise NescioError(
            "the model is scripted or traced, and cannot be looked into; give the one it was made from"
        )
    kept = {
        id(v): v.detach() for module in model.modules() for v in vars(module).values() if _made(v)
    }
    try:
        return copy.deepcopy(model, kept)
    except (RuntimeError, TypeError) as error:
        raise NescioError(
            f"this {type(model).__name__} cannot be copied, as this has to: {error}"
        ) from error


def _made(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_leaf
