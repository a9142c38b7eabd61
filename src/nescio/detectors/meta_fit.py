"""Which predictions to mistrust, learned from features: logistic regressions, a small network.

All are layers of a perceptron over standardised features; a regression has no hidden layer.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.data import Samples
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.progress import bar
from nescio.seeds import derived_seed
from nescio.training.train import train as train_model

# fraction of the penalty on absolute values; None: no penalty
REGRESSIONS: dict[str, float | None] = {"glm": None, "lasso": 1, "ridge": 0, "elastic_net": 0.5}
KINDS = (*REGRESSIONS, "nn")
HIDDEN = 15
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # C of scikit-learn: smaller is a stronger penalty
FOLDS = 5
MAX_TRUSTED = 3000  # trusted rows that choose the strength, and stand for the others
MAX_RESTARTS = 50
TRAINING = {"epochs": 60, "batch_size": 256, "learning_rate": 3e-3, "weight_decay": 1e-3}
Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class MetaFit:
    """A fitted meta-classifier of F features: its log-odds that an answer is wrong."""

    centre: Tensor  # (F,)
    scale: Tensor
    layers: tuple[tuple[Tensor, Tensor], ...]  # weights and biases, float64
    strength: float | None  # C, if it was chosen

    def __call__(self, features: Tensor) -> Tensor:
        """Return log-odds `(N,)` of features `(N, F)`."""
        h = (features - self.centre) / self.scale
        for number, (weight, bias) in enumerate(self.layers):
            h = (h.relu() if number else h) @ weight.T + bias
        return h[:, 0]


def fit_meta(kind: str, features: Tensor, wrong: Tensor, seed: int = 0) -> MetaFit:
    """Learn from float64 features `(N, F)` which rows are `wrong`, bools `(N,)`, not all equal.

    >>> features = torch.arange(20.0, dtype=torch.float64)[:, None]
    >>> fitted = fit_meta("ridge", features, wrong=features[:, 0] > 12)
    >>> fitted(features[[0, 19]]) > 0
    tensor([False,  True])
    """
    centre, spread = features.mean(0), features.std(0, correction=0)
    # a feature that is constant but for rounding must not count
    scale = spread.where(spread > 1e-9 * features.abs().amax(0), 1.0)
    rows = (features - centre) / scale
    if kind == "nn":
        return MetaFit(centre, scale, _network(rows, wrong, seed), None)
    # scikit-learn's seeds have 32 bits
    arrays = rows.cpu().numpy(), wrong.cpu().numpy()
    strength, weights = _regression(REGRESSIONS[kind], *arrays, seed % 2**32)
    fitted = torch.from_numpy(weights).to(features)
    return MetaFit(centre, scale, ((fitted[None, :-1], fitted[-1:]),), strength)


def _network(rows: Tensor, wrong: Tensor, seed: int) -> tuple[tuple[Tensor, Tensor], ...]:
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        net = mlp(rows.shape[1], 2, hidden=(HIDDEN,))
    data = Samples(rows.float().cpu(), wrong.long().cpu())
    how = {"optimizer": "adam", "schedule": "cosine", "seed": seed, "progress": False, **TRAINING}
    train_model(Softmax(net), data, **how)  # type: ignore[arg-type]
    first, last = (layer for layer in net.modules() if isinstance(layer, torch.nn.Linear))
    odds = torch.tensor(
        [[-1.0, 1.0]], dtype=torch.float64
    )  # of being wrong: a difference of logits
    weights = [(first.weight, first.bias), (odds @ last.weight.double(), odds @ last.bias.double())]
    return tuple((w.detach().to(rows), b.detach().to(rows)) for w, b in weights)


def _regression(l1: float | None, rows: Rows, wrong: Flags, seed: int) -> tuple[float | None, Rows]:
    """Return the strength that was chosen, and weights with the intercept `(F + 1,)`."""
    weight = np.ones(len(rows))
    if l1 is None:
        return None, logistic(0.0, np.inf, rows, wrong, weight)
    strength = _strength(l1, rows, wrong, seed)
    return strength, logistic(l1, strength, rows, wrong, weight)


def _strength(l1: float, rows: Rows, wrong: Flags, seed: int) -> float:
    """Return the strength of least log-loss on held-out folds, each started from the strongest."""
    from scipy.special import expit  # here and below: half a second of start-up
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    rows, wrong, weight = _fewer(rows, wrong, seed)
    losses = np.zeros(len(STRENGTHS))
    folds = min(FOLDS, int(wrong.sum()), int((~wrong).sum()))
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(rows, wrong)
    with bar(folds * len(STRENGTHS), "fit meta") as shown:
        for train, test in splits:
            sample, solution = (rows[train], wrong[train], weight[train]), None
            for number, strength in enumerate(STRENGTHS):
                solution = logistic(l1, strength, *sample, solution)
                chance = expit(rows[test] @ solution[:-1] + solution[-1])
                losses[number] += log_loss(wrong[test], chance, sample_weight=weight[test])
                shown.advance()
    return STRENGTHS[int(losses.argmin())]


def _fewer(rows: Rows, wrong: Flags, seed: int) -> tuple[Rows, Flags, Rows]:
    """Return all wrong rows and a sample of the others, weighted to count as much as all did."""
    trusted = np.flatnonzero(~wrong)
    count = min(MAX_TRUSTED, len(trusted))
    sample = np.random.default_rng(seed).choice(trusted, count, replace=False)
    chosen = np.concatenate([np.flatnonzero(wrong), sample])
    weight = np.where(wrong[chosen], 1.0, len(trusted) / len(sample))
    return rows[chosen], wrong[chosen], weight


def logistic(
    l1: float, strength: float, rows: Rows, wrong: Flags, weight: Rows, start: Rows | None = None
) -> Rows:
    """Minimise `l1 · ‖w‖₁ + (1 − l1) · ½‖w‖₂² + strength · Σ weight · log-loss`, as scikit-learn.

    Return weights and, last, the intercept `(F + 1,)`, which is not penalised. Gradient statistics
    are nearly collinear, and scikit-learn's solver for such penalties (saga) is far from its goal
    when it gives up. Here each weight is a difference of two that may not be negative: the penalty
    becomes smooth, and L-BFGS-B continues until the conditions of an optimum hold.

    Args:
        l1: fraction of the penalty on absolute values, 0 to 1.
        strength: C of scikit-learn; infinite for no penalty.
        rows, wrong, weight: features `(N, F)`, what to find, and how much each row counts, `(N,)`.
        start: a solution nearby.
    """
    if l1 == 0:
        return _smooth(strength, rows, wrong, weight)
    from scipy.optimize import minimize
    from scipy.special import expit

    sign = np.where(wrong, 1.0, -1.0)
    count = rows.shape[1]
    penalty = 1.0 / (strength * weight.sum())  # all is divided by the weights' sum, to be near 1
    fractions = weight / weight.sum()

    def objective(halves: Rows) -> tuple[float, Rows]:
        positive, negative, intercept = halves[:count], halves[count:-1], halves[-1]
        w = positive - negative
        margin = sign * (rows @ w + intercept)
        pull = -sign * fractions * expit(-margin)
        slope = rows.T @ pull + penalty * (1 - l1) * w
        loss = fractions @ np.logaddexp(0.0, -margin)
        loss += penalty * (l1 * (positive.sum() + negative.sum()) + (1 - l1) / 2 * (w @ w))
        slopes = [slope + penalty * l1, penalty * l1 - slope, [pull.sum()]]
        return float(loss), np.concatenate(slopes)

    solution = np.zeros(count + 1) if start is None else start
    bounds = [(0.0, None)] * (2 * count) + [(None, None)]
    near = max(1e-10, 1e-3 * penalty)
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": near, "maxcor": 30}
    how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options}
    for _ in range(MAX_RESTARTS):  # a step that gains nothing ends a search far from the optimum
        halves = np.concatenate([solution[:-1].clip(0), (-solution[:-1]).clip(0), solution[-1:]])
        result = minimize(objective, halves, **how)
        solution = np.append(result.x[:count] - result.x[count:-1], result.x[-1])
        slope = result.jac.copy()
        # at a bound only one way is open
        slope[:-1] = np.where(result.x[:-1] > 0, slope[:-1], slope[:-1].clip(max=0))
        if np.abs(slope).max() <= near:
            break
    return solution


def _smooth(strength: float, rows: Rows, wrong: Flags, weight: Rows) -> Rows:
    """Do the same without a penalty on absolute values, by scikit-learn's few Newton steps.

    Where a plane separates the two sides and there is no penalty, weights grow until it gives up.
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
