"""Which shares of known and of unknown inputs are accepted, threshold by threshold."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nescio.errors import NescioError
from nescio.metrics.arrays import score_pair
from nescio.metrics.ranking import Groups, merge_block, twice_wins


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Shares of inputs accepted, (G + 1,) each, from none to all of them as the threshold rises.

    Known inputs are the positives: `known` is the true-positive rate, `unknown` the false-positive rate. `area` is that
    of the trapezoids under the curve, which is AUROC; `at` thins the curve and leaves its area as it is.
    """

    unknown: NDArray[np.float64]
    known: NDArray[np.float64]
    area: float

    def at(self, points: int = 201) -> "RocCurve":
        """The same curve at no more than so many points at even steps of unknown + known, for storage.

        So steep and flat stretches are followed alike. Its trapezoids differ from the area by at most ½ / (points − 1),
        and for thousands of inputs by a few hundredths of that.

        >>> curve = roc_curve([1.0, 2.0, 3.0], [4.0, 5.0]).at(5)
        >>> curve.unknown.tolist(), curve.known.tolist()
        ([0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0, 1.0])
        """
        if points < 2:
            raise NescioError(f"points is {points}; expected at least 2")
        if len(self.known) <= points:
            return self
        along = self.unknown + self.known  # no two points are equal, so it always grows
        steps = np.linspace(0.0, 2.0, points)
        return replace(
            self,
            unknown=np.interp(steps, along, self.unknown),
            known=np.interp(steps, along, self.known),
        )


def roc_curve(known_scores: ArrayLike, unknown_scores: ArrayLike) -> RocCurve:
    """The receiver operating characteristic of accepting what scores at or below a threshold.

    Scores (N,) and (M,), larger = less known. All inputs of one score are accepted together, which is one straight
    stretch of the curve, and so the trapezoids under it count ties half, as `auroc` does. ±inf is allowed, it has a
    rank; NaN is an error.

    >>> curve = roc_curve([1.0, 2.0, 3.0, 4.0], [4.0, 5.0])
    >>> curve.unknown.tolist(), curve.known.tolist(), curve.area
    ([0.0, 0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0, 1.0], 0.9375)
    """
    known, unknown = score_pair(known_scores, unknown_scores)
    n, m = len(known), len(unknown)
    known_count, unknown_count = merge_block(np.sort(known), np.sort(unknown))
    wins = twice_wins(
        Groups(known_count[:-1], known_count[1:], unknown_count[:-1], unknown_count[1:])
    )
    return RocCurve(unknown_count / m, known_count / n, wins / (2 * n * m))
