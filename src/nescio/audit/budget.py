"""A budget of time: as much is proved as fits into it, and the rest is only measured."""

import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from nescio.errors import NescioError, check_float
from nescio.progress import Bar

FIRST = 16  # items of the first batch, which show what one of them costs
FEWEST = 2  # items that are done first to see how many are affordable; each may be large
GROWTH = 4  # of a batch over the one before, at most
PILOT = 0.1  # share of the time left that may go into finding out how many items fit
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class Budget:
    """Seconds that some work may take, from now on or from when it began; None: as many as it takes.

    >>> Budget(None).left, Budget(60).seconds
    (inf, 60.0)
    """

    def __init__(self, seconds: float | None, begun: float | None = None) -> None:
        self.seconds = None if seconds is None else check_float("budget", seconds, inside=True)
        self._begun = time.monotonic() if begun is None else begun
        self._end = math.inf if self.seconds is None else self._begun + self.seconds

    @property
    def left(self) -> float:
        """Seconds that are left; infinite without a budget, below 0 once it is spent."""
        return self._end - time.monotonic()

    def part(self, share: float) -> "Budget":
        """The same budget, of which only this share of the time left may be used."""
        part = Budget(self.seconds)
        if self.seconds is not None:
            part._end = part._begun + share * max(0.0, self.left)
        return part

    def show(self, shown: Bar, done: int, total: int) -> None:
        """Let a bar stand where the work does, or, with a budget, where the clock does."""
        if self.seconds is None:
            shown.at(done, total, "")
        else:
            spent, all_ = time.monotonic() - self._begun, self._end - self._begun
            shown.at(int(min(spent, all_)), int(all_), f"seconds, {done:,} of {total:,} proved")

    def batches(self, total: int, most: int) -> Iterator[slice]:
        """Batches of `total` items, at most `most` in each, as long as the next one fits into the time left.

        With a budget they begin small, and none is expected to take more than half of the time left.
        """
        done, size = 0, most if self.seconds is None else min(FIRST, most)
        while done < total and size and self.left > 0:
            begun = time.monotonic()
            yield slice(done, min(done + size, total))
            done += size
            if self.seconds is not None:
                size = min(GROWTH * size, most, _halved(self._fitting(size, begun)))

    def affordable(self, total: int, work: Callable[[int], Any]) -> int:
        """How many of `total` items `work` can do in the time left, found by its doing some; at least a few."""
        count, fits = min(FEWEST, total), total
        while self.seconds is not None:
            begun = time.monotonic()
            work(count)
            fits = self._fitting(count, begun)
            if fits >= total or count == total or time.monotonic() - begun > PILOT * self.left:
                break
            count = min(
                GROWTH * count, total
            )  # the more are done, the less what all have in common weighs
        return min(max(FIRST, fits), total)

    def _fitting(self, count: int, begun: float) -> int:
        """How many items fit into the time left, when `count` have taken from `begun` until now."""
        each = max(time.monotonic() - begun, 1e-9) / count
        return int(min(max(0.0, self.left) / each, 2**62))


def _halved(count: int) -> int:
    return (count + 1) // 2


def budget_of(given: "float | Budget | None") -> Budget:
    """A budget as it may be given: in seconds, or one that other work shares."""
    return given if isinstance(given, Budget) else Budget(given)


def seconds_in(text: str) -> float | None:
    """Seconds in words of the command line, None for none.

    >>> seconds_in("90"), seconds_in("60s"), seconds_in("2m"), seconds_in("1.5 h"), seconds_in("none")
    (90.0, 60.0, 120.0, 5400.0, None)
    """
    if text.strip().lower() == "none":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in UNITS:
        raise NescioError(f"budget {text!r}; expected a time such as 60, 60s, 2m or 1h, or none")
    return check_float("budget", float(found[1]) * UNITS[found[2]], inside=True)
