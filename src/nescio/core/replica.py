"""A module tree of one's own over the weights of a user's model: hooks, modes and buffers change there, and only there.

What runs a model puts it in eval mode and hooks its layers. On the user's own modules that would show to every other
thread, so it is done on copies of the module objects, which cost about as much as to note what they looked like.
"""

import collections
import dis
import functools
import gc
import os
import threading
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core.model_state import M, check_model, check_values, restore_state
from nescio.core.random_streams import generators_held
from nescio.errors import NescioError

_TORCHS_OWN = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN = frozenset(
    {
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        torch.dtype,
        torch.device,
        torch.Size,
        torch.layout,
        torch.memory_format,
        type,
        types.BuiltinFunctionType,
        types.ModuleType,
        np.ndarray,
        Tensor,
        nn.Parameter,
    }
)
_CONTAINERS = (list, dict, set, collections.deque)  # which a forward pass may write to
_HOLDING = (nn.Module, tuple, Mapping, *_CONTAINERS)  # what a class or a file may keep modules in
_RECURRENT = ("_flat_weights", "_flat_weight_refs")  # second names of a recurrent layer's weights
_DEPTH = 6  # how far references are followed in attributes; what leads farther may lead anywhere
_PATIENCE = 60.0  # seconds until a thread that may hold up the one it waits for gives in

_locks: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


def _forget_locks() -> None:
    _locks_guard._at_fork_reinit()  # type: ignore[attr-defined]
    _locks.clear()


if hasattr(os, "register_at_fork"):  # a child has none of the threads that hold them
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def private(model: M, requires_grad: bool | None = None) -> Iterator[M]:
    """Yield a model in eval mode that this thread may change: a replica; the user's own is left as found.

    A model that has no replica (see `replica`) is changed itself and put back at the end. It is locked meanwhile, so
    that other threads wait.

    Args:
        model: any module.
        requires_grad: what weights are to be set to, or None to leave them.
    """
    check_model(model)
    check_values(model)
    with _locked(model):  # or it might be copied as another thread changes it
        own = replica(model, requires_grad)
    if own is not None:
        yield own
        return
    with _locked(model), restore_state(model):
        model.eval()
        for weight in model.parameters() if requires_grad is not None else ():
            weight.requires_grad_(bool(requires_grad) and weight.is_floating_point())
        yield model


@contextmanager
def _locked(model: nn.Module) -> Iterator[None]:
    """Keep other threads from all layers with weights, which another model may have too."""
    layers = [
        one for one in model.modules() if next(one.parameters(recurse=False), None) is not None
    ] or [model]
    with _locks_guard:
        locks = [
            _locks.setdefault(layer, threading.RLock()) for layer in sorted(layers, key=id)
        ]  # one order for all
    # data that run a model while they are read keep the generators from the thread that is waited for
    timeout = _PATIENCE if generators_held() else -1
    with ExitStack() as stack:
        for lock in locks:
            if not lock.acquire(timeout=timeout):
                raise NescioError(
                    f"data that are being read run a {type(model).__name__}, which only one thread at a time can run, "
                    "while another thread runs it; give each thread a model of its own"
                )
            stack.callback(lock.release)
        yield


def replica(model: M, requires_grad: bool | None = None) -> M | None:
    """Return a copy of a model's module objects, in eval mode, over the same weights and copies of its buffers.

    None of a model that might not be the same on other objects: a scripted or compiled one; one with hooks, or whose
    modules are referred to from elsewhere than their parents (lists, closures, bound methods); one whose class makes
    or ends its objects in a way of its own; or one in train mode that does more to change that than set flags.
    """
    modules = list(model.modules())
    if not _copyable(modules, requires_grad is not None):
        return None
    seen: dict[int, Any] = {}  # copies of tensors and containers, which several modules may share
    copies = {id(module): _copied(module, seen) for module in modules}
    for copy in copies.values():
        for name, child in copy._modules.items():
            copy._modules[name] = None if child is None else copies[id(child)]
        for name, buffer in copy._buffers.items():
            if buffer is not None:
                copy._buffers[name] = seen.setdefault(id(buffer), buffer.clone())
        if requires_grad is not None:
            _alias(copy, seen, requires_grad)
    return cast(M, copies[id(model)])


def _copied(module: nn.Module, seen: dict[int, Any]) -> nn.Module:
    """Return another object with the same attributes, in eval mode; containers are copied, others shared."""
    made: nn.Module = object.__new__(type(module))
    state = vars(module).copy()
    for name, value in state.items():
        if name in _TORCHS_OWN:
            if isinstance(value, dict | set):
                state[name] = value.copy() if value else type(value)()  # which is much faster
        elif type(value) in _CONTAINERS:
            state[name] = seen.setdefault(id(value), value.copy())
    state["training"] = False
    vars(made).update(state)
    return made


