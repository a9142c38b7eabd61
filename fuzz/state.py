"""What a call must leave as it found it: a model, and the random states of the process."""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fuzz.core import CHANGED, Fault
from nescio.data.arrays import tensor_bytes

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def bits(value: Any) -> Any:
    """What tells a value from others to the bit: of tensors and arrays type, shape and bytes, of
    others their words.
    """
    if isinstance(value, Tensor):
        return (
            value.dtype,
            tuple(value.shape),
            b"" if value.is_meta else tensor_bytes(value.resolve_conj()).numpy().tobytes(),
        )
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [bits(one) for one in value]
    return repr(value)


def model_state(model: nn.Module) -> dict[str, Any]:
    """Flags, hooks, weights, gradients and buffers of a model, by name."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        found[f"training of {name!r}"] = module.training
        found[f"hooks of {name!r}"] = [list(getattr(module, kind, None) or ()) for kind in HOOKS]
    for name, weight in model.named_parameters():
        found[f"weight {name}"] = bits(weight)
        found[f"requires_grad of {name}"] = weight.requires_grad
        found[f"grad of {name}"] = None if weight.grad is None else bits(weight.grad)
    return found | {f"buffer {name}": bits(buffer) for name, buffer in model.named_buffers()}


def process_state() -> dict[str, Any]:
    """Random states and settings that belong to the user's process."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global one is what is asked for
    return {
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
        "numpy's random state": (kind, np.asarray(keys).tobytes(), *rest),
        "Python's random state": hash(random.getstate()),
        "torch's settings": (
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
        ),
    }


def check_same(before: dict[str, Any], after: dict[str, Any], what: str) -> None:
    """A fault if anything is not as it was."""
    if changed := [name for name in before | after if before.get(name) != after.get(name)]:
        raise Fault(
            CHANGED,
            f"{what} changed: {changed[0]}" + f" and {len(changed) - 1} more" * (len(changed) > 1),
        )
