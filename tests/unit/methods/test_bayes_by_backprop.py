"""Bayes by backprop: its draws, its loss by hand, and what training makes of the posterior."""

import math

import numpy as np
import pytest
import torch
from torch import distributions as D
from torch import nn

import nescio
from nescio.errors import NescioError
from nescio.methods import BayesByBackprop, TrainingStep, bayes_by_backprop, stacked
from nescio.models import cnn16, mlp

MIXTURE = (0.25, 1.0, 0.05)


def bayesian(seed=0, net=None, **settings):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)) if net is None else net
    model = BayesByBackprop(net.double(), **settings)
    with torch.no_grad():
        for rho in model.rho:
            rho.add_(torch.randn_like(rho))  # spreads that differ
    return model


@pytest.fixture
def batch(seed):
    torch.manual_seed(seed)
    return torch.randn(8, 4, dtype=torch.float64), torch.arange(8) % 3


def noise_of(model, count, seed):
    """The noise that `count` draws are made of."""
    torch.manual_seed(seed)
    return {
        name: torch.randn(count, *mean.shape).to(mean.dtype)
        for name, (mean, _) in model.posterior().items()
    }


def by_hand(model, noise, s, x):
    """The small network run with the weights of draw `s`."""
    w = {name: mean + std * noise[name][s] for name, (mean, std) in model.posterior().items()}
    hidden = torch.tanh(x @ w["0.weight"].T + w["0.bias"])
    return hidden @ w["2.weight"].T + w["2.bias"], w


def test_draws_are_the_network_with_each_drawn_weight(batch):
    model = bayesian(samples=6).eval()
    torch.manual_seed(11)
    found = model(batch[0])
    noise = noise_of(model, 6, 11)
    want = torch.stack([by_hand(model, noise, s, batch[0])[0] for s in range(6)])
    torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("grouped", [False, True])
def test_draws_of_a_convolutional_network_are_a_loops(grouped, monkeypatch):
    if grouped:
        monkeypatch.setattr(stacked, "_CONVOLUTIONS", ())
        monkeypatch.setattr(stacked, "loop_stacked", None)
    model = bayesian(net=cnn16(3, size=18), samples=4).eval()
    x = torch.rand(3, 1, 18, 18, dtype=torch.float64)
    torch.manual_seed(2)
    found = model(x)
    torch.manual_seed(2)
    weights = model.draw(4)
    for s in range(4):
        one = {name: value[s] for name, value in weights.items()}
        torch.testing.assert_close(
            found[s], torch.func.functional_call(model.net, one, (x,)), rtol=1e-9, atol=1e-9
        )


def test_draws_have_the_posteriors_mean_and_spread(seed):
    model = bayesian(seed)
    torch.manual_seed(seed)
    drawn = model.draw(20_000)
    for name, (mean, std) in model.posterior().items():
        off = (drawn[name] - mean) / std
        assert (off.mean(0).abs() < 5 / math.sqrt(20_000)).all()
        assert ((off.square().mean(0) - 1).abs() < 5 * math.sqrt(2 / 20_000)).all()


def test_a_draw_is_one_function(batch, monkeypatch):
    model = bayesian(samples=5)
    want = nescio.predict(model, batch[0])
    monkeypatch.setattr(stacked, "MAX_ROWS", 7)
    torch.testing.assert_close(nescio.predict(model, batch[0]), want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        nescio.predict(model, batch[0], batch_size=3), want, rtol=1e-12, atol=1e-12
    )
    assert len(want.unique(dim=0)) == 5


@pytest.mark.parametrize("together", [1, 100, 43 * 3])
def test_no_more_weights_are_drawn_at_a_time_than_fit(batch, together, monkeypatch):
    monkeypatch.setattr(bayes_by_backprop, "MAX_DRAWN", together)  # the network has 43 weights
    model, counts = bayesian(samples=5), []
    monkeypatch.setattr(
        model, "draw", lambda *how: counts.append(how[0]) or BayesByBackprop.draw(model, *how)
    )
    found = nescio.predict(model, batch[0])
    assert counts == {1: [1] * 5, 100: [2, 2, 1], 129: [3, 2]}[together]
    assert len(found.unique(dim=0)) == 5
    torch.testing.assert_close(
        nescio.predict(model, batch[0], batch_size=3), found, rtol=1e-12, atol=1e-12
    )


