import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import nescio
from nescio.data import Samples
from nescio.detectors.meta_fit import logistic
from nescio.models import mlp


def collinear(seed, count=1500):
    """Twenty columns that are nearly a mix of four, as statistics of one gradient are."""
    draw = np.random.default_rng(seed)
    causes = draw.normal(size=(count, 4))
    rows = causes @ draw.normal(size=(4, 20)) + 0.1 * draw.normal(size=(count, 20))
    wrong = causes[:, 0] + draw.normal(size=count) > 1.5
    return (rows - rows.mean(0)) / rows.std(0), wrong


def of_real_features():
    known = nescio.data.load("digits", unseen=[7, 8, 9])
    torch.manual_seed(0)
    model = nescio.methods.Softmax(mlp(64, 7, hidden=(32,)), normalise=known.normalise)
    nescio.train(model, known.train.select(torch.arange(150)), epochs=8, batch_size=32, seed=0)
    rest = known.train.select(torch.arange(150, len(known.train)))
    noisy = Samples(rest.inputs + 0.2 * torch.randn(rest.inputs.shape), rest.labels)
    rows = nescio.scores.gradient_features(model, noisy, log=True).values.numpy()
    wrong = (nescio.predict(model, noisy)[0].argmax(1) != noisy.labels).numpy()
    return (rows - rows.mean(0)) / rows.std(0).clip(1e-9), wrong


def violation(share, strength, rows, wrong, found):
    """By how much the conditions of an optimum fail, where a penalty of 1 stands on each weight."""
    sign, w = np.where(wrong, 1.0, -1.0), found[:-1]
    slope = -strength * rows.T @ (sign * expit(-sign * (rows @ w + found[-1]))) + (1 - share) * w
    return np.where(
        w != 0, np.abs(slope + share * np.sign(w)), (np.abs(slope) - share).clip(0)
    ).max()


@pytest.mark.parametrize("draw", range(4))  # searches that stall do so for some
@pytest.mark.parametrize("strength", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_conditions_of_an_optimum_hold(share, strength, draw):
    rows, wrong = collinear(draw)
    found = logistic(share, strength, rows, wrong, np.ones(len(rows)))
    assert violation(share, strength, rows, wrong, found) < 3e-3
    if share and strength <= 0.1:
        assert (found[:-1] == 0).sum() >= 8


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_they_hold_on_gradient_statistics(share):
    rows, wrong = of_real_features()
    for strength in (0.1, 1.0):
        found = logistic(share, strength, rows, wrong, np.ones(len(rows)))
        assert violation(share, strength, rows, wrong, found) < 3e-3


@pytest.mark.parametrize(("share", "solver"), [(0.0, "lbfgs"), (0.5, "saga"), (1.0, "saga")])
def test_agrees_with_scikit_learn_where_that_gets_there(share, solver, seed):
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(400, 5))
    wrong = rows[:, 0] - rows[:, 1] + draw.normal(size=400) > 1
    weight = draw.uniform(0.5, 2, 400)
    how = {"l1_ratio": share, "penalty": "elasticnet"} if share else {}
    if "penalty" in how and LogisticRegression().penalty == "deprecated":  # since scikit-learn 1.8
        del how["penalty"]
    peer = LogisticRegression(
        C=0.1, solver=solver, tol=1e-10, max_iter=100_000, random_state=0, **how
    )
    peer.fit(rows, wrong, weight)
    found = logistic(share, 0.1, rows, wrong, weight)
    np.testing.assert_allclose(found, [*peer.coef_[0], *peer.intercept_], atol=2e-4)


def test_without_a_penalty_the_slope_is_zero(seed):
    rows, wrong = collinear(seed)
    found = logistic(0.0, np.inf, rows, wrong, np.ones(len(rows)))
    residual = np.where(wrong, 1.0, 0.0) - expit(rows @ found[:-1] + found[-1])
    assert np.abs(rows.T @ residual).max() < 1e-3
    assert abs(residual.sum()) < 1e-3


def test_a_start_nearby_leads_to_the_same_place(seed):
    rows, wrong = collinear(seed)
    cold = logistic(1.0, 0.1, rows, wrong, np.ones(len(rows)))
    warm = logistic(
        1.0,
        0.1,
        rows,
        wrong,
        np.ones(len(rows)),
        logistic(1.0, 0.01, rows, wrong, np.ones(len(rows))),
    )
    np.testing.assert_allclose(rows @ warm[:-1], rows @ cold[:-1], atol=0.02)
