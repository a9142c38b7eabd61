"""All four separation metrics against scikit-learn's four calls, on the same scores in the same
run.
"""

import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nescio.metrics import Separation, separation
from timing import sizes

REQUIRED_RATIO = 10
TOLERANCE = 1e-12

Scores = NDArray[np.floating]

SHAPES: dict[str, Callable[[Scores], Scores]] = {
    "float64": lambda scores: scores,
    "float64, 3 decimals": lambda scores: scores.round(3),
    "float32": lambda scores: scores.astype(np.float32),
}


def by_scikit_learn(known: Scores, unknown: Scores) -> Separation:
    scores = np.concatenate([known, unknown])
    is_unknown = np.repeat(np.array([0, 1], dtype=np.int8), [len(known), len(unknown)])
    unknown_accepted, known_accepted, _ = roc_curve(
        1 - is_unknown, -scores, drop_intermediate=False
    )
    fpr = unknown_accepted[np.searchsorted(known_accepted, 0.95)]
    del unknown_accepted, known_accepted
    return Separation(
        roc_auc_score(is_unknown, scores),
        average_precision_score(1 - is_unknown, -scores),
        average_precision_score(is_unknown, scores),
        float(fpr),
    )


def timed(
    call: Callable[[Scores, Scores], Separation], known: Scores, unknown: Scores
) -> tuple[float, Separation]:
    start = perf_counter()
    result = call(known, unknown)
    return perf_counter() - start, result


def main() -> int:
    given = sizes(__doc__, n=(10_000_000, 1000))
    n = given.n
    rng = np.random.default_rng(0)
    known, unknown = rng.normal(0, 1, n), rng.normal(1.5, 1.2, n)
    separation(known[:1000], unknown[:1000])
    by_scikit_learn(known[:1000], unknown[:1000])
    passed = True
    print(f"AUROC, AUPR-In, AUPR-Out and FPR95 of {n:,} known and {n:,} unknown scores; seconds")
    print(f"{'scores':<20} {'nescio':>8} {'scikit-learn':>13} {'ratio':>7} {'difference':>11}")
    for name, shape in SHAPES.items():
        sides = shape(known), shape(unknown)
        ours, mine = timed(separation, *sides)
        theirs, reference = timed(by_scikit_learn, *sides)
        difference = max(abs(a - b) for a, b in zip(mine, reference, strict=True))
        print(
            f"{name:<20} {ours:>8.3f} {theirs:>13.2f} {theirs / ours:>6.0f}× {difference:>11.1e}",
            flush=True,
        )
        passed &= (given.toy or theirs / ours >= REQUIRED_RATIO) and difference <= TOLERANCE
    print(
        "passed"
        if passed
        else f"FAILED: expected {REQUIRED_RATIO}× and a difference of at most {TOLERANCE}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
