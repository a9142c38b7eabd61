"""How long things take, measured in turns."""

import statistics
import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """One run on the clock."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turns(*works: Callable[[], object], repeats: int) -> list[float]:
    """Median seconds of each, one after the other, so that a noisy neighbour disturbs all."""
    for work in works:  # the first pass makes what later ones reuse
        work()
    rounds = [[seconds(work) for work in works] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]
