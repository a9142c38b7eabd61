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


def logistic(
    share: float, strength: float, rows: Rows, wrong: NDArray[np.bool_], weight: Rows, start: Rows | None = None
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
    from scipy.optimize import minimize  # here and below: a third of a second of start-up for those who never ask

    sign = np.where(wrong, 1.0, -1.0)
    count = rows.shape[1]
    penalty = 1.0 / (strength * weight.sum())  # the whole is divided by the sum of the weights, so that it is near 1
    shares = weight / weight.sum()

    def objective(halves: Rows) -> tuple[float, Rows]:
        positive, negative, intercept = halves[:count], halves[count:-1], halves[-1]
        w = positive - negative
        margin = sign * (rows @ w + intercept)
        pull = -sign * shares * expit(-margin)
        slope = rows.T @ pull + penalty * (1 - share) * w
        loss = shares @ np.logaddexp(0.0, -margin)
        loss += penalty * (share * (positive.sum() + negative.sum()) + (1 - share) / 2 * (w @ w))
        return float(loss), np.concatenate([slope + penalty * share, penalty * share - slope, [pull.sum()]])

    given = np.zeros(count + 1) if start is None else start
    halves = np.concatenate([given[:-1].clip(0), (-given[:-1]).clip(0), given[-1:]])
    bounds = [(0.0, None)] * (2 * count) + [(None, None)]
    goal = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": max(1e-10, 1e-3 * penalty), "maxcor": 30}
    found = minimize(objective, halves, jac=True, method="L-BFGS-B", bounds=bounds, options=goal).x
    return np.append(found[:count] - found[count:-1], found[-1])


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


def expit(odds: Rows) -> Rows:
    """`1 / (1 + exp(−odds))`, without overflow."""
    return np.exp(-np.logaddexp(0.0, -odds))
