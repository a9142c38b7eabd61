"""Logistic regression of several classes to the optimum, where there are as many features as centres of kernels."""

import torch
import torch.nn.functional as F
from torch import Tensor

RESTARTS = 50


def solve(rows: Tensor, y: Tensor, classes: int, ridge: float, near: float = 1e-9) -> Tensor:
    """The weights `(C, F)`, without intercepts, that minimise `mean −log softmax(rows · wᵀ)_y + ridge/2 · ‖w‖²`.

    The ridge makes the problem strictly convex, so there is one optimum also where a plane divides the classes.

    Args:
        rows: features `(N, F)` in float64.
        y: labels `(N,)`.
        ridge: above 0.
        near: how far from zero an entry of the gradient may be at the end.
    """
    from scipy.optimize import minimize  # a third of a second of start-up for those who never ask

    own = F.one_hot(y, classes).to(rows)  # (N, C)

    def objective(flat: object) -> tuple[float, object]:
        w = torch.as_tensor(flat).to(rows).view(classes, -1)
        log_p = (rows @ w.T).log_softmax(1)
        loss = -(log_p * own).sum() / len(rows) + ridge / 2 * w.square().sum()
        slope = (log_p.exp() - own).T @ rows / len(rows) + ridge * w
        return float(loss), slope.flatten().cpu().numpy()

    found = torch.zeros(classes * rows.shape[1], dtype=torch.float64).numpy()
    goal = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": near, "maxcor": 30}
    for _ in range(
        RESTARTS
    ):  # a step that gains nothing ends a search, also short of the goal; a new one goes on
        result = minimize(objective, found, jac=True, method="L-BFGS-B", options=goal)
        found = result.x
        if abs(result.jac).max() <= near:
            break
    return torch.from_numpy(found).to(rows).view(classes, -1)