def test_a_forward_pass_moves_no_generator(batch):
    model, state = bayesian(), torch.random.get_rng_state()
    model.eval()(batch[0])
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("prior", [0.7, MIXTURE])
@pytest.mark.parametrize("count", [1, 3])
def test_the_loss_is_the_formula(batch, prior, count, seed):
    model, (x, y) = bayesian(seed, prior=prior, elbo_samples=count, beta=0.3), batch
    model.training_step = TrainingStep(step=2, steps_per_epoch=4, steps=40, inputs=32)
    torch.manual_seed(seed)
    loss, logits = model.loss(x, y)
    noise, errors, kl = noise_of(model, count, seed), 0.0, 0.0
    for s in range(count):
        want, w = by_hand(model, noise, s, x)
        torch.testing.assert_close(logits[s], want, rtol=1e-10, atol=1e-10)
        errors -= D.Categorical(logits=want).log_prob(y).mean() / count
        for name, (mean, std) in model.posterior().items():
            if prior == 0.7:
                kl += (
                    D.kl_divergence(
                        D.Normal(mean, std), D.Normal(torch.zeros_like(mean), 0.7)
                    ).sum()
                    / count
                )
            else:
                wide, narrow = (
                    D.Normal(mean * 0, spread).log_prob(w[name]).exp() for spread in MIXTURE[1:]
                )
                kl -= (
                    (0.25 * wide + 0.75 * narrow).log().sum() + D.Normal(mean, std).entropy().sum()
                ) / count
    torch.testing.assert_close(loss, errors + 0.3 * kl / 32, rtol=1e-10, atol=1e-10)


def test_gradients_of_the_loss_reach_means_and_spreads(batch):
    model = bayesian(elbo_samples=2)
    model.training_step = TrainingStep(0, 1, 1, 8)

    def loss(*_):
        torch.manual_seed(4)
        return model.loss(*batch)[0]

    assert len(list(model.parameters())) == 8
    assert torch.autograd.gradcheck(loss, list(model.parameters()))


def kl_part(model, batch, training_step):
    """What part of the KL a step's loss holds, from losses with and without it."""
    losses = []
    beta = model.beta
    for own in (beta, 0.0):
        model.beta, model.training_step = own, training_step
        torch.manual_seed(0)
        losses.append(model.loss(*batch)[0])
    model.beta = beta
    return ((losses[0] - losses[1]) * len(batch[1]) / model.divergence(model.draw(1))).item()


@pytest.mark.parametrize("batches", [1, 2, 7])
def test_fractions_of_an_epoch_sum_to_one(batch, batches):
    uniform, decreasing = bayesian(), bayesian(kl_weights="decreasing")
    for epoch in (0, 3):
        moments = [
            TrainingStep(epoch * batches + i, batches, 10 * batches, 8 * batches)
            for i in range(batches)
        ]
        shares = [kl_part(uniform, batch, training_step) for training_step in moments]
        assert shares == pytest.approx([1 / batches] * batches)
        shares = [kl_part(decreasing, batch, training_step) for training_step in moments]
        assert shares == pytest.approx(
            [2 ** (batches - i) / (2**batches - 1) for i in range(1, batches + 1)]
        )
        assert sum(shares) == pytest.approx(1)


def test_decreasing_fractions_of_very_many_batches(batch):
    model = bayesian(kl_weights="decreasing")
    assert kl_part(model, batch, TrainingStep(0, 5000, 5000, 40_000)) == pytest.approx(0.5)
    assert kl_part(model, batch, TrainingStep(4999, 5000, 5000, 40_000)) == pytest.approx(
        0, abs=1e-12
    )


def test_beta_and_its_warm_up(batch):
    model = bayesian(beta=0.5, warm_up=0.4)
    found = [kl_part(model, batch, TrainingStep(step, 1, 100, 8)) for step in (0, 10, 20, 40, 99)]
    assert found == pytest.approx([0, 0.125, 0.25, 0.5, 0.5], abs=1e-12)
    assert kl_part(bayesian(beta=0.0), batch, TrainingStep(5, 1, 100, 8)) == 0


def test_where_inputs_say_nothing_the_posterior_becomes_the_prior():
    data = torch.zeros(30, 3), torch.arange(30) % 2
    torch.manual_seed(0)
    model = BayesByBackprop(nn.Linear(3, 2), prior=0.5)
    nescio.train(model, data, epochs=400, batch_size=15, learning_rate=0.03, schedule="cosine")
    mean, std = model.posterior()["weight"]
    torch.testing.assert_close(mean, torch.zeros(2, 3), rtol=0, atol=0.01)
    torch.testing.assert_close(std, torch.full((2, 3), 0.5), rtol=0, atol=0.01)
    assert (model.posterior()["bias"][1] < 0.45).all()  # of which the labels say something


