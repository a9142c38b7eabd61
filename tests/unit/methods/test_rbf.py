"""The RBF network: its kernels, weights at the optimum of a convex problem, and its radius."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from torch.utils.data import TensorDataset

import nescio
from nescio.data import Normalise, Samples
from nescio.errors import NescioError
from nescio.methods import RBFNetwork, method_for, rbf
from nescio.methods.kernel_method import squared_distances
from nescio.methods.rbf import RIDGE
from nescio.training.trainer import Trainer


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def given(seed=0, inputs=7, width=4, classes=3, gamma=0.3, normalise=None):
    """A network with centres and weights of its own, in float64."""
    model = RBFNetwork(
        random(inputs, width, seed=seed), gamma, classes=classes, normalise=normalise
    ).double()
    with torch.no_grad():
        model.weight.copy_(random(classes, inputs, seed=seed + 1))
    return model


@pytest.fixture
def known(seed):
    return nescio.data.load("three_blobs", seed=seed)


def solved(known, *, double=True, **settings):
    model = RBFNetwork(
        classes=3, normalise=known.normalise, **{"centres": 40, "gamma": 2.0} | settings
    )
    model = model.double() if double else model
    return model, nescio.train(model, known.train, seed=1)


class TestLogits:
    def test_are_the_sums_of_the_theorem(self):
        normalise = Normalise(
            torch.tensor([1.0, -2.0, 0.0, 3.0]), torch.tensor([1.0, 2.0, 0.5, 1.0])
        )
        model, x = given(normalise=normalise), random(5, 4, seed=9)
        raw, own = random(7, 4, seed=0).float().double(), [[1, -2, 0, 3], [1, 2, 0.5, 1]]
        ready, centres = ((value.numpy() - own[0]) / own[1] for value in (x, raw))
        by_hand = [
            [
                sum(
                    float(a) * math.exp(-0.3 * np.sum((one - c) ** 2))
                    for a, c in zip(row, centres, strict=True)
                )
                for row in model.weight.detach()
            ]
            for one in ready
        ]
        np.testing.assert_allclose(
            nescio.predict(model, x)[0], by_hand, rtol=1e-6
        )  # centres were made in float32

    def test_are_those_of_images_as_long_rows(self):
        images = random(6, 3, 2, 2)
        model = RBFNetwork(images, 0.5, classes=2).double()
        rows = RBFNetwork(images.flatten(1), 0.5, classes=2).double()
        with torch.no_grad():
            rows.weight.copy_(model.weight.normal_())
        x = random(4, 3, 2, 2, seed=5)
        assert torch.equal(model(x), rows(x.flatten(1)))

    def test_do_not_hang_on_the_size_of_blocks(self, monkeypatch):
        model, x = given(), random(5, 4, seed=9)
        logits, distance, radius = model(x), model.distance(x), model.uniform_radius(0.01)
        monkeypatch.setattr(rbf, "BLOCK", 10)
        torch.testing.assert_close(model(x), logits)
        assert torch.equal(model.distance(x), distance)
        assert model.uniform_radius(0.01) == radius

    def test_have_the_right_gradient_in_the_input(self):
        model = given()
        assert torch.autograd.gradcheck(model, random(3, 4, seed=9).requires_grad_())

    @pytest.mark.parametrize("scale", [1e3, 1e15, 1e25, 3e38])
    def test_are_zero_far_away_and_all_classes_alike(self, scale):
        model = given().float()
        x = scale * torch.tensor([[1.0, -1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]])
        logits = nescio.predict(model, x)
        assert (logits == 0).all()
        torch.testing.assert_close(
            model.confidence(logits), torch.full((2,), 1 / 3, dtype=torch.float64)
        )

    def test_keep_their_digits_under_an_offset_that_all_inputs_share(self):
        """Without a middle to measure from, squares of 10⁸ would leave an error of about 10⁻⁷."""
        x, centres = (random(n, 4, seed=n).float() + 1e4 for n in (20, 30))
        exact = torch.cdist(x.double(), centres.double()).square()
        torch.testing.assert_close(squared_distances(x, centres), exact, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(
            squared_distances(x, centres, gamma=1e9), exact, rtol=1e-12, atol=0
        )


class TestSolution:
    def test_has_no_gradient_left(self, known):
        model, _ = solved(known)
        model.loss(*known.train.take(slice(None)))[0].backward()
        assert (
            model.weight.grad.abs().max() <= 1.1e-9
        )  # the goal is 1e-9, up to another order of sums
        assert model.weight.detach().abs().max() > 0.1

    def test_is_that_of_scikit_learn(self, known):
        model, _ = solved(known)
        x, y = known.train.take(slice(None))
        features = rbf_kernel(known.normalise(x).double(), model.centres, gamma=2.0)
        theirs = LogisticRegression(
            C=1 / (RIDGE * len(y)), fit_intercept=False, tol=1e-12, solver="newton-cholesky"
        )
        theirs.fit(features, y)
        np.testing.assert_allclose(
            model.weight.detach(), theirs.coef_, atol=1e-4
        )  # entries are about 1

    def test_exists_where_classes_can_be_divided(self):
        x, y = torch.tensor([[0.0], [1.0], [10.0], [11.0]]), torch.tensor([0, 0, 1, 1])
        model = RBFNetwork(x, 1.0, classes=2).double()
        history = nescio.train(model, (x, y))
        assert history.epochs[0].accuracy == 1
        assert model.weight.abs().max() < 100
        model.loss(x.double(), y)[0].backward()
        assert model.weight.grad.abs().max() <= 1.1e-9

    def test_needs_no_step_and_is_recorded_as_one_epoch(self, known, monkeypatch):
        monkeypatch.setattr(Trainer, "_step", lambda *_: pytest.fail("a step was made"))
        model = RBFNetwork(40, 2.0, classes=3, normalise=known.normalise)
        x, y = known.train.take(slice(None))
        history = nescio.train(
            model, known.train, epochs=30, validation=known.test, patience=3, seed=1
        )
        (epoch,) = history.epochs
        with torch.no_grad():
            loss, logits = model.loss(x, y)
        assert epoch.loss == pytest.approx(loss.item(), rel=1e-5)
        assert epoch.accuracy == pytest.approx(float((logits.argmax(1) == y).double().mean()))
        evaluated = nescio.evaluate(model, known.test, {}).known
        assert epoch.validation_accuracy == evaluated.accuracy
        assert epoch.validation_loss == pytest.approx(evaluated.nll)
        assert (history.steps, history.best_epoch, epoch.learning_rate) == (1, 1, 0.0)

    def test_is_where_steps_come_to_rest(self, known):
        """Both minimise the same loss: full-batch steps stay at its optimum, and reach it."""
        model, _ = solved(known)
        model.solver, found = "steps", model.weight.detach().clone()
        steps = {
            "epochs": 5,
            "batch_size": 1000,
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "momentum": 0.0,
        }
        nescio.train(model, known.train, **steps)
        torch.testing.assert_close(model.weight.detach(), found, rtol=0, atol=1e-8)
        with torch.no_grad():
            model.weight.add_(random(*found.shape))
        losses = [epoch.loss for epoch in nescio.train(model, known.train, **steps).epochs]
        assert losses == sorted(losses, reverse=True)
        assert (model.weight.detach() - found).norm() < random(*found.shape).norm()

    def test_is_left_to_steps_if_it_would_be_large(self, known, monkeypatch):
        monkeypatch.setattr(rbf, "MAX_SOLVED", 40 * len(known.train) - 1)
        assert len(solved(known)[1].epochs) == 30
        assert len(solved(known, solver="exact")[1].epochs) == 1
        monkeypatch.setattr(rbf, "MAX_SOLVED", 40 * len(known.train))
        assert len(solved(known)[1].epochs) == 1

    def test_is_found_again_from_a_checkpoint(self, known, tmp_path):
        def fitted():
            model = RBFNetwork(40, classes=3, normalise=known.normalise)
            history = nescio.train(
                model, known.train, validation=0.2, patience=2, checkpoint=tmp_path / "c", seed=1
            )
            return model.state_dict(), history.epochs

        (first, epochs), (again, found) = fitted(), fitted()
        assert epochs == found  # with their seconds
        assert all(torch.equal(first[key], again[key]) for key in first)
        with pytest.raises(NescioError, match="was made with centres=40, not 41"):
            nescio.train(
                RBFNetwork(41, classes=3, normalise=known.normalise),
                known.train,
                validation=0.2,
                patience=2,
                checkpoint=tmp_path / "c",
                seed=1,
            )

    def test_comes_from_any_data_set(self, known):
        x, y = known.train.take(slice(None))
        model, again = (
            RBFNetwork(x[:40], 2.0, classes=3, normalise=known.normalise) for _ in range(2)
        )
        nescio.train(model, known.train)
        nescio.train(again, TensorDataset(x, y))
        assert torch.equal(model.weight, again.weight)


class TestCentres:
    def test_are_all_training_inputs_by_default(self, known):
        model, _ = solved(known, centres=None, double=False)
        assert torch.equal(model.centres, known.normalise(known.train.take(slice(None))[0]))

    def test_of_many_inputs_are_means(self, known, monkeypatch):
        monkeypatch.setattr(rbf, "MAX_CENTRES", 50)
        x = known.normalise(known.train.take(slice(None))[0])
        model, _ = solved(known, centres=None, double=False)
        assert model.centres.shape == (50, 2)
        nearest = torch.cdist(x, model.centres).amin(1)
        at_random = torch.cdist(
            x, x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:50]]
        ).amin(1)
        assert nearest.square().mean() < 0.8 * at_random.square().mean()

    def test_follow_from_the_seed(self, known):
        def centres(seed):
            model = RBFNetwork(20, 1.0, classes=3)
            nescio.train(model, known.train, seed=seed)
            return model.centres

        assert torch.equal(centres(3), centres(3))
        assert not torch.equal(centres(3), centres(4))

    def test_may_be_more_than_there_are_distinct_inputs(self):
        x, y = torch.tensor([[0.0], [1.0]]).repeat(10, 1), torch.tensor([0, 1]).repeat(10)
        model = RBFNetwork(5, 1.0, classes=2)
        assert nescio.train(model, (x, y)).epochs[0].accuracy == 1
        assert model.centres.round(decimals=5).unique().tolist() == [0, 1]

    def test_and_gamma_stay_when_it_is_trained_again(self, known):
        model, _ = solved(known, gamma=None)
        centres, gamma, weight = model.centres.clone(), model.gamma, model.weight.detach().clone()
        nescio.train(model, known.test, seed=7)
        assert torch.equal(model.centres, centres)
        assert model.gamma == gamma
        assert not torch.equal(model.weight, weight)


class TestGamma:
    def test_has_the_best_likelihood_on_validation_data(self, known):
        train, held = known.train.select(slice(0, 300)), known.test.select(slice(0, 300))
        model = RBFNetwork(train.inputs, classes=3, normalise=known.normalise)
        nescio.train(model, train, validation=held)
        rows = known.normalise(train.inputs).double()
        scale = 1 / float(
            (distances := torch.cdist(rows, rows).square())[distances > 1e-9].median()
        )
        losses = {}
        for times in rbf.GAMMA_GRID:
            again = RBFNetwork(train.inputs, times * scale, classes=3, normalise=known.normalise)
            losses[times] = nescio.train(again, train, validation=held).epochs[0].validation_loss
        chosen = min(rbf.GAMMA_GRID, key=lambda times: abs(times * scale - model.gamma))
        assert model.gamma == pytest.approx(chosen * scale, rel=1e-6)
        assert losses[chosen] <= 1.001 * min(
            losses.values()
        )  # the choice is made with a coarser goal
        assert max(losses.values()) > 1.1 * min(losses.values())

    def test_is_a_number_where_all_inputs_are_equal(self):
        model = RBFNetwork(classes=2)
        nescio.train(model, (torch.ones(10, 2), torch.arange(10) % 2))
        assert model.gamma > 0
        assert model.confidence(nescio.predict(model, torch.ones(1, 2))).item() == pytest.approx(
            0.5
        )


class TestRadius:
    @pytest.mark.parametrize("eps", [1e-6, 0.01, 0.5])
    def test_is_that_of_the_theorem(self, eps):
        model = given(classes=4)
        rows = model.weight.detach().numpy()
        alpha = max(sum(abs(a - b)) for a, b in itertools.combinations(rows, 2))
        r = math.sqrt(math.log(alpha / math.log(1 + 4 * eps)) / 0.3)
        assert model.uniform_radius(eps) == pytest.approx(r, rel=1e-9)

    def test_is_zero_where_nothing_was_learned(self):
        assert RBFNetwork(torch.zeros(1, 2), 1.0, classes=3).uniform_radius(1e-3) == 0

    def test_distances_are_those_to_the_nearest_centre_in_units_of_the_normalised_input(self):
        normalise = Normalise(torch.tensor([5.0, 0.0]), torch.tensor([2.0, 1.0]))
        model = RBFNetwork(
            torch.tensor([[5.0, 0.0], [9.0, 0.0]]), 1.0, classes=2, normalise=normalise
        )
        found = model.distance(torch.tensor([[5.0, 3.0], [5.0, 0.0], [13.0, 0.0], [5.0, 1e30]]))
        torch.testing.assert_close(found, torch.tensor([3.0, 0.0, 2.0, 1e30]).double())

    @pytest.mark.parametrize("eps", [0, -0.1, 0.76, math.nan, True, "0.1"])
    def test_needs_an_eps_that_says_something(self, eps):
        with pytest.raises(NescioError, match="eps must be"):
            given(classes=4).uniform_radius(eps)


class TestSaving:
    def test_brings_back_what_was_chosen(self, known, tmp_path):
        model, _ = solved(known, gamma=None, double=False)
        nescio.save(model, tmp_path / "m")
        again = nescio.load(tmp_path / "m")
        assert again.settings() == model.settings()
        assert torch.equal(nescio.predict(again, known.test), nescio.predict(model, known.test))
        assert again.uniform_radius(0.01) == model.uniform_radius(0.01)

    @pytest.mark.parametrize("settings", [{"centres": 5}, {"gamma": 2.0}])
    def test_brings_back_one_still_to_be_trained(self, known, tmp_path, settings):
        nescio.save(RBFNetwork(classes=3, normalise=known.normalise, **settings), tmp_path / "m")
        again = nescio.load(tmp_path / "m")
        assert nescio.train(again, known.train).epochs[0].accuracy > 0.9

    def test_refuses_room_that_was_never_filled(self, tmp_path):
        with pytest.raises(NescioError, match="'centres' holds NaN"):
            nescio.save(RBFNetwork(5, 1.0, classes=3, features=2), tmp_path / "m")


class TestErrors:
    @pytest.mark.parametrize(
        ("centres", "settings", "message"),
        [
            (None, {"gamma": 0}, "gamma must be a number from 1e-12 to"),
            (None, {"gamma": -1.0}, "gamma must be"),
            (None, {"gamma": math.nan}, "gamma must be"),
            (None, {"gamma": math.inf}, "gamma must be"),
            (None, {"classes": 1}, "classes must be an int ≥ 2"),
            (None, {"solver": "exakt"}, "did you mean 'exact'"),
            (0, {}, "centres must be an int ≥ 1, got 0"),
            ("many", {}, "centres must be an int"),
            (
                torch.zeros(3),
                {},
                r"centres must be inputs \(L, …\), L ≥ 1, got \(3,\)",
            ),
            (torch.zeros(0, 2), {}, r"L ≥ 1, got \(0, 2\)"),
            (
                torch.tensor([[0.0, 1.0], [math.nan, 0.0]]),
                {},
                "input 1 holds NaN or infinite values",
            ),
            (
                torch.zeros(3, 2),
                {"features": 4},
                "the centres have 2 features, but features=4",
            ),
            (
                torch.zeros(3, 2),
                {"normalise": Normalise(torch.zeros(4), torch.ones(4))},
                "inputs to normalise must be",
            ),
            (
                torch.full((1, 2), 1e30),
                {"normalise": Normalise(torch.zeros(2), torch.full((2,), 1e-30))},
                "NaN or infinite values once they are normalised",
            ),
        ],
    )
    def test_what_cannot_be_made(self, centres, settings, message):
        with pytest.raises(NescioError, match=message):
            RBFNetwork(centres, **{"classes": 3} | settings)

    @pytest.mark.parametrize(
        "model",
        [
            RBFNetwork(classes=3),
            RBFNetwork(5, 1.0, classes=3),
            RBFNetwork(5, 1.0, classes=3, features=2),
            RBFNetwork(torch.zeros(2, 2), classes=3),
        ],
    )
    def test_what_is_not_there_yet(self, model):
        for ask in (
            lambda: nescio.predict(model, torch.zeros(1, 2)),
            lambda: model.uniform_radius(0.1),
        ):
            with pytest.raises(NescioError, match="has no centres or gamma"):
                ask()

    def test_inputs_of_another_width(self):
        with pytest.raises(
            NescioError, match=r"inputs of shape \(5, 3\), but centres of 4 features"
        ):
            nescio.predict(given(), random(5, 3))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"x": math.inf}, "input 4 holds NaN or infinite values"),
            ({"y": 3}, "labels must lie in 0 … 2"),
        ],
    )
    def test_training_data_that_cannot_be(self, known, change, message):
        x, y = (value.clone() for value in known.train.take(slice(20)))
        x[4], y[5] = change.get("x", x[4]), change.get("y", y[5])
        for settings in ({}, {"gamma": 1.0}, {"centres": x[:2], "gamma": 1.0}):
            with pytest.raises(NescioError, match=message):
                nescio.train(RBFNetwork(classes=3, **settings), Samples(x, y))

    def test_more_centres_than_inputs(self, known):
        with pytest.raises(NescioError, match="centres must be ≤ the 20 training inputs, got 21"):
            nescio.train(RBFNetwork(21, classes=3), known.train.select(slice(0, 20)))

    def test_one_input_to_choose_gamma_by(self):
        with pytest.raises(NescioError, match="at least 2 training inputs; give gamma"):
            nescio.train(
                RBFNetwork(classes=2), (torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
            )

    def test_augmented_batches_where_there_are_none(self, known):
        with pytest.raises(
            NescioError, match="augment changes the batches of steps, but this rbf was solved"
        ):
            nescio.train(RBFNetwork(5, 1.0, classes=3), known.train, augment=[lambda x: x])

    def test_frozen_weights(self, known):
        model = given(width=2).float()
        model.weight.requires_grad_(False)
        before = model.weight.clone()
        with pytest.raises(NescioError, match="no weights to train"):
            nescio.train(model, known.train)
        assert torch.equal(model.weight, before)


def test_knows_digits_from_digits_it_never_saw_and_nothing_far_away():
    known = nescio.data.load("digits", unseen=[7, 8, 9])
    model = method_for("rbf", lambda _: pytest.fail("no network is needed"), 7, known.normalise)
    nescio.train(model, known.train)
    far = Samples(100 * known.test.take(slice(None))[0], known.test.labels)
    record = nescio.evaluate(
        model, known.test, {"held out": known.unseen, "far": far}, scores=["max_prob"]
    )
    assert record.known.accuracy >= 0.98
    assert record.unknown[0].separation[0].auroc >= 0.95
    assert record.unknown[1].separation[0].auroc == 1
    assert record.unknown[1].mmc == pytest.approx(1 / 7, abs=1e-12)
