"""How long work took in all, also when it was interrupted and resumed."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _OpenBlock:
    """A block under way: the seconds of blocks within it, and what they were spent on."""

    inner: float = 0.0
    used: set[str] = field(default_factory=set)


@dataclass
class Spent:
    """Seconds by what they were spent on: stages, and training runs, which stages may share.

    What an earlier run or another experiment did counts with the seconds it took then.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _open: list[_OpenBlock] = field(default_factory=lambda: [_OpenBlock()])

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        """Count the time of a block for `what`, but for blocks within it."""
        started, block = time.monotonic(), _OpenBlock()
        self._open.append(block)
        try:
            yield
        finally:
            self._open.pop()
            whole = time.monotonic() - started
            self.seconds[what] = whole - block.inner
            self._open[-1].inner += whole
            self._open[-1].used |= block.used | {what}

    def set_known(self, seconds: Mapping[str, float]) -> None:
        """Set what each of these took, in place of what was measured."""
        self.seconds |= seconds
        self._open[-1].used |= set(seconds)

    def used(self) -> set[str]:
        """Return what the open block has been spent on so far, but for itself."""
        return set(self._open[-1].used)

    def total(self) -> float:
        """Return the seconds in all."""
        return sum(self.seconds.values())
