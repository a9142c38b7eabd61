"""How well scores separate unknown from known inputs; higher = more likely unknown.

Each side is sorted alone, then the two are merged in blocks that fit the cache: all a metric needs
is how many inputs of each side lie below every group of equal scores, and at or below it.
"""

from collections.abc import Iterator
from math import floor, fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.arrays import Array
from nescio.errors import NescioError, check_float
from nescio.metrics.arrays import score_pair

BLOCK = 16_384  # scores of one side merged at a time; measured fastest of 2 Ki … 128 Ki
Counts = NDArray[np.float64]  # integers are exact up to 2⁵³, and divided 3 × as fast as int64


class Separation(NamedTuple):
    """The four numbers of one comparison; `fpr` is the fraction of unknown inputs accepted."""

    auroc: float
    aupr_in: float
    aupr_out: float
    fpr: float


class Groups(NamedTuple):
    """Groups of equal scores, (G,) each: how many inputs are below a group, and at or below."""

    known_below: Counts
    known_upto: Counts
    unknown_below: Counts
    unknown_upto: Counts


def separation(
    known_scores: ArrayLike,
    unknown_scores: ArrayLike,
    tpr: float = 0.95,
    *,
    prevalence: float | None = None,
) -> Separation:
    """Return AUROC, AUPR-In, AUPR-Out and FPR at a TPR, from one sort of each side.

    Scores (N,) and (M,), higher = more likely unknown; ±inf has a rank, NaN is an error. With a
    `prevalence` the two AUPR are those at this fraction of unknown inputs, as in `aupr_in`.

    >>> separation([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    Separation(auroc=0.96875, aupr_in=0.95, aupr_out=0.95, fpr=0.25)
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    n, m = len(known), len(unknown)
    place, weight = accepted_count(n, tpr) - 1, _unknown_weight(n, m, prevalence)
    known, unknown = np.sort(known), np.sort(unknown)
    sums = [
        (
            twice_wins(groups),
            _known_precision(groups, weight),
            _unknown_precision(groups, n, m, weight),
        )
        for groups in merge(known, unknown)
    ]
    wins, precision_in, precision_out = map(fsum, zip(*sums, strict=True))
    accepted = int(unknown.searchsorted(known[place], side="right"))
    return Separation(wins / (2 * n * m), precision_in / n, precision_out / m, accepted / m)


def auroc(known_scores: ArrayLike, unknown_scores: ArrayLike) -> float:
    """Return the area under the ROC curve, the probability that an unknown scores above a known.

    P(unknown > known) + ½ P(unknown = known), from mid-ranks. Scores (N,) and (M,), higher = more
    likely unknown; 1 is perfect, ½ is random. ±inf is allowed, it has a rank; NaN is an error.

    >>> auroc([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    0.96875
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    wins = fsum(map(twice_wins, merge(np.sort(known), np.sort(unknown))))
    return wins / (2 * len(known) * len(unknown))


def aupr_in(
    known_scores: ArrayLike, unknown_scores: ArrayLike, *, prevalence: float | None = None
) -> float:
    """Return the average precision of finding the known inputs, the lowest scores first.

    Σ (recall_k − recall_{k−1}) · precision_k over the distinct scores: steps, not trapezoids.
    Scores as for `auroc`; 1 is perfect, 1 − `prevalence` is random.

    Args:
        prevalence: the fraction of inputs that are unknown, by default M / (N + M). Another one
            weights the unknown inputs, as if there were that many of their kind.

    >>> aupr_in([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    0.95
    >>> round(aupr_in([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0], prevalence=0.01), 4)
    0.9994
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    n, weight = len(known), _unknown_weight(len(known), len(unknown), prevalence)
    groups = merge(np.sort(known), np.sort(unknown))
    return fsum(_known_precision(group, weight) for group in groups) / n


def aupr_out(
    known_scores: ArrayLike, unknown_scores: ArrayLike, *, prevalence: float | None = None
) -> float:
    """Return the average precision of finding the unknown inputs, the highest scores first.

    As `aupr_in`, but `prevalence` is random.

    >>> aupr_out([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    0.95
    >>> round(aupr_out([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0], prevalence=0.01), 4)
    0.7597
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    n, m = len(known), len(unknown)
    weight, groups = _unknown_weight(n, m, prevalence), merge(np.sort(known), np.sort(unknown))
    return fsum(_unknown_precision(group, n, m, weight) for group in groups) / m


def fpr_at_tpr(known_scores: ArrayLike, unknown_scores: ArrayLike, tpr: float = 0.95) -> float:
    """Return the fraction of unknown inputs accepted when the fraction tpr of known inputs is.

    Accepted = score ≤ threshold; the threshold is the smallest observed known score that accepts
    enough, without interpolation. Scores as for `auroc`; 0 is perfect.

    >>> fpr_at_tpr([1.0, 2.0, 3.0, 4.0], [0.0, 3.0, 3.5, 9.0], tpr=0.75)
    0.5
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    place = accepted_count(len(known), tpr) - 1
    threshold = np.partition(known, place)[place]
    return int(np.count_nonzero(unknown <= threshold)) / len(unknown)


def balanced_threshold(known_scores: ArrayLike, unknown_scores: ArrayLike) -> float:
    """Return the threshold that separates the sides best if both were as many.

    It maximises ½ P(known ≤ t) + ½ P(unknown > t) over the observed scores; of several, the
    smallest (Oberdiek et al. 2018, eq. 7).

    >>> balanced_threshold([1.0, 2.0, 3.0, 4.0], [3.5, 5.0, 6.0, 7.0])
    3.0
    """
    known, unknown = (np.sort(side) for side in score_pair(known_scores, unknown_scores))
    thresholds = np.unique(np.concatenate([known, unknown]))
    accepted, wrongly = (side.searchsorted(thresholds, side="right") for side in (known, unknown))
    balance = accepted * len(unknown) - wrongly * len(known)  # integers: ties are exact
    return float(thresholds[np.argmax(balance)])


def accepted_count(n: int, tpr: float) -> int:
    """Return the smallest k with k / n ≥ tpr."""
    if check_float("tpr", tpr, most=1) == 0:
        raise NescioError("tpr is 0; expected a fraction in (0, 1]")
    # not ceil(tpr · n): 0.07 · 100 is 7.000000000000001, whereas 7 / 100 is the very float 0.07
    k = floor(tpr * n)
    return k if k / n >= tpr else k + 1


def merge(known: Array, unknown: Array) -> Iterator[Groups]:
    """Yield all groups of equal scores of two sorted arrays: of pivots, then block by block.

    With every BLOCK-th score of each side as a pivot a block is never larger than that, however
    many scores are equal.
    """
    pivots = np.unique(np.concatenate([known[::BLOCK], unknown[::BLOCK]]))
    edges = [side.searchsorted(pivots, at) for side in (known, unknown) for at in ("left", "right")]
    yield Groups(*(edge.astype(np.float64) for edge in edges))
    known_start, known_stop, unknown_start, unknown_stop = edges
    known_next = np.append(known_start[1:], len(known))
    unknown_next = np.append(unknown_start[1:], len(unknown))
    for k in np.flatnonzero((known_stop < known_next) | (unknown_stop < unknown_next)):
        i, j = known_stop[k], unknown_stop[k]
        counts = group_counts(known[i : known_next[k]], unknown[j : unknown_next[k]])
        yield groups_between(counts[0] + i, counts[1] + j)


def group_counts(known: Array, unknown: Array) -> tuple[Counts, Counts]:
    """Return how many of two short sorted arrays are at or below each group, (G + 1,) from 0 on."""
    scores = np.concatenate([known, unknown])
    order = scores.argsort(kind="stable")  # two sorted runs: numpy merges them instead of sorting
    scores = scores.take(order)
    edge = np.ones(len(scores) + 1, dtype=bool)
    np.not_equal(scores[1:], scores[:-1], out=edge[1:-1])
    both_count = np.flatnonzero(edge)
    unknown_count = np.zeros(len(edge), dtype=np.int64)
    np.cumsum(order >= len(known), out=unknown_count[1:])
    unknown_count = unknown_count.take(both_count)
    return (both_count - unknown_count).astype(np.float64), unknown_count.astype(np.float64)


def groups_between(known_count: Counts, unknown_count: Counts) -> Groups:
    """Return the groups whose edges these counts are."""
    return Groups(known_count[:-1], known_count[1:], unknown_count[:-1], unknown_count[1:])


def twice_wins(groups: Groups) -> float:
    """Return twice the number of pairs whose unknown scores above the known, ties counting half."""
    unknown = groups.unknown_upto - groups.unknown_below
    return float((unknown * (groups.known_below + groups.known_upto)).sum())


def _unknown_weight(n: int, m: int, prevalence: float | None) -> float:
    """Return how much an unknown input counts where a known one counts 1."""
    if prevalence is None:
        return 1.0
    fraction = check_float("prevalence", prevalence, most=1, inside=True)
    return fraction / (1 - fraction) * n / m


def _known_precision(groups: Groups, weight: float) -> float:
    """Sum over the groups' known inputs: fraction of known among all at or below."""
    precision = groups.known_upto / (groups.known_upto + weight * groups.unknown_upto)
    return float(((groups.known_upto - groups.known_below) * precision).sum())


def _unknown_precision(groups: Groups, n: int, m: int, weight: float) -> float:
    """Sum over the groups' unknown inputs: fraction of unknown among all at or above."""
    above = weight * (m - groups.unknown_below)
    precision = above / (above + (n - groups.known_below))
    return float(((groups.unknown_upto - groups.unknown_below) * precision).sum())
