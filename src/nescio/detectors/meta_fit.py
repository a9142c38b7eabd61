"""Which predictions to mistrust, learned from features of each: logistic regressions, and a small network.

All are kept as the layers of a perceptron over standardised features; a regression is one without a hidden layer.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.data import Samples
from nescio.detectors.logistic import logistic
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.seeds import derived_seed
from nescio.training.train import train as train_model

REGRESSIONS: dict[str, float | None] = {
    "glm": None,
    "lasso": 1.0,
    "ridge": 0.0,
    "elastic_net": 0.5,
}  # share of L1
KINDS = (*REGRESSIONS, "nn")
HIDDEN = 15
STRENGTHS = (
    1e-3,
    1e-2,
    1e-1,
    1.0,
    10.0,
)  # C of scikit-learn: the smaller, the stronger the penalty
FOLDS = 5
TRUSTED = (
    3000  # of the trusted rows, this many at most decide the strength, and stand for the others
)
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class MetaFit:
    """A fitted meta-classifier of F features: its log-odds of being wrong grow with how little an input is known."""

    centre: Tensor  # (F,)
    scale: Tensor
    layers: tuple[tuple[Tensor, Tensor], ...]  # weights and biases, float64
    strength: float | None  # C, if it was chosen

    def __call__(self, features: Tensor) -> Tensor:
        """Log-odds `(N,)` of features `(N, F)`."""
        h = (features - self.centre) / self.scale
        for number, (weight, bias) in enumerate(self.layers):
            h = (h.relu() if number else h) @ weight.T + bias
        return h[:, 0]


def fit_meta(kind: str, features: Tensor, wrong: Tensor, seed: int = 0) -> MetaFit:
    """Learn from float64 features `(N, F)` which rows are `wrong`, `(N,)` of bools; both kinds must be there."""
    centre, spread = features.mean(0), features.std(0, correction=0)
    size = features.abs().amax(0)
    scale = spread.where(
        spread > 1e-9 * size, 1.0
    )  # what is constant but for rounding tells nothing, and must not
    rows = (features - centre) / scale
    if kind == "nn":
        return MetaFit(centre, scale, _network(rows, wrong, seed), None)
    # scikit-learn's seeds have 32 bits
    strength, weight, bias = _regression(
        kind, rows.cpu().numpy(), wrong.cpu().numpy(), seed % 2**32
    )
    layer = torch.from_numpy(weight).to(features), torch.from_numpy(bias).to(features)
    return MetaFit(centre, scale, (layer,), strength)


def _network(rows: Tensor, wrong: Tensor, seed: int) -> tuple[tuple[Tensor, Tensor], ...]:
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        net = mlp(rows.shape[1], 2, hidden=(HIDDEN,))
    train_model(
        Softmax(net),
        Samples(rows.float().cpu(), wrong.long().cpu()),
        epochs=60,
        batch_size=256,
        optimizer="adam",
        learning_rate=3e-3,
        weight_decay=1e-3,
        schedule="cosine",
        seed=seed,
        progress=False,
    )
    first, last = (layer for layer in net.modules() if isinstance(layer, torch.nn.Linear))
    odds = torch.tensor(
        [[-1.0, 1.0]], dtype=torch.float64
    )  # of being wrong: one logit less the other
    weights = [(first.weight, first.bias), (odds @ last.weight.double(), odds @ last.bias.double())]
    return tuple((w.detach().to(rows), b.detach().to(rows)) for w, b in weights)


def _regression(
    kind: str, rows: Rows, wrong: NDArray[np.bool_], seed: int
) -> tuple[float | None, Rows, Rows]:
    """The strength that was chosen, weights `(1, F)` and intercept `(1,)`."""
    share = REGRESSIONS[kind]
    weight = np.ones(len(rows))
    if share is None:
        found = logistic(0.0, np.inf, rows, wrong, weight)
        return None, found[None, :-1], found[-1:]
    strength = _strength(share, rows, wrong, seed)
    found = logistic(share, strength, rows, wrong, weight)
    return strength, found[None, :-1], found[-1:]


def _strength(share: float, rows: Rows, wrong: NDArray[np.bool_], seed: int) -> float:
    """The strength with the least log-loss over rows that were left out, each fold starting from the strongest."""
    from scipy.special import (
        expit,  # here and below: half a second of start-up for those who never ask
    )
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    rows, wrong, weight = _fewer(rows, wrong, seed)
    losses = np.zeros(len(STRENGTHS))
    folds = min(FOLDS, int(wrong.sum()), int((~wrong).sum()))
    for kept, left in StratifiedKFold(folds, shuffle=True, random_state=seed).split(rows, wrong):
        found = None
        for number, strength in enumerate(STRENGTHS):
            found = logistic(share, strength, rows[kept], wrong[kept], weight[kept], found)
            chance = expit(rows[left] @ found[:-1] + found[-1])
            losses[number] += log_loss(wrong[left], chance, sample_weight=weight[left])
    return STRENGTHS[int(losses.argmin())]


def _fewer(rows: Rows, wrong: NDArray[np.bool_], seed: int) -> tuple[Rows, NDArray[np.bool_], Rows]:
    """All wrong rows and some of the right ones, weighted so that they count as much as all did."""
    right = np.flatnonzero(~wrong)
    some = np.random.default_rng(seed).choice(right, min(TRUSTED, len(right)), replace=False)
    chosen = np.concatenate([np.flatnonzero(wrong), some])
    weight = np.where(wrong[chosen], 1.0, len(right) / len(some))
    return rows[chosen], wrong[chosen], weight
