"""How well scores tell unknown inputs from known ones; larger = less known, and both sides are sorted only once.

Each side is sorted alone, then the two are merged in blocks that fit the cache. All a metric needs of the merge is,
for every group of equal scores, how many known and unknown inputs are in it and how many lie at or below it.
"""

from collections.abc import Iterator
from math import floor, fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import Array, score_pair

BLOCK = 8192  # scores of one side merged at a time; measured fastest of 2 Ki … 128 Ki

Counts = NDArray[np.int64]


class Separation(NamedTuple):
    """The four numbers of one comparison; `fpr` is the share of unknown inputs accepted."""

    auroc: float
    aupr_in: float
    aupr_out: float
    fpr: float


class Groups(NamedTuple):
    """Some groups of equal scores: inputs in each one, and inputs of the whole data at or below each one."""

    known: Counts
    unknown: Counts
    known_upto: Counts
    unknown_upto: Counts


def separation(known_scores: ArrayLike, unknown_scores: ArrayLike, tpr: float = 0.95) -> Separation:
    """AUROC, AUPR-In, AUPR-Out and FPR at a TPR, from one sort of each side.

    Scores (N,) and (M,), larger = less known. ±inf is allowed, it has a rank; NaN is an error.

    >>> separation([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    Separation(auroc=0.96875, aupr_in=0.95, aupr_out=0.95, fpr=0.25)
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    place = accepted_count(len(known), tpr)
    known, unknown = np.sort(known), np.sort(unknown)
    n, m = len(known), len(unknown)
    wins, precision_in, precision_out = 0, [], []
    for groups in merge(known, unknown):
        wins += twice_wins(groups)
        precision_in.append(known_precision(groups))
        precision_out.append(unknown_precision(groups, n, m))
    accepted = int(unknown.searchsorted(known[place - 1], side="right"))
    return Separation(wins / (2 * n * m), fsum(precision_in) / n, fsum(precision_out) / m, accepted / m)


def auroc(known_scores: ArrayLike, unknown_scores: ArrayLike) -> float:
    """Area under the ROC curve: the chance that an unknown input scores above a known one, ties counting half.

    P(unknown > known) + ½ P(unknown = known), from mid-ranks, counted in integers. Scores (N,) and (M,), larger =
    less known; 1 is perfect, ½ is chance. ±inf is allowed, it has a rank; NaN is an error.

    >>> auroc([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    0.96875
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    wins = sum(map(twice_wins, merge(np.sort(known), np.sort(unknown))))
    return wins / (2 * len(known) * len(unknown))


def aupr_in(known_scores: ArrayLike, unknown_scores: ArrayLike) -> float:
    """Average precision of finding the known inputs, the smallest scores first.

    Σ (recall_k − recall_{k−1}) · precision_k over the distinct scores: steps, not trapezoids. Scores (N,) and (M,),
    larger = less known; 1 is perfect, N / (N + M) is chance. ±inf is allowed; NaN is an error.

    >>> aupr_in([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    0.95
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    return fsum(map(known_precision, merge(np.sort(known), np.sort(unknown)))) / len(known)


def aupr_out(known_scores: ArrayLike, unknown_scores: ArrayLike) -> float:
    """Average precision of finding the unknown inputs, the largest scores first.

    Σ (recall_k − recall_{k−1}) · precision_k over the distinct scores: steps, not trapezoids. Scores (N,) and (M,),
    larger = less known; 1 is perfect, M / (N + M) is chance. ±inf is allowed; NaN is an error.

    >>> aupr_out([1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0])
    0.95
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    n, m = len(known), len(unknown)
    return fsum(unknown_precision(groups, n, m) for groups in merge(np.sort(known), np.sort(unknown))) / m


def fpr_at_tpr(known_scores: ArrayLike, unknown_scores: ArrayLike, tpr: float = 0.95) -> float:
    """Share of unknown inputs accepted when at least the share tpr of known inputs is accepted.

    Accepted = score ≤ threshold; the threshold is the smallest observed known score that accepts enough, without
    interpolation. Scores (N,) and (M,), larger = less known; 0 is perfect. ±inf is allowed; NaN is an error.

    >>> fpr_at_tpr([1.0, 2.0, 3.0, 4.0], [0.0, 3.0, 3.5, 9.0], tpr=0.75)
    0.5
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    place = accepted_count(len(known), tpr) - 1
    threshold = np.partition(known, place)[place]
    return int(np.count_nonzero(unknown <= threshold)) / len(unknown)


def accepted_count(n: int, tpr: float) -> int:
    """The smallest k with k / n ≥ tpr."""
    if not 0 < tpr <= 1:
        raise NescioError(f"tpr is {tpr}; expected a share in (0, 1]")
    # not ceil(tpr · n): 0.07 · 100 is 7.000000000000001, whereas 7 / 100 is the very float 0.07
    k = floor(tpr * n)
    return k if k / n >= tpr else k + 1


def merge(known: Array, unknown: Array) -> Iterator[Groups]:
    """All groups of equal scores of two sorted arrays: first the pivots' groups, then block by block what lies between.

    With every BLOCK-th score of each side as a pivot a block is never larger than that, however many scores are equal.
    """
    pivots = np.unique(np.concatenate([known[::BLOCK], unknown[::BLOCK]]))
    known_start, known_stop = known.searchsorted(pivots, "left"), known.searchsorted(pivots, "right")
    unknown_start, unknown_stop = unknown.searchsorted(pivots, "left"), unknown.searchsorted(pivots, "right")
    yield Groups(known_stop - known_start, unknown_stop - unknown_start, known_stop, unknown_stop)
    known_next, unknown_next = np.append(known_start[1:], len(known)), np.append(unknown_start[1:], len(unknown))
    for between in np.flatnonzero((known_stop < known_next) | (unknown_stop < unknown_next)):
        i, j = known_stop[between], unknown_stop[between]
        block = merge_block(known[i : known_next[between]], unknown[j : unknown_next[between]])
        yield block._replace(known_upto=block.known_upto + i, unknown_upto=block.unknown_upto + j)


def merge_block(known: Array, unknown: Array) -> Groups:
    """The groups of equal scores of two short sorted arrays."""
    scores = np.concatenate([known, unknown])
    order = scores.argsort(kind="stable")  # two sorted runs: numpy merges them instead of sorting
    scores = scores.take(order)
    last = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)
    unknown_upto = np.cumsum(order >= len(known))[last]
    known_upto = last + 1 - unknown_upto
    return Groups(np.diff(known_upto, prepend=0), np.diff(unknown_upto, prepend=0), known_upto, unknown_upto)


def twice_wins(groups: Groups) -> int:
    """Twice the number of pairs in which the unknown input of a group scores above a known one, ties counting half."""
    return int((groups.unknown * (2 * groups.known_upto - groups.known)).sum())


def known_precision(groups: Groups) -> float:
    """Sum over the known inputs of the groups: share of known among all inputs at or below."""
    precision = groups.known_upto / (groups.known_upto + groups.unknown_upto)
    return float((groups.known * precision).sum())


def unknown_precision(groups: Groups, n: int, m: int) -> float:
    """Sum over the unknown inputs of the groups: share of unknown among all inputs at or above."""
    known_from = n - groups.known_upto + groups.known
    unknown_from = m - groups.unknown_upto + groups.unknown
    return float((groups.unknown * (unknown_from / (known_from + unknown_from))).sum())
