"""Random streams apart from torch's global generators, which all threads of the process share.

To set these, run a model and put them back is safe only for one thread at a time, so `RandomStream`
holds a lock. Most models draw nothing: `from_seed` watches which, and runs those without the lock.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Self, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nescio.errors import NescioError
from nescio.seeds import derived_seed, seed_generators

T = TypeVar("T")

MAX_WAIT = 600.0  # seconds, after which a thread that waits for the generators waits for itself
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):  # the thread that holds the lock is not there in a child
    os.register_at_fork(after_in_child=_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


class _Run(NamedTuple):
    """What this thread runs: from which seed, and whether it holds the generators meanwhile."""

    seed: int
    locked: bool


_RUN: ContextVar[_Run | None] = ContextVar("_RUN", default=None)
_DETERMINISTIC: WeakSet[Any] = WeakSet()  # models that were watched, and drew nothing
_STOCHASTIC: WeakSet[Any] = WeakSet()  # models that drew


class RandomStream:
    """Random numbers of its own: in a `with` block torch's generators stand where the stream does.

    Afterwards they stand where they stood before, and the stream continues in its next block. Only
    one thread at a time is in such a block, of any stream.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._inside: list[Tensor] | None = None
        self._outside: list[list[Tensor]] = []  # a block may be entered again from within

    def __enter__(self) -> Self:
        _acquire()
        self._outside.append(_states())
        if self._inside is None:
            seed_generators(self.seed)
            self._inside = _states()
        else:
            _set_states(self._inside)
        return self

    def __exit__(self, *_: object) -> None:
        self._inside = _states()
        _set_states(self._outside.pop())
        if generators_held():  # else this is a child that was forked within
            _LOCK.release()

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Iterate over items, each of which is made within the stream."""
        with self:
            iterator = iter(items)
        while True:
            with self:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


def data_stream(seed: int) -> RandomStream:
    """Return the stream that data draw from (noise, a shuffled loader), apart from a model's."""
    return RandomStream(derived_seed(seed, "data", 0))


@contextmanager
def preserve_generators() -> Iterator[None]:
    """Leave torch's generators as found after a block, whatever it draws."""
    current = _RUN.get()
    if current is not None and not current.locked:
        yield  # others use them meanwhile: they are not ours to put back, `from_seed` will notice
        return
    _acquire()
    try:
        before = _states()
        try:
            yield
        finally:
            _set_states(before)
    finally:
        _LOCK.release()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees whether this thread draws, which the generators, being all threads', cannot tell."""

    drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew = self.drew or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def from_seed(seed: int, run: Callable[[], T], model: object) -> T:
    """Return what `run()` gives when torch's generators start from a seed; they are left as found.

    A model that drew nothing when it was watched is run without the lock; should the generators
    have moved meanwhile, it is watched again, since it may have changed.
    """
    if model not in _STOCHASTIC:
        before = _states()
        if model in _DETERMINISTIC:
            result = _run_as(_Run(seed, locked=False), run)
            after = _states()
            if len(before) == len(after) and all(map(torch.equal, before, after)):
                return result
        watch = _Watch()  # type: ignore[no-untyped-call]
        try:
            with watch:
                result = _run_as(_Run(seed, locked=False), run)
        except (NescioError, RuntimeError, NotImplementedError):
            pass  # what cannot be watched is run below, and an error of the model's comes again
        else:
            (_STOCHASTIC if watch.drew else _DETERMINISTIC).add(model)
            if not watch.drew:
                return result
        if watch.drew:
            with _LOCK:
                _set_states(before)
    with RandomStream(seed):
        return _run_as(_Run(seed, locked=True), run)


def _acquire() -> None:
    """Take the generators, or raise where two threads wait for each other."""
    if not _LOCK.acquire(timeout=MAX_WAIT):
        raise NescioError(
            f"another thread has held torch's random generators for {MAX_WAIT:g} s: it reads data, "
            "or runs a model that draws. Data being read must not wait for a thread that does"
        )


def generators_held() -> bool:
    """Whether this thread keeps others from torch's generators, being in a stream."""
    return _LOCK._is_owned()  # type: ignore[attr-defined,no-any-return]


def new_generator(device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator that starts at the seed of `from_seed`, or else where torch's stands."""
    generator, current = torch.Generator(device), _RUN.get()
    if current is not None:
        return generator.manual_seed(current.seed)
    on_cpu = generator.device.type == "cpu"
    state = torch.default_generator.get_state() if on_cpu else torch.cuda.get_rng_state(device)
    generator.set_state(state)
    return generator


def _run_as(current: _Run, run: Callable[[], T]) -> T:
    token = _RUN.set(current)
    try:
        return run()
    finally:
        _RUN.reset(token)


def _states() -> list[Tensor]:
    """Those of the CPU's generator and, once they are in use, of the accelerators'."""
    on_cpu = torch.default_generator.get_state()
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return [on_cpu, *(torch.cuda.get_rng_state_all() if in_use else ())]


def _set_states(states: list[Tensor]) -> None:
    torch.default_generator.set_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])
