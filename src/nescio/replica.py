"""A module tree of one's own over the weights of a user's model: hooks, modes and buffers change there, and only there.

What runs a model puts it in eval mode and hooks its layers. On the user's own modules that would show to every other
thread, so it is done on copies of the module objects, which cost about as much as to note what they looked like.
"""

import functools
import itertools
import os
import threading
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from nescio.errors import NescioError
from nescio.streams import generators_held
from nescio.untouched import M, check_model, check_values, state_kept

_TORCHS_OWN = frozenset(vars(nn.Module()))
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, type})
_RECURRENT = ("_flat_weights", "_flat_weight_refs")  # second names of a recurrent layer's weights
_DEPTH, _LENGTH = 4, 256  # how far references are looked for in attributes
_PATIENCE = 60.0  # seconds until a thread that may hold up the one it waits for gives in

_locks: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


def _forget_locks() -> None:
    _locks.clear()
    _locks_guard.release()


if hasattr(os, "register_at_fork"):  # a child has none of the threads that hold them
    os.register_at_fork(before=_locks_guard.acquire, after_in_parent=_locks_guard.release, after_in_child=_forget_locks)


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
    lock = _lock_of(model)
    with _held(lock, model):  # or it might be copied as another thread changes it
        own = replica(model, requires_grad)
    if own is not None:
        yield own
        return
    with _held(lock, model), state_kept(model):
        model.eval()
        for weight in model.parameters() if requires_grad is not None else ():
            weight.requires_grad_(bool(requires_grad) and weight.is_floating_point())
        yield model


@contextmanager
def _held(lock: threading.RLock, model: nn.Module) -> Iterator[None]:
    # data that run a model while they are read keep the generators from the thread that is waited for
    if not lock.acquire(timeout=_PATIENCE if generators_held() else -1):
        raise NescioError(
            f"data that are being read run a {type(model).__name__}, which only one thread at a time can run, while "
            "another thread runs it; give each thread a model of its own"
        )
    try:
        yield
    finally:
        lock.release()


def replica(model: M, requires_grad: bool | None = None) -> M | None:
    """Return a copy of a model's module objects, in eval mode, over the same weights and copies of its buffers.

    None of a model that would not be the same on other objects: a scripted or compiled one, one whose modules are also
    referred to from elsewhere than their parents (lists, closures, bound methods), or one that is in train mode and
    does more to change that than set flags.
    """
    modules = list(model.modules())
    if not _copyable(modules, requires_grad is not None):
        return None
    copies = {id(module): _copied(module) for module in modules}
    buffers: dict[int, Tensor] = {}
    weights: dict[int, Tensor] = {}
    for copy in copies.values():
        for name, child in copy._modules.items():
            copy._modules[name] = None if child is None else copies[id(child)]
        for name, buffer in copy._buffers.items():
            if buffer is not None:
                copy._buffers[name] = buffers.setdefault(id(buffer), buffer.clone())
        if requires_grad is not None:
            _alias(copy, weights, requires_grad)
    return cast(M, copies[id(model)])


def _copied(module: nn.Module) -> nn.Module:
    """Return another object with the same attributes, in eval mode; torch's own containers are copied."""
    made: nn.Module = object.__new__(type(module))
    state = vars(module).copy()
    for name in _TORCHS_OWN:
        if isinstance(own := state.get(name), dict | set):
            state[name] = own.copy() if own else type(own)()  # which is much faster
    state["training"] = False
    vars(made).update(state)
    return made


def _alias(module: nn.Module, weights: dict[int, Tensor], requires_grad: bool) -> None:
    """Give a module weights of its own over the same memory, which need a gradient or do not."""
    for name, weight in module._parameters.items():
        if weight is not None and not weight.is_inference():
            own = nn.Parameter(weight.detach(), requires_grad and weight.is_floating_point())
            module._parameters[name] = weights.setdefault(id(weight), own)  # type: ignore[assignment]
    if isinstance(module, nn.RNNBase):
        module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]


def _copyable(modules: list[nn.Module], with_weights: bool) -> bool:
    tree = set(map(id, modules))
    if with_weights:
        weights = [weight for module in modules for weight in module._parameters.values() if weight is not None]
        if any(type(weight) is not nn.Parameter for weight in weights):
            return False
        tree.update(map(id, weights))
    in_training = any(module.training for module in modules)
    kinds: set[type[nn.Module]] = {type(module) for module in modules}
    for kind in kinds:
        if issubclass(kind, torch.jit.ScriptModule):
            return False
        if in_training and (kind.train, kind.eval) != (nn.Module.train, nn.Module.eval):
            return False
        if not kind.__module__.startswith("torch.nn.") and _mentions(kind.forward, tree):
            return False
    return not any(_refers(module, tree) for module in modules)


def _refers(module: nn.Module, tree: set[int]) -> bool:
    """Whether attributes or hooks of a module lead to others of the tree, other than as its children."""
    if "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None:
        return True  # made by torch.compile
    for name, value in vars(module).items():
        if name in _TORCHS_OWN:
            if value and name.endswith("hooks") and _mentions(value, tree):
                return True
        elif name not in _RECURRENT and type(value) not in _PLAIN and _mentions(value, tree):
            return True
    return False


def _mentions(value: Any, tree: set[int], depth: int = _DEPTH) -> bool:
    """Whether a value is, holds or captures an object of the tree."""
    if id(value) in tree:
        return True
    if depth == 0 or isinstance(value, Tensor | types.ModuleType | type):
        return False
    parts: Any
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    elif isinstance(value, functools.partial):
        parts = (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        parts = (value.__self__, value.__func__)
    elif isinstance(value, types.FunctionType):
        parts = _captured(value)
    elif isinstance(value, weakref.ref):
        parts = (value(),)
    else:
        parts = getattr(value, "__dict__", {}).values()
    some = itertools.islice(parts, _LENGTH)
    return any(_mentions(part, tree, depth - 1) for part in some if type(part) not in _PLAIN)


def _captured(function: types.FunctionType) -> list[Any]:
    """What a function closes over, its defaults, and the networks it names."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [*cells, *(function.__defaults__ or ()), *(one for one in named if isinstance(one, nn.Module))]


def _lock_of(model: nn.Module) -> threading.RLock:
    """That of the layer with the first weight, so that a network and what wraps it have the same one."""
    key = next(
        (module for module in model.modules() if next(module.parameters(recurse=False), None) is not None), model
    )
    with _locks_guard:
        return _locks.setdefault(key, threading.RLock())
