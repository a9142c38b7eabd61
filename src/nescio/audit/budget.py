"""A budget of time: as much is proved as fits into it, and the rest is only measured."""

import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from nescio.errors import NescioError, check_float
from nescio.progress import Bar

FIRST_BATCH = 16  # items that show what one of them costs
FIRST_TRIAL = 2  # items done first to see how many are affordable; each may be large
MAX_GROWTH = 4  # of a batch over the one before
MAX_TRIAL_FRACTION = 0.1  # of the time left, to find out how many items fit
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class Budget:
    """Seconds that some work may take, from now or from when it began; None for no limit.

    >>> Budget(None).left, Budget(60).seconds
    (inf, 60.0)
    """

    def __init__(self, seconds: float | None, begun: float | None = None) -> None:
        self.seconds = None if seconds is None else check_float("budget", seconds, inside=True)
        self._begun = time.monotonic() if begun is None else begun
        self._end = math.inf if self.seconds is None else self._begun + self.seconds

    @property
    def left(self) -> float:
        """Seconds left; infinite without a budget, below 0 once it is spent."""
        return self._end - time.monotonic()

    def part(self, fraction: float) -> "Budget":
        """Return the same budget with only this fraction of the time left."""
        part = Budget(self.seconds)
        if self.seconds is not None:
            part._end = part._begun + fraction * max(0.0, self.left)
        return part

    def show(self, shown: Bar, done: int, total: int) -> None:
        """Set a progress bar to the work done or, with a budget, to the time spent."""
        if self.seconds is None:
            shown.at(done, total, "")
        else:
            spent, seconds = time.monotonic() - self._begun, self._end - self._begun
            facts = f"seconds, {done:,} of {total:,} proved"
            shown.at(int(min(spent, seconds)), int(seconds), facts)

    def batches(self, total: int, max_size: int) -> Iterator[slice]:
        """Yield batches of `total` items as long as the next one fits into the time left.

        With a budget they begin small, and none is expected to take more than half of it.
        """
        done, size = 0, max_size if self.seconds is None else min(FIRST_BATCH, max_size)
        while done < total and size and self.left > 0:
            begun = time.monotonic()
            yield slice(done, min(done + size, total))
            done += size
            if self.seconds is not None:
                half = (self._fitting(size, begun) + 1) // 2
                size = min(MAX_GROWTH * size, max_size, half)

    def affordable(self, total: int, work: Callable[[int], Any]) -> int:
        """Return how many of `total` items `work` can do in the time left, found by trying some."""
        count, fits = min(FIRST_TRIAL, total), total
        while self.seconds is not None:
            begun = time.monotonic()
            work(count)
            fits = self._fitting(count, begun)
            slow = time.monotonic() - begun > MAX_TRIAL_FRACTION * self.left
            if fits >= total or count == total or slow:
                break
            # the more are done, the less what all have in common weighs
            count = min(MAX_GROWTH * count, total)
        return min(max(FIRST_BATCH, fits), total)

    def _fitting(self, count: int, begun: float) -> int:
        """Return how many items fit into the time left if `count` took from `begun` until now."""
        each = max(time.monotonic() - begun, 1e-9) / count
        return int(min(max(0.0, self.left) / each, 2**62))


def as_budget(budget: float | Budget | None) -> Budget:
    """Return a budget given in seconds, or one that other work shares."""
    return budget if isinstance(budget, Budget) else Budget(budget)


def seconds_in(text: str) -> float | None:
    """Return the seconds in a text such as 2m, or None for "none".

    >>> seconds_in("90"), seconds_in("60s"), seconds_in("2m"), seconds_in("1.5 h")
    (90.0, 60.0, 120.0, 5400.0)
    """
    if (plain := text.strip().lower()) == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", plain)
    if match is None or match[2] not in UNITS:
        raise NescioError(f"budget {text!r}; expected a time such as 60, 60s, 2m or 1h, or none")
    return check_float("budget", float(match[1]) * UNITS[match[2]], inside=True)
