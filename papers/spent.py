"""How long work took in all, also when it was done in several goes."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _Open:
    """A block of work under way: the time of blocks within it, and what these were spent on."""

    inner: float = 0.0
    within: set[str] = field(default_factory=set)


@dataclass
class Spent:
    """Seconds by what they were spent on: stages, and training runs, which stages may share.

    What is known to have taken some seconds, in an earlier go or elsewhere, counts with those.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _open: list[_Open] = field(default_factory=lambda: [_Open()])

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Count the time of a block for `what`, but for blocks within it."""
        started, block = time.monotonic(), _Open()
        self._open.append(block)
        try:
            yield
        finally:
            self._open.pop()
            whole = time.monotonic() - started
            self.seconds[what] = whole - block.inner
            self._open[-1].inner += whole
            self._open[-1].within |= block.within | {what}

    def knows(self, seconds: Mapping[str, float]) -> None:
        """Take this for what each of them took, in place of what was measured."""
        self.seconds |= seconds
        self._open[-1].within |= set(seconds)

    def within(self) -> set[str]:
        """What the block now open has been spent on so far, but for itself."""
        return set(self._open[-1].within)

    def total(self) -> float:
        """Of all."""
        return sum(self.seconds.values())
