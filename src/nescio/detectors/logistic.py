"""Logistic regression with a penalty on absolute values, on squares, or on both, to the last feature.

Gradient statistics are nearly collinear, and scikit-learn's solver for such penalties (saga) is far from its goal when
it gives up. Here, for a penalty on absolute values, each weight is a difference of two that may not be negative: the
penalty becomes smooth, and L-BFGS-B (scipy) goes on until the conditions of an optimum hold, with weights that are
exactly zero.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
RESTARTS = 50


def logistic(
    share: float,
    strength: float,
    rows: Rows,
    wrong: NDArray[np.bool_],
    weight: Rows,
    start: Rows | None = None,
) -> Rows:
    """Weights and, last, the intercept `(F + 1,)` that minimise the penalised loss; the intercept is not penalised.

    As scikit-learn has it: `share · ‖w‖₁ + (1 − share) · ½‖w‖₂² + strength · Σ weight · log-loss`.

    Args:
        share: of the penalty on absolute values, 0 to 1.
        strength: C of scikit-learn; infinite for no penalty.
        rows: standardised features `(N, F)`.
        wrong, weight: what to find, and how much each row counts, `(N,)`.
        start: a solution nearby.
    """
    if share == 0:
        return _smooth(strength, rows, wrong, weight)
    from scipy.optimize import minimize
    from scipy.special import (
        expit,  # here and below: a third of a second of start-up for those who never ask
    )

    sign = np.where(wrong, 1.0, -1.0)
    count = rows.shape[1]
    penalty = 1.0 / (
        strength * weight.sum()
    )  # the whole is divided by the sum of the weights, so that it is near 1
    shares = weight / weight.sum()

    def objective(halves: Rows) -> tuple[float, Rows]:
        positive, negative, intercept = halves[:count], halves[count:-1], halves[-1]
        w = positive - negative
        margin = sign * (rows @ w + intercept)
        pull = -sign * shares * expit(-margin)
        slope = rows.T @ pull + penalty * (1 - share) * w
        loss = shares @ np.logaddexp(0.0, -margin)
        loss += penalty * (share * (positive.sum() + negative.sum()) + (1 - share) / 2 * (w @ w))
        return float(loss), np.concatenate(
            [slope + penalty * share, penalty * share - slope, [pull.sum()]]
        )

    found = np.zeros(count + 1) if start is None else start
    bounds = [(0.0, None)] * (2 * count) + [(None, None)]
    near = max(1e-10, 1e-3 * penalty)
    goal = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": near, "maxcor": 30}
    for _ in range(
        RESTARTS
    ):  # a step that gains nothing ends a search, also far from the goal; a new one goes on
        halves = np.concatenate([found[:-1].clip(0), (-found[:-1]).clip(0), found[-1:]])
        result = minimize(
            objective, halves, jac=True, method="L-BFGS-B", bounds=bounds, options=goal
        )
        found = np.append(result.x[:count] - result.x[count:-1], result.x[-1])
        slope = result.jac.copy()
        slope[:-1] = np.where(
            result.x[:-1] > 0, slope[:-1], slope[:-1].clip(max=0)
        )  # at a bound only one way is open
        if np.abs(slope).max() <= near:
            break
    return found


def _smooth(strength: float, rows: Rows, wrong: NDArray[np.bool_], weight: Rows) -> Rows:
    """The same without a penalty on absolute values, by scikit-learn's Newton steps, which are few.

    Where a plane divides the two sides and there is no penalty, there is no optimum: weights grow until it gives up.
    """
    from scipy.linalg import LinAlgWarning
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-8, max_iter=200)
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, LinAlgWarning):
            warnings.simplefilter("ignore", kind)
        model.fit(rows, wrong, weight)
    return np.append(model.coef_[0], model.intercept_)
