"""A thread's own copy of a model's modules, over the same weights.

Whoever runs a model puts it in eval mode and hooks its layers. On the user's own modules every
other thread would see that, so it is done on copies of the module objects, which cost little.
"""

import collections
import dis
import functools
import gc
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core.model_state import M, check_model, check_values, locked, restore_state

_TORCH_ATTRIBUTES = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type)
_TORCH_VALUES = (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
_OPAQUE = (types.BuiltinFunctionType, types.ModuleType, np.ndarray, Tensor, nn.Parameter)
_LEAVES = frozenset((*_SCALARS, *_TORCH_VALUES, *_OPAQUE))  # types that lead to no module
_CONTAINERS = (list, dict, set, collections.deque)  # which a forward pass may write to
_HOLDERS = (nn.Module, tuple, Mapping, *_CONTAINERS)  # what a class or a file may keep modules in
_RECURRENT = ("_flat_weights", "_flat_weight_refs")  # second names of a recurrent layer's weights
_MAX_DEPTH = 6  # how far references are followed in attributes; beyond, they may lead anywhere
# attributes of a class that no forward pass runs: `__init__` has been, and annotations are not,
# which Python 3.14 keeps as a function and its result
_NOT_RUN = ("__init__", "__annotations__", "__annotate_func__", "__annotations_cache__")

# modules of a user's model, and of this thread's replicas of it, by id → the replica's
_NONE: Mapping[int, nn.Module] = types.MappingProxyType({})
_ISOLATED: ContextVar[Mapping[int, nn.Module]] = ContextVar("_ISOLATED", default=_NONE)


class _Kept(NamedTuple):
    model: nn.Module  # kept alive: the replica is found by its id
    replica: nn.Module
    modules: Mapping[int, nn.Module]  # as in _ISOLATED


class _Pool(NamedTuple):
    model: nn.Module | None
    idle: dict[tuple[int, bool | None], _Kept]


_POOL: ContextVar[_Pool | None] = ContextVar("_POOL", default=None)


@contextmanager
def isolate(model: M, requires_grad: bool | None = None) -> Iterator[M]:
    """Yield a model in eval mode that only this thread sees: a replica; the model is left as found.

    A model that has no replica (see `replica`) is changed itself, locked meanwhile, and put back at
    the end. Within the block the buffers are not copied again: a second block on the same model, or
    on a part of it, shares them. `requires_grad` is set on the weights unless it is None.
    """
    check_model(model)
    check_values(model)
    with locked(model):  # or it might be copied as another thread changes it
        source = cast(M, _ISOLATED.get().get(id(model), model))
        copies = _copies(source, requires_grad)
        if copies is None and source is not model:
            copies = _copies(model, requires_grad)
    if copies is not None:
        with _isolated({**copies, **{id(copy): copy for copy in copies.values()}}):
            yield cast(M, next(iter(copies.values())))
        return
    shared = _is_isolated(model)
    with locked(model), restore_state(model, buffers=not shared):
        model.eval()
        for weight in model.parameters() if requires_grad is not None else ():
            weight.requires_grad_(bool(requires_grad) and weight.is_floating_point())
        with _isolated({id(module): module for module in model.modules()}):
            yield model


@contextmanager
def isolate_once(model: M, requires_grad: bool | None = None) -> Iterator[M]:
    """Isolate a model as `isolate` does, but only once in a block for all batches.

    A replica that was made within another such block on the same model, or within `keep_replicas`,
    is used again by the next one there, in the state in which it was left.
    """
    pool = _POOL.get()
    if pool is None:
        with keep_replicas(None), isolate(model, requires_grad) as replica:
            yield replica
        return
    key, keep = (id(model), requires_grad), model is pool.model or id(model) in _ISOLATED.get()
    kept = pool.idle.pop(key, None) if keep else None  # while it is in use no other block gets it
    if kept is not None:
        with _isolated(kept.modules):
            yield cast(M, kept.replica)
    else:
        with isolate(model, requires_grad) as replica:
            kept = _Kept(model, replica, _ISOLATED.get())
            yield replica
    if keep and kept.replica is not model:
        pool.idle[key] = kept


@contextmanager
def keep_replicas(model: nn.Module | None) -> Iterator[None]:
    """Have all blocks of `isolate_once` on a model in this block use the same replicas.

    A model that has none is isolated here, so that its buffers are copied only once.
    """
    pool = _POOL.get()
    if pool is not None and pool.model is model:
        yield
        return
    token = _POOL.set(_Pool(model, {}))
    try:
        if model is None or _copyable(list(model.modules()), False):
            yield
        else:
            with isolate(model):
                yield
    finally:
        _POOL.reset(token)


@contextmanager
def _isolated(modules: Mapping[int, nn.Module]) -> Iterator[None]:
    token = _ISOLATED.set({**_ISOLATED.get(), **modules})
    try:
        yield
    finally:
        _ISOLATED.reset(token)


def _is_isolated(model: nn.Module) -> bool:
    return _ISOLATED.get().get(id(model)) is model


def replica(model: M, requires_grad: bool | None = None) -> M | None:
    """Return a copy of a model's modules, in eval mode, over its weights and copies of its buffers.

    None for a model that might not be the same on other objects: a scripted or compiled one; one
    with hooks, or whose modules are referred to from elsewhere than their parents (lists, closures,
    bound methods); one whose class makes or ends its objects in its own way; or one in train mode
    that does more to change modes than set flags.
    """
    copies = _copies(model, requires_grad)
    return None if copies is None else cast(M, next(iter(copies.values())))


def _copies(model: nn.Module, requires_grad: bool | None) -> dict[int, nn.Module] | None:
    """The modules of a replica by the ids of the model's; a replica's own buffers are shared."""
    modules = list(model.modules())
    if not _copyable(modules, requires_grad is not None):
        return None
    shared = _is_isolated(model)
    seen: dict[int, Any] = {}  # copies of tensors and containers, which several modules may share
    copies = {id(module): _copied(module, seen) for module in modules}
    for copy in copies.values():
        for name, child in copy._modules.items():
            copy._modules[name] = None if child is None else copies[id(child)]
        for name, buffer in copy._buffers.items():
            if buffer is not None and not shared:
                copy._buffers[name] = seen.setdefault(id(buffer), buffer.clone())
        if requires_grad is not None:
            _alias(copy, seen, requires_grad)
    return copies


def _copied(module: nn.Module, seen: dict[int, Any]) -> nn.Module:
    """Another object with the same attributes, in eval mode; only containers are copied."""
    copy: nn.Module = object.__new__(type(module))
    state = vars(module).copy()
    for name, value in state.items():
        if name in _TORCH_ATTRIBUTES:
            if isinstance(value, dict | set):
                state[name] = value.copy() if value else type(value)()  # which is much faster
        elif type(value) in _CONTAINERS:
            state[name] = seen.setdefault(id(value), value.copy())
    vars(copy).update(state, training=False)
    return copy


def _alias(module: nn.Module, seen: dict[int, Any], requires_grad: bool) -> None:
    """Replace a module's weights by others over the same memory, with or without gradient."""
    for name, weight in module._parameters.items():
        if weight is not None and not weight.is_inference():
            alias = nn.Parameter(weight.detach(), requires_grad and weight.is_floating_point())
            vars(alias).update(vars(weight))
            module._parameters[name] = seen.setdefault(id(weight), alias)
    if isinstance(module, nn.RNNBase):
        module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]


