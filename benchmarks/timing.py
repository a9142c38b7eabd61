"""How long things take, interleaved, and at which size."""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any


def sizes(
    description: str | None,
    others: dict[str, dict[str, Any]] | None = None,
    **options: tuple[int, int],
) -> argparse.Namespace:
    """Parse the sizes of a benchmark: each has its usual value, and one for `--toy`, which judges
    no speed.

    `others` are options that are no sizes, as argparse takes them.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--toy", action="store_true", help="run to the end on next to nothing; no ratio is judged"
    )
    for name, (usual, _) in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{usual} by default")
    for flag, how in (others or {}).items():
        parser.add_argument(flag, **how)
    given = parser.parse_args()
    for name, (usual, toy) in options.items():
        if getattr(given, name) is None:
            setattr(given, name, toy if given.toy else usual)
    return given


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