def test_more_data_make_a_narrower_posterior(seed):
    spreads = []
    for count in (40, 1000):
        x = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
        y = (
            torch.rand(count, generator=torch.Generator().manual_seed(seed + 1)) < x[:, 0].sigmoid()
        ).long()
        model = BayesByBackprop(nn.Linear(2, 2), std=0.2)
        how = {"epochs": 300, "batch_size": count, "learning_rate": 0.03, "schedule": "cosine"}
        nescio.train(model, (x, y), seed=seed, **how)
        spreads.append(model.posterior()["weight"][1].mean().item())
    assert 2.5 < spreads[0] / spreads[1] < 7.5  # by about the root of 25, less what the prior says


@pytest.mark.parametrize("count", [1, 3])
def test_networks_with_batch_norm_train(blobs, count):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    model = BayesByBackprop(net, elbo_samples=count, samples=3)
    history = nescio.train(model, blobs, epochs=3, batch_size=100, learning_rate=0.02, seed=1)
    assert net[1].num_batches_tracked == 30 * count
    assert history.epochs[-1].accuracy > 0.9
    assert not any(name.startswith("1.") for name in model.posterior())


def test_a_weight_of_two_layers_is_drawn_once():
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net[1].weight = net[0].weight
    model = bayesian(net=net, samples=4).eval()
    assert list(model.posterior()) == ["0.weight"]
    x = torch.randn(2, 3, dtype=torch.float64)
    torch.manual_seed(3)
    found = model(x)
    torch.manual_seed(3)
    want = torch.stack([x @ w.T @ w.T for w in model.draw(4)["0.weight"]])
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("std", [1e-12, 0.02, 1.0, 50.0, 1e6])
def test_the_first_spread_is_as_asked_for(std):
    for _, spread in BayesByBackprop(mlp(2, 3), std=std).posterior().values():
        torch.testing.assert_close(spread, torch.full_like(spread, std), rtol=1e-4, atol=0)


def test_the_means_are_the_networks_own_weights():
    net = mlp(2, 3)
    assert BayesByBackprop(net).posterior()["1.weight"][0] is net[1].weight


def test_settings_survive_saving(tmp_path):
    settings = {
        "samples": 7,
        "prior": [0.25, 1.0, 0.05],
        "std": 0.1,
        "beta": 0.5,
        "warm_up": 0.25,
        "elbo_samples": 2,
        "kl_weights": "decreasing",
    }
    model = BayesByBackprop(mlp(4, 3), **settings)
    nescio.save(model, tmp_path / "m")
    again = nescio.load(tmp_path / "m")
    assert again.settings() == settings
    assert again.prior == model.prior
    for name, (mean, std) in model.posterior().items():
        assert torch.equal(again.posterior()[name][0], mean)
        assert torch.equal(again.posterior()[name][1], std)


@pytest.mark.parametrize(
    "settings",
    [
        {"samples": 0},
        {"samples": 2.5},
        {"elbo_samples": 0},
        {"elbo_samples": True},
        {"std": 0},
        {"std": -1},
        {"std": math.nan},
        {"std": True},
        {"std": "x"},
        {"std": 1e7},
        {"beta": -0.1},
        {"beta": math.inf},
        {"beta": None},
        {"beta": True},
        {"warm_up": 1.1},
        {"warm_up": -0.1},
        {"warm_up": True},
        {"prior": 0},
        {"prior": (1, 2)},
        {"samples": 10**9},
        {"kl_weights": 3},
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(NescioError, match="prior" if "prior" in settings else next(iter(settings))):
        BayesByBackprop(mlp(2, 3), **settings)


def test_an_unknown_kl_weighting_suggests_the_nearest():
    with pytest.raises(NescioError, match="did you mean 'uniform'"):
        BayesByBackprop(mlp(2, 3), kl_weights="unifrom")


def test_a_network_without_layers_to_draw_is_refused():
    with pytest.raises(NescioError, match="no linear or convolutional layer"):
        BayesByBackprop(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3)))


def test_a_loss_outside_of_training_is_an_error(batch):
    with pytest.raises(NescioError, match=r"train with\s+nescio\.train"):
        bayesian().loss(*batch)


def test_every_affine_layer_is_drawn():
    net = nn.Sequential(
        nn.Conv1d(2, 3, 2),
        nn.Conv2d(2, 3, 2, bias=False),
        nn.Conv3d(2, 3, 2),
        nn.PReLU(),
        nn.Linear(2, 2),
    )
    drawn = ["0.weight", "0.bias", "1.weight", "2.weight", "2.bias", "4.weight", "4.bias"]
    assert list(BayesByBackprop(net).posterior()) == drawn