def _alias(module: nn.Module, seen: dict[int, Any], requires_grad: bool) -> None:
    """Give a module weights of its own over the same memory, which need a gradient or do not."""
    for name, weight in module._parameters.items():
        if weight is not None and not weight.is_inference():
            own = nn.Parameter(weight.detach(), requires_grad and weight.is_floating_point())
            vars(own).update(vars(weight))
            module._parameters[name] = seen.setdefault(id(weight), own)
    if isinstance(module, nn.RNNBase):
        module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]


def _copyable(modules: list[nn.Module], with_weights: bool) -> bool:
    kinds: set[type[nn.Module]] = {type(module) for module in modules}
    in_training = any(module.training for module in modules)
    if not all(_plain_kind(kind, in_training) for kind in kinds):
        return False
    tree = set(map(id, modules))
    # a container that a pass writes to is copied with its module, so nothing else may lead to it
    tree.update(
        id(value)
        for module in modules
        for value in vars(module).values()
        if type(value) in _CONTAINERS
    )
    if with_weights:
        weights = [
            weight
            for module in modules
            for weight in module._parameters.values()
            if weight is not None
        ]
        if any(type(weight) is not nn.Parameter for weight in weights):
            return False
        tree.update(map(id, weights))
    return not any(_refers(module, tree) for module in modules) and not any(
        _class_refers(kind, tree) for kind in kinds
    )


def _plain_kind(kind: type[nn.Module], in_training: bool) -> bool:
    """Whether objects of a class are made, ended and put in eval mode as those of torch's modules are."""
    if (
        issubclass(kind, torch.jit.ScriptModule)
        or kind.__new__ is not object.__new__
        or hasattr(kind, "__del__")
    ):
        return False
    if any(vars(base).get("__slots__") for base in kind.__mro__):
        return False
    return not in_training or (kind.train, kind.eval) == (nn.Module.train, nn.Module.eval)


def _class_refers(kind: type[nn.Module], tree: set[int]) -> bool:
    """Whether the code or the attributes of a user's class lead to the tree."""
    if kind.__module__.startswith("torch.nn."):
        return False
    bases = [base for base in kind.__mro__ if not base.__module__.startswith("torch.")]
    own = (
        value for base in bases for name, value in vars(base).items() if name != "__init__"
    )  # which has been run
    kept = (value for value in own if isinstance(value, (types.FunctionType, *_HOLDING)))
    return any(_mentions(value, tree) for value in kept)


def _refers(module: nn.Module, tree: set[int]) -> bool:
    """Whether attributes or hooks of a module lead to others of the tree, other than as its children."""
    if "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None:
        return True  # made by torch.compile
    hooks = (hook for name in _HOOKS for hook in getattr(module, name).values())
    if any(not type(hook).__module__.startswith("torch.nn.utils.") for hook in hooks):
        return True
    for name, value in vars(module).items():
        if name not in _TORCHS_OWN and name not in _RECURRENT and type(value) not in _PLAIN:
            parts = _parts(value) if type(value) in _CONTAINERS else (value,)
            if any(_mentions(part, tree) for part in parts if type(part) not in _PLAIN):
                return True
    return False


def _mentions(value: Any, tree: set[int], depth: int = _DEPTH) -> bool:
    """Whether a value is, holds or captures an object of the tree, or leads too far to tell."""
    if id(value) in tree or isinstance(value, weakref.ProxyTypes):
        return True
    if type(value) in _PLAIN or isinstance(value, Tensor | type):
        return False
    return depth == 0 or any(
        _mentions(part, tree, depth - 1) for part in _parts(value) if type(part) not in _PLAIN
    )


def _parts(value: Any) -> Iterable[Any]:
    """What a value holds or leads to."""
    if isinstance(value, dict):
        return (*value, *value.values())
    if isinstance(value, weakref.ref):
        return (value(),)
    if isinstance(value, types.FunctionType):
        return _captured(value)
    return gc.get_referents(value)


def _captured(function: types.FunctionType) -> list[Any]:
    """What a function closes over, its defaults, and the networks and containers that it names."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    named = [function.__globals__.get(name) for name in _global_names(function.__code__)]
    kept = [one for one in named if isinstance(one, _HOLDING)]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return [*cells, *defaults, *kept]


@functools.lru_cache(maxsize=1024)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    return tuple(
        one.argval
        for one in dis.get_instructions(code)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )
