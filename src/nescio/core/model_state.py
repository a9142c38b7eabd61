"""Leave a user's model, and settings of the process, as they were found."""

import copy
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nescio.core.random_streams import generators_held, preserve_generators
from nescio.errors import NescioError

M = TypeVar("M", bound=nn.Module)
_HOOKS = [name for name in vars(nn.Module()) if "_hooks" in name and "state_dict" not in name]
_MAX_WAIT = 60.0  # seconds until a thread that may hold up the one it waits for gives in
_locks: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


def _forget_locks() -> None:
    _locks_guard._at_fork_reinit()  # type: ignore[attr-defined]
    _locks.clear()


if hasattr(os, "register_at_fork"):  # a child has none of the threads that hold them
    os.register_at_fork(after_in_child=_forget_locks)


def check_model(model: object) -> None:
    """Raise if this is no module, or one whose weights have no shape yet."""
    if not isinstance(model, nn.Module):
        raise NescioError(f"the model must be a torch.nn.Module, got a {type(model).__name__}")
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        raise NescioError("the model has lazy modules that were never run; run it on a batch first")
    if not hasattr(model, "training"):
        problem = "scripted and frozen, and has lost its modes"
        raise NescioError(f"the model is {problem}; give the original module")


def check_values(model: M) -> M:
    """Return the model, or raise if its weights have no values, as before a file fills them."""
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        where = "on the meta device, where weights have no values"
        raise NescioError(f"the model, or a part of it, is {where}")
    return model


@contextmanager
def preserve_state(model: M) -> Iterator[M]:
    """Put back what a block changes of a model and of torch's generators, even when it raises."""
    check_model(model)
    with preserve_generators(), restore_state(check_values(model)):
        yield model


@contextmanager
def restore_state(model: nn.Module, buffers: bool = True) -> Iterator[None]:
    """Put back modes, hooks, `requires_grad`, `.grad` and, if asked for, buffers after a block.

    Other threads see what the block changes; for one thread to change nothing of the model, see
    `replica`.
    """
    modules = list(model.modules())
    # a scripted module keeps its own hooks, and no buffer of its can be added or taken away
    names = [*_HOOKS, *(["_buffers"] if buffers else [])]
    attributes = [getattr(module, name, None) for module in modules for name in names]
    tables = [(table, table.copy()) for table in attributes if isinstance(table, dict)]
    weights = [(weight, weight.requires_grad, weight.grad) for weight in model.parameters()]
    buffers_of = (module.buffers(recurse=False) for module in (modules if buffers else ()))
    values = [(buffer, buffer.clone()) for buffer in chain.from_iterable(buffers_of)]
    for weight, _, _ in weights:
        weight.grad = None  # a backward pass in the block then adds nothing to what is there
    try:
        with _restore_modes(model):
            yield
    finally:
        for table, entries in tables:
            table.clear()
            table.update(entries)
        for weight, requires_grad, grad in weights:
            if weight.requires_grad != requires_grad:
                weight.requires_grad_(requires_grad)
            weight.grad = grad
        for buffer, value in values:  # only what was changed: else a graph may lose its backward
            if buffer.shape != value.shape:
                buffer.data = value
            elif not torch.equal(buffer, value):
                with torch.no_grad():
                    buffer.copy_(value)


@contextmanager
def locked(model: nn.Module) -> Iterator[None]:
    """Keep other threads from all layers with weights, which another model may have too."""
    modules = list(model.modules())
    layers = [module for module in modules if any(True for _ in module.parameters(recurse=False))]
    with _locks_guard:  # one order for all
        locks = [_locks.setdefault(m, threading.RLock()) for m in sorted(layers or [model], key=id)]
    # data that run a model while they are read keep the generators from the thread waited for
    timeout = _MAX_WAIT if generators_held() else -1
    with ExitStack() as stack:
        for lock in locks:
            if not lock.acquire(timeout=timeout):
                raise NescioError(
                    f"data that are being read run a {type(model).__name__}, which only one "
                    "thread at a time can run, while another thread runs it; give each thread a "
                    "model of its own"
                )
            stack.callback(lock.release)
        yield


@contextmanager
def in_eval(model: nn.Module) -> Iterator[None]:
    """Put a model that is being trained in eval mode for a block."""
    with _restore_modes(model):
        model.eval()
        yield


@contextmanager
def _restore_modes(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        try:
            model.train(modes[0][1])  # a model may do more in train() and eval() than set flags
        finally:
            for module, mode in modes:
                module.training = mode


def deep_copy(model: M) -> M:
    """Return a copy, also of a model that keeps non-leaf tensors of its last forward pass."""
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        problem = "scripted or traced, and cannot be looked into"
        raise NescioError(f"the model is {problem}; give the original module")
    attributes = (value for module in model.modules() for value in vars(module).values())
    tensors = (value for value in attributes if isinstance(value, Tensor))
    activations = {id(value): value.detach() for value in tensors if not value.is_leaf}
    try:
        return copy.deepcopy(model, activations)
    except (RuntimeError, TypeError) as error:
        raise NescioError(f"this {type(model).__name__} cannot be copied: {error}") from error


class SharedBlock:
    """A setting of the process that the first thread to need it makes, and the last one undoes.

    Were each to put back what it found, one would put back what another had set. `make` makes the
    context manager that changes the setting and puts it back.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make, self._lock, self._inside = make, threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._block = self._make()
                self._block.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._block.__exit__(None, None, None)
