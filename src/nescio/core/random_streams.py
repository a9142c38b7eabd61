"""Random streams apart from torch's global generators, which belong to the process and so to all of its threads.

Whoever runs a user's model seeds it and must leave the global generators as found. To set them, run and put them back
is safe only for one thread at a time, so `RandomStream` holds a lock. Most models draw nothing, and need none of that:
`from_seed` watches their operations to find out which, and runs those without the lock.
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
from nescio.seeds import start_from

T = TypeVar("T")

_GENERATORS = threading.RLock()
_PATIENCE = (
    600.0  # seconds until a thread that waits for the generators takes it that it waits for itself
)
if hasattr(
    os, "register_at_fork"
):  # a child must not inherit a lock that a thread it does not have will never release
    os.register_at_fork(after_in_child=_GENERATORS._at_fork_reinit)  # type: ignore[attr-defined]


class _Pass(NamedTuple):
    """What this thread is running: from which seed, and whether the generators are its own meanwhile."""

    seed: int
    locked: bool


_PASS: ContextVar[_Pass | None] = ContextVar("_PASS", default=None)
_DRAW_NOTHING: WeakSet[Any] = WeakSet()  # models that were watched, and drew nothing
_DRAW: WeakSet[Any] = WeakSet()  # models that drew


class RandomStream:
    """Random numbers of its own: in a `with` block torch's generators stand where the stream does.

    Afterwards they stand where they stood before; the stream goes on in its next block. One thread at a time is in such
    a block, of any stream.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._here: list[Tensor] | None = None
        self._outside: list[list[Tensor]] = []  # a block may be entered again from within

    def __enter__(self) -> Self:
        _acquire()
        self._outside.append(_states())
        if self._here is None:
            start_from(self.seed)
            self._here = _states()
        else:
            _set_states(self._here)
        return self

    def __exit__(self, *_: object) -> None:
        self._here = _states()
        _set_states(self._outside.pop())
        if generators_held():  # else this is a child that was forked within
            _GENERATORS.release()

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Go through items, each of which is made within the stream."""
        with self:
            iterator = iter(items)
        while True:
            with self:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


@contextmanager
def rewinding() -> Iterator[None]:
    """Leave torch's generators as found after a block, whatever it draws."""
    current = _PASS.get()
    if (
        current is not None and not current.locked
    ):  # to put back what others use is not for us; `from_seed` will notice
        yield
        return
    _acquire()
    try:
        before = _states()
        try:
            yield
        finally:
            _set_states(before)
    finally:
        _GENERATORS.release()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees whether this thread draws random numbers, which the generators, being all threads', cannot tell."""

    drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew = self.drew or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def from_seed(seed: int, run: Callable[[], T], model: object) -> T:
    """Return what `run()` gives when torch's generators stand at a seed; they are left as found.

    A model that drew nothing when it was watched is run without the lock; should the generators have moved meanwhile,
    it is watched again, since it may have changed.
    """
    if model not in _DRAW:
        before = _states()
        if model in _DRAW_NOTHING:
            found = _within(_Pass(seed, locked=False), run)
            if _same(before, _states()):
                return found
        watch = _Watch()  # type: ignore[no-untyped-call]
        try:
            with watch:
                found = _within(_Pass(seed, locked=False), run)
        except (NescioError, RuntimeError, NotImplementedError):
            pass  # what cannot be watched is run below, and an error of the model's own comes again there
        else:
            (_DRAW if watch.drew else _DRAW_NOTHING).add(model)
            if not watch.drew:
                return found
        if watch.drew:
            with _GENERATORS:
                _set_states(before)
    with RandomStream(seed):
        return _within(_Pass(seed, locked=True), run)


def _acquire() -> None:
    """Take the generators, or raise an error where two threads wait for each other."""
    if not _GENERATORS.acquire(timeout=_PATIENCE):
        raise NescioError(
            f"another thread has kept torch's random generators for {_PATIENCE:g} s: it reads data, or runs a model "
            "that draws from them. Data must not wait for a thread that runs such a model while they are read"
        )


def generators_held() -> bool:
    """Whether this thread keeps others from torch's generators, being in a stream."""
    return _GENERATORS._is_owned()  # type: ignore[attr-defined,no-any-return]


def generator(device: torch.device | str = "cpu") -> torch.Generator:
    """Return a new generator that starts at the seed of `from_seed`, or else where torch's own stands."""
    made, current = torch.Generator(device), _PASS.get()
    if current is not None:
        return made.manual_seed(current.seed)
    on_cpu = made.device.type == "cpu"
    made.set_state(
        torch.default_generator.get_state() if on_cpu else torch.cuda.get_rng_state(made.device)
    )
    return made


def _within(current: _Pass, run: Callable[[], T]) -> T:
    token = _PASS.set(current)
    try:
        return run()
    finally:
        _PASS.reset(token)


def _states() -> list[Tensor]:
    """Those of the CPU's generator and, once they are in use, of the accelerators'."""
    on_cpu = torch.default_generator.get_state()
    return [on_cpu, *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]  # type: ignore[no-untyped-call]


def _set_states(states: list[Tensor]) -> None:
    torch.default_generator.set_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))
