"""What accuracy is left when the inputs with the largest scores are rejected."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import correct_vector, same_length, score_pair, score_vector


@dataclass(frozen=True, eq=False)
class RejectionCurve:
    """Accuracy of what is kept, (n,), against the rejected fraction 0, 1/n … (n − 1)/n.

    `maximum` is what no score can exceed: all known inputs right and all unknown ones rejected first. The areas are
    means over all n fractions, so 1 is perfect; `at` thins the curve and leaves its areas as they are.
    """

    rejected: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    maximum: NDArray[np.float64]
    area: float
    maximum_area: float

    def at(self, points: int = 101) -> "RejectionCurve":
        """The same curve at evenly spaced rejected fractions, each the nearest of its own, for storage.

        >>> rejection_curve([True, True, True, False, False], [1, 2, 3, 4, 5]).at(3).rejected.tolist()
        [0.0, 0.4, 0.8]
        """
        if points < 2:
            raise NescioError(f"points is {points}; expected at least 2")
        n = len(self.rejected)
        keep = np.linspace(0, n - 1, min(points, n)).round().astype(np.int64)
        return replace(
            self,
            rejected=self.rejected[keep],
            accuracy=self.accuracy[keep],
            maximum=self.maximum[keep],
        )


def rejection_curve(
    correct: ArrayLike, known_scores: ArrayLike, unknown_scores: ArrayLike | None = None
) -> RejectionCurve:
    """Accuracy of the inputs kept when those with the largest scores are rejected; unknown inputs count as wrong.

    correct (N,) bool and known_scores (N,) speak of the known inputs, unknown_scores (M,) of the others; n = N + M.
    Equal scores are rejected in random order and the accuracy is its expectation, so the order of the inputs is of no
    account. maximum = min(1, N / kept). ±inf is allowed, it has a rank; NaN is an error.

    >>> curve = rejection_curve([True, False], [1.0, 3.0], [2.0, 4.0])
    >>> curve.accuracy.tolist(), curve.maximum.tolist()
    ([0.25, 0.3333333333333333, 0.5, 1.0], [0.5, 0.6666666666666666, 1.0, 1.0])
    """
    right = correct_vector(correct)
    if unknown_scores is None:
        scores = known = score_vector("known_scores", known_scores)
    else:
        known, unknown = score_pair(known_scores, unknown_scores)
        scores = np.concatenate([known, unknown])
    same_length("correct", right, "known_scores", known)
    n = len(scores)
    order = scores.argsort()
    scores = scores[order]
    hits = np.concatenate([right, np.zeros(n - len(known), dtype=bool)])[order].cumsum()
    last = np.append(np.flatnonzero(scores[1:] != scores[:-1]), n - 1)
    kept = np.arange(n, 0, -1)
    # within a group of equal scores the expected number of hits grows linearly
    expected = np.interp(kept, np.append(0, last + 1), np.append(0, hits[last]))
    kept_accuracy, maximum = expected / kept, np.minimum(1.0, len(known) / kept)
    return RejectionCurve(
        (n - kept) / n, kept_accuracy, maximum, float(kept_accuracy.mean()), float(maximum.mean())
    )