def test_numbers_of_numpy_are_numbers():
    assert (
        BayesByBackprop(mlp(2, 3), samples=np.int64(3), beta=np.float64(0.5)).settings()["samples"]
        == 3
    )


class Writes(nn.Module):
    """Normalises its input in place, before a convolution or a linear layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x.sub_(0.5).div_(0.5)).flatten(1)


@pytest.mark.parametrize(
    "layer",
    [nn.Conv1d(2, 3, 4), nn.Sequential(nn.Flatten(), nn.Linear(8, 3))],
    ids=["conv", "linear"],
)
def test_a_network_that_writes_on_its_input_spoils_no_draw(monkeypatch, layer):
    model = BayesByBackprop(Writes(layer).double(), samples=7, std=1e-6).eval()
    x = torch.randn(5, 2, 4, dtype=torch.float64)
    mean = model.net(x.clone())
    monkeypatch.setattr(bayes_by_backprop, "MAX_DRAWN", 1)  # each draw in a run of its own
    torch.testing.assert_close(
        nescio.predict(model, x), mean.expand(7, -1, -1), rtol=1e-3, atol=1e-3
    )


def test_draws_are_made_once_for_all_batches(monkeypatch, batch):
    model, made = bayesian(samples=6), []
    draw = BayesByBackprop.draw
    monkeypatch.setattr(
        BayesByBackprop, "draw", lambda self, *how: made.append(how[0]) or draw(self, *how)
    )
    held = nescio.predict(model, batch[0], batch_size=3, seed=4)
    assert made == [6]
    monkeypatch.setattr(bayes_by_backprop, "MAX_KEPT", 0)
    assert torch.equal(nescio.predict(model, batch[0], batch_size=3, seed=4), held)
    assert made == [6] * 4  # once more for each of three batches
    monkeypatch.undo()
    assert not torch.equal(nescio.predict(model, batch[0], seed=5), held)
    with torch.no_grad():
        model.net[0].weight.add_(1.0)
    assert not torch.equal(
        nescio.predict(model, batch[0], batch_size=3, seed=4), held
    )  # nothing is kept for later


def test_parametrised_weights_are_refused():
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.Linear(5, 3))
    with pytest.raises(NescioError, match="layer '0' are parametrised"):
        BayesByBackprop(net)


def test_transposed_convolutions_are_drawn():
    net = nn.Sequential(nn.ConvTranspose1d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6 * 5, 3))
    assert set(BayesByBackprop(net).posterior()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_a_frozen_weight_keeps_its_spread(blobs):
    net = mlp(2, 3, hidden=(4,))
    net[1].requires_grad_(False)
    model = BayesByBackprop(net)
    nescio.train(model, blobs, epochs=1)
    spreads = {name: std for name, (_, std) in model.posterior().items()}
    torch.testing.assert_close(spreads["1.weight"], torch.full((4, 2), 0.02))
    assert not torch.allclose(spreads["3.weight"], torch.full((3, 4), 0.02))


def test_a_lazy_network_is_refused():
    with pytest.raises(NescioError, match="lazy modules"):
        BayesByBackprop(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3)))


def test_the_moment_of_a_step_counts_from_nothing(blobs):
    class Watched(BayesByBackprop):
        def loss(self, x, y):
            seen.append(self.training_step)
            return super().loss(x, y)

    seen = []
    model = Watched(mlp(2, 3, hidden=(4,)))
    nescio.train(model, blobs, epochs=2, batch_size=250)
    assert seen == [TrainingStep(step, 4, 8, 1000) for step in range(8)]
    assert model.training_step is None


def test_a_model_in_double_makes_the_same_draws():
    torch.manual_seed(0)
    model, x = BayesByBackprop(mlp(4, 3, hidden=(5,)), samples=6, std=0.3), torch.randn(7, 4)
    single = nescio.predict(model, x, seed=3)
    torch.testing.assert_close(
        nescio.predict(model.double(), x, seed=3).float(), single, rtol=1e-4, atol=1e-5
    )


def test_weights_normalised_in_the_old_way_are_refused():
    with pytest.warns(FutureWarning):
        layer = nn.utils.weight_norm(nn.Linear(4, 5))
    with pytest.raises(NescioError, match="parametrised"):
        BayesByBackprop(nn.Sequential(layer, nn.Linear(5, 3)))