def _copyable(modules: list[nn.Module], with_weights: bool) -> bool:
    kinds = {type(module) for module in modules}
    in_training = any(module.training for module in modules)
    if not all(_plain_kind(kind, in_training) for kind in kinds):
        return False
    # a container that a pass writes to is copied with its module, so nothing else may lead to it
    values = [value for module in modules for value in vars(module).values()]
    tree = {*map(id, modules), *(id(value) for value in values if type(value) in _CONTAINERS)}
    if with_weights:
        weights = [w for module in modules for w in module._parameters.values() if w is not None]
        if any(type(weight) is not nn.Parameter for weight in weights):
            return False
        tree.update(map(id, weights))
    refers = any(_refers(module, tree) for module in modules)
    return not refers and not any(_class_refers(kind, tree) for kind in kinds)


def _plain_kind(kind: type[nn.Module], in_training: bool) -> bool:
    """Whether objects of a class are made, ended and put in eval mode as torch's modules are."""
    made_otherwise = issubclass(kind, torch.jit.ScriptModule) or kind.__new__ is not object.__new__
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    if made_otherwise or slots or hasattr(kind, "__del__"):
        return False
    return not in_training or (kind.train, kind.eval) == (nn.Module.train, nn.Module.eval)


def _class_refers(kind: type[nn.Module], tree: set[int]) -> bool:
    """Whether the code or the attributes of a user's class lead to the tree."""
    if kind.__module__.startswith("torch.nn."):
        return False
    bases = [base for base in kind.__mro__ if not base.__module__.startswith("torch.")]
    return any(
        _mentions(value, tree)
        for base in bases
        for name, value in vars(base).items()
        if name not in _NOT_RUN and isinstance(value, (types.FunctionType, *_HOLDERS))
    )


def is_compiled(module: nn.Module) -> bool:
    """Whether torch.compile made this module, or its call."""
    compiled_call = getattr(module, "_compiled_call_impl", None)
    return compiled_call is not None or "_orig_mod" in module._modules


def _refers(module: nn.Module, tree: set[int]) -> bool:
    """Whether attributes or hooks of a module lead to modules other than its children."""
    hooks = (hook for name in _HOOKS for hook in getattr(module, name).values())
    of_torch = all(type(hook).__module__.startswith("torch.nn.utils.") for hook in hooks)
    if is_compiled(module) or not of_torch:
        return True
    for name, value in vars(module).items():
        if name not in _TORCH_ATTRIBUTES and name not in _RECURRENT and type(value) not in _LEAVES:
            parts = _parts(value) if type(value) in _CONTAINERS else (value,)
            if any(_mentions(part, tree) for part in parts if type(part) not in _LEAVES):
                return True
    return False


def _mentions(value: Any, tree: set[int], depth: int = _MAX_DEPTH) -> bool:
    """Whether a value is, holds or captures an object of the tree, or leads too far to tell."""
    if id(value) in tree or isinstance(value, weakref.ProxyTypes):
        return True
    if type(value) in _LEAVES or isinstance(value, Tensor | type):
        return False
    parts = () if depth == 0 else (part for part in _parts(value) if type(part) not in _LEAVES)
    return depth == 0 or any(_mentions(part, tree, depth - 1) for part in parts)


def _parts(value: Any) -> Iterable[Any]:
    """What a value holds or leads to."""
    if isinstance(value, dict):
        return (*value, *value.values())
    if isinstance(value, weakref.ref):
        return (value(),)
    return _captured(value) if isinstance(value, types.FunctionType) else gc.get_referents(value)


def _captured(function: types.FunctionType) -> list[Any]:
    """What a function closes over, its defaults, and the networks and containers that it names."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    named = (function.__globals__.get(name) for name in _global_names(function.__code__))
    holders = [value for value in named if isinstance(value, _HOLDERS)]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return [*cells, *defaults, *holders]


@functools.lru_cache(maxsize=1024)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return tuple(step.argval for step in dis.get_instructions(code) if step.opname in loads)
