"""Anchored ensembles: each member at the posterior's mode as its own anchor sees it."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

import nescio
from nescio.errors import NescioError
from nescio.methods import AnchoredEnsemble, Ensemble, TrainingStep
from nescio.models import mlp

SIGMA, SPREAD = 0.5, 0.8


def linear(count, seed=0):
    torch.manual_seed(seed)
    return [nn.Linear(3, 2, dtype=torch.float64) for _ in range(count)]


@pytest.fixture
def data(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(25, 3, dtype=torch.float64, generator=generator)
    return x, (x[:, 0] + torch.randn(25, dtype=torch.float64, generator=generator) > 0).long()


class Squared(Ensemble):
    """An ensemble for Gaussian targets, the one-hot labels: mean `‖logits − target‖² / (2 σ²)`."""

    def objectives(self, logits, y):
        return (logits - nn.functional.one_hot(y, 2)).square().sum(2).mean(1) / (2 * SIGMA**2)


class LinearGaussian(AnchoredEnsemble, Squared):
    """The anchored one: what it adds, it adds to the squares."""


def anchor_of(model, j):
    """The anchor of a member as a matrix, its last column the bias."""
    anchors = model.anchors()
    return torch.cat([anchors["weight"][j], anchors["bias"][j][:, None]], 1)


def weights_of(net):
    return torch.cat([net.weight, net.bias[:, None]], 1).detach()


@pytest.mark.parametrize(("stacked", "batch_size"), [(True, 25), (False, 25), (True, 10)])
def test_the_mode_of_a_linear_gaussian_model_is_the_closed_form(data, stacked, batch_size):
    x, y = data
    model = LinearGaussian(linear(3), prior_std=SPREAD, stacked=stacked).double()
    # full batches converge to rounding, smaller unequal ones to the noise of a small rate
    how = {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.7, "epochs": 200}
    if batch_size < 25:
        how |= {"schedule": "cosine", "momentum": 0.0}
    nescio.train(model, data, batch_size=batch_size, **how)
    ones = torch.cat([x, torch.ones(25, 1, dtype=torch.float64)], 1)
    target = nn.functional.one_hot(y, 2).double()
    precision = ones.T @ ones / SIGMA**2 + torch.eye(4, dtype=torch.float64) / SPREAD**2
    for j in range(3):
        want = torch.linalg.solve(
            precision, ones.T @ target / SIGMA**2 + anchor_of(model, j).T / SPREAD**2
        ).T
        off = 1e-9 if batch_size == 25 else 0.01
        torch.testing.assert_close(weights_of(model.member(j)), want, rtol=0, atol=off)
    assert (anchor_of(model, 0) - anchor_of(model, 1)).abs().max() > 0.1


def test_the_mode_of_a_logistic_regression_is_what_scipy_finds(data):
    x, y = (value.numpy() for value in data)
    model = AnchoredEnsemble(linear(2), prior_std=SPREAD).double()
    nescio.train(model, data, batch_size=25, optimizer="sgd", learning_rate=0.5, epochs=500)
    for j in range(2):
        anchor = anchor_of(model, j).numpy()

        def posterior(flat, anchor=anchor):
            w = flat.reshape(2, 4)
            logits = x @ w[:, :3].T + w[:, 3]
            likelihood = np.logaddexp(logits[:, 0], logits[:, 1]) - logits[np.arange(25), y]
            return likelihood.sum() + ((w - anchor) ** 2).sum() / (2 * SPREAD**2)

        want = minimize(posterior, np.zeros(8), tol=1e-12).x.reshape(2, 4)
        assert weights_of(model.member(j)).numpy() == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("stacked", [True, False])
def test_anchors_are_draws_from_the_prior(stacked, seed):
    torch.manual_seed(seed)
    model = AnchoredEnsemble(lambda: mlp(200, 50, hidden=(100,)), members=3, stacked=stacked)
    for name, fan_in in (("1.weight", 200), ("1.bias", 200), ("3.weight", 100), ("3.bias", 100)):
        anchor = model.anchors()[name] / math.sqrt(2 / fan_in)
        count = anchor.numel()
        assert anchor.shape == (3, *model.member(0).get_parameter(name).shape)
        assert abs(anchor.mean()) < 5 / math.sqrt(count)
        assert abs(anchor.square().mean() - 1) < 5 * math.sqrt(2 / count)
        correlation = torch.corrcoef(anchor.flatten(1))
        assert (correlation - torch.eye(3)).abs().max() < 5 / math.sqrt(count / 3)
        weight = torch.stack([net.get_parameter(name).flatten() for net in model.networks()])
        assert abs(
            torch.corrcoef(torch.stack([anchor.flatten(), weight.flatten()]))[0, 1]
        ) < 5 / math.sqrt(count)


def test_one_spread_for_all_layers(seed):
    torch.manual_seed(seed)
    anchors = AnchoredEnsemble(
        lambda: mlp(100, 50, hidden=(100,)), members=2, prior_std=3
    ).anchors()
    for anchor in anchors.values():
        assert abs(anchor.square().mean() / 9 - 1) < 5 * math.sqrt(2 / anchor.numel())


def test_a_convolutions_units_see_its_patch():
    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 5), nn.Flatten(), nn.Linear(8, 2))

    spreads = AnchoredEnsemble(make, members=2).stds
    assert spreads == pytest.approx(
        {"0.weight": (2 / 75) ** 0.5, "0.bias": (2 / 75) ** 0.5, "2.weight": 0.5, "2.bias": 0.5}
    )


@pytest.mark.parametrize("stacked", [True, False])
def test_the_penalty_is_the_formula(stacked):
    model = AnchoredEnsemble(lambda: mlp(2, 3, hidden=(5,)), members=3, stacked=stacked)
    x, y = torch.randn(12, 2), torch.arange(12) % 3
    model.training_step = TrainingStep(step=0, steps_per_epoch=10, steps=10, inputs=40)
    spreads = {"1.weight": 1.0, "1.bias": 1.0, "3.weight": (2 / 5) ** 0.5, "3.bias": (2 / 5) ** 0.5}
    want = [
        sum(
            ((net.get_parameter(n) - model.anchors()[n][j]) ** 2).sum() / (2 * s**2)
            for n, s in spreads.items()
        )
        for j, net in enumerate(model.networks())
    ]
    torch.testing.assert_close(model.penalty(), torch.stack(want))
    plain = Ensemble(copy.deepcopy(list(model.networks())), stacked=stacked)
    loss, logits = model.loss(x, y)
    other, same = plain.loss(x, y)
    torch.testing.assert_close(loss, other + torch.stack(want).mean() / 40)
    torch.testing.assert_close(logits, same)


def test_only_affine_layers_are_anchored():
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.PReLU(), nn.Linear(4, 3, bias=False))
    model = AnchoredEnsemble([net])
    assert list(model.anchors()) == ["0.weight", "0.bias", "3.weight"]
    before = model.penalty()
    nn.init.constant_(net[1].weight, 9.0)
    assert torch.equal(model.penalty(), before)


def test_a_very_wide_prior_holds_nothing(blobs):
    start = [mlp(2, 3, hidden=(5,)).double() for _ in range(2)]
    plain, anchored = (
        Ensemble(copy.deepcopy(start)),
        AnchoredEnsemble(copy.deepcopy(start), prior_std=1e6).double(),
    )
    for model in (plain, anchored):
        nescio.train(model, blobs, epochs=2, seed=1)
    for name, weight in plain.net.named_parameters():
        torch.testing.assert_close(anchored.net.get_parameter(name), weight, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_very_narrow_prior_holds_everything(blobs, stacked):
    model = AnchoredEnsemble(
        lambda: mlp(2, 3, hidden=(5,)), members=2, prior_std=1e-3, stacked=stacked
    )
    nescio.train(model, blobs, epochs=40, learning_rate=0.01, schedule="cosine")
    for name, anchor in model.anchors().items():
        weight = torch.stack([net.get_parameter(name) for net in model.networks()])
        torch.testing.assert_close(weight, anchor, rtol=0, atol=0.01)


@pytest.mark.parametrize("stacked", [True, False])
def test_training_leaves_anchors_where_they_are(blobs, stacked):
    model = AnchoredEnsemble(lambda: mlp(2, 3, hidden=(5,)), members=2, stacked=stacked)
    before = {name: anchor.clone() for name, anchor in model.anchors().items()}
    nescio.train(model, blobs, epochs=1)
    assert all(torch.equal(anchor, before[name]) for name, anchor in model.anchors().items())


def test_anchors_are_the_same_side_by_side_or_not(tmp_path):
    start, anchors = [mlp(2, 3, hidden=(5,)) for _ in range(3)], []
    for stacked in (True, False):
        torch.manual_seed(6)
        model = AnchoredEnsemble(copy.deepcopy(start), stacked=stacked)
        anchors.append(model.anchors())
        nescio.save(model, tmp_path / "m")
        again = nescio.load(tmp_path / "m")
        assert all(
            torch.equal(again.anchors()[name], anchor) for name, anchor in model.anchors().items()
        )
        assert again.stds == model.stds
    assert all(torch.equal(anchors[0][name], anchors[1][name]) for name in anchors[0])


def test_the_size_of_the_training_set_counts_without_what_is_set_aside(blobs):
    seen = []

    class Watched(AnchoredEnsemble):
        def objectives(self, logits, y):
            seen.append(self.training_step.inputs)
            return super().objectives(logits, y)

    nescio.train(Watched(lambda: mlp(2, 3), members=2), blobs, epochs=1, validation=0.25)
    assert set(seen) == {750}


def test_a_loss_outside_of_training_is_an_error():
    model = AnchoredEnsemble(linear(2))
    with pytest.raises(NescioError, match="depends on the size of the training set"):
        model.loss(torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize("prior_std", [0, -1.0, math.nan, math.inf, "1", True])
def test_bad_spreads_are_refused(prior_std):
    with pytest.raises(NescioError, match="prior_std must be a number from"):
        AnchoredEnsemble(linear(2), prior_std=prior_std)


@pytest.mark.parametrize(
    "other", [mlp(2, 3, hidden=(7,)), mlp(2, 3, hidden=(5, 5)), nn.Linear(2, 3)]
)
def test_members_of_different_shapes_are_refused(other):
    with pytest.raises(NescioError, match="layers of the same shapes"):
        AnchoredEnsemble([mlp(2, 3, hidden=(5,)), other])


def test_a_network_without_layers_to_anchor_is_refused():
    with pytest.raises(NescioError, match="no linear or convolutional layer"):
        AnchoredEnsemble(lambda: nn.Sequential(nn.PReLU(4)), members=1)
