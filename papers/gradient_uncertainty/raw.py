"""Meta-classifiers of features in their own units: is it scaling?

The paper does not say how it scaled its features. Ours are logarithms, standardised.
"""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import nescio
from nescio import derived_seed
from nescio.data import Samples
from nescio.methods import Softmax
from nescio.models import mlp

STRENGTHS = {"glm": np.inf, "ridge": 1.0}  # C of scikit-learn: infinite for no penalty
HIDDEN = 15
LogOdds = Callable[[Tensor], Tensor]  # that an answer is wrong, of features (N, F)


def fit_raw(kind: str, features: Tensor, wrong: Tensor) -> LogOdds:
    """Fit a regression by scikit-learn's defaults to features `(N, F)` as they are."""
    model = LogisticRegression(C=STRENGTHS[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what a user of defaults gets
        model.fit(features.numpy(), wrong.numpy())
    return lambda values: torch.from_numpy(model.decision_function(values.numpy()))


def fit_raw_network(features: Tensor, wrong: Tensor, seed: int) -> LogOdds:
    """Train the network of table 3 as `fit_meta` does, on features as they are."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        net = mlp(features.shape[1], 2, hidden=(HIDDEN,))
    nescio.train(
        Softmax(net),
        Samples(features.float(), wrong.long()),
        epochs=60,
        batch_size=256,
        optimizer="adam",
        learning_rate=3e-3,
        weight_decay=1e-3,
        schedule="cosine",
        seed=seed,
        progress=False,
    )

    def log_odds(values: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = net(values.float()).double()
        return logits[:, 1] - logits[:, 0]

    return log_odds


def decided(log_odds: LogOdds) -> LogOdds:
    """Return the answers at odds of 1, 0 or 1, in place of log-odds."""
    return lambda values: (log_odds(values) > 0).double()
