"""Curves over all thresholds: ROC, and accuracy against rejected fraction."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.errors import check_int
from nescio.metrics.arrays import check_length, checked, correct_vector, score_pair
from nescio.metrics.ranking import group_counts, groups_between, twice_wins

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Fractions of inputs accepted, (G + 1,) each, from none to all as the threshold rises.

    `known` is the true-positive rate, `unknown` the false-positive rate, `area` that of the
    trapezoids under the curve, which is AUROC; `at` thins the curve and leaves its area as it is.
    """

    unknown: Floats
    known: Floats
    area: float

    def at(self, points: int = 201) -> "RocCurve":
        """Return the curve at no more than so many points, at even steps of unknown + known.

        Its trapezoids differ from the area by at most ½ / (points − 1), and for thousands of inputs
        by a few hundredths of that.

        >>> curve = roc_curve([1.0, 2.0, 3.0], [4.0, 5.0]).at(5)
        >>> curve.unknown.tolist(), curve.known.tolist()
        ([0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0, 1.0])
        """
        check_int("points", points, least=2)
        if len(self.known) <= points:
            return self
        along = self.unknown + self.known  # no two points are equal, so it always grows
        steps = np.linspace(0.0, 2.0, points)
        unknown, known = (np.interp(steps, along, side) for side in (self.unknown, self.known))
        return replace(self, unknown=unknown, known=known)


def roc_curve(known_scores: ArrayLike, unknown_scores: ArrayLike) -> RocCurve:
    """Return the receiver operating characteristic of accepting scores at or below a threshold.

    Scores as for `auroc`. All inputs of one score are accepted together, on one straight stretch of
    the curve, so the trapezoids under it count ties half, as `auroc` does.

    >>> curve = roc_curve([1.0, 2.0, 3.0, 4.0], [4.0, 5.0])
    >>> curve.unknown.tolist(), curve.known.tolist(), curve.area
    ([0.0, 0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0, 1.0], 0.9375)
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    n, m = len(known), len(unknown)
    known_count, unknown_count = group_counts(np.sort(known), np.sort(unknown))
    wins = twice_wins(groups_between(known_count, unknown_count))
    return RocCurve(unknown_count / m, known_count / n, wins / (2 * n * m))


@dataclass(frozen=True, eq=False)
class RejectionCurve:
    """Accuracy of the accepted inputs, (n,), against the rejected fraction 0, 1/n … (n − 1)/n.

    `maximum` is what no score can exceed: all known inputs right, all unknown ones rejected first.
    Areas are means over all n fractions, 1 is perfect; `at` thins the curve and leaves them.
    """

    rejected: Floats
    accuracy: Floats
    maximum: Floats
    area: float
    maximum_area: float

    def at(self, points: int = 101) -> "RejectionCurve":
        """Return the curve at evenly spaced rejected fractions, for storage.

        >>> curve = rejection_curve([True, True, True, False, False], [1, 2, 3, 4, 5])
        >>> curve.at(3).rejected.tolist()
        [0.0, 0.4, 0.8]
        """
        n, points = len(self.rejected), check_int("points", points, least=2)
        at = np.linspace(0, n - 1, min(points, n)).round().astype(np.int64)
        columns = {name: getattr(self, name)[at] for name in ("rejected", "accuracy", "maximum")}
        return replace(self, **columns)


def rejection_curve(
    correct: ArrayLike, known_scores: ArrayLike, unknown_scores: ArrayLike | None = None
) -> RejectionCurve:
    """Return the accuracy left when the inputs with the highest scores are rejected.

    Unknown inputs count as wrong. correct (N,) bool and known_scores (N,) describe the known
    inputs, unknown_scores (M,) the others; n = N + M. Equal scores are rejected in random order and
    the accuracy is its expectation. maximum = min(1, N / accepted). ±inf is allowed, NaN is not.

    >>> curve = rejection_curve([True, False], [1.0, 3.0], [2.0, 4.0])
    >>> curve.accuracy.tolist(), curve.maximum.tolist()
    ([0.25, 0.3333333333333333, 0.5, 1.0], [0.5, 0.6666666666666666, 1.0, 1.0])
    """
    hits = correct_vector(correct)
    if unknown_scores is None:
        scores = known = checked("known_scores", known_scores)
    else:
        known, unknown = score_pair(known_scores, unknown_scores)
        scores = np.concatenate([known, unknown])
    check_length("correct", hits, "known_scores", known)
    n = len(scores)
    order = scores.argsort()
    scores = scores[order]
    hit_count = np.concatenate([hits, np.zeros(n - len(known), dtype=bool)])[order].cumsum()
    last = np.append(np.flatnonzero(scores[1:] != scores[:-1]), n - 1)
    accepted = np.arange(n, 0, -1)
    # within a group of equal scores the expected number of hits grows linearly
    expected = np.interp(accepted, np.append(0, last + 1), np.append(0, hit_count[last]))
    accuracy, maximum = expected / accepted, np.minimum(1.0, len(known) / accepted)
    areas = float(accuracy.mean()), float(maximum.mean())
    return RejectionCurve((n - accepted) / n, accuracy, maximum, *areas)
