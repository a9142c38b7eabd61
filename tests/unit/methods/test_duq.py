"""DUQ: kernels around centroids that follow the data, and a network kept sensitive to its input."""

import copy
import math
from contextlib import nullcontext
from unittest.mock import patch

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nescio
from nescio.core.tensorfile import read_tensors
from nescio.data import Normalise
from nescio.errors import NescioError
from nescio.methods import DUQ, duq
from nescio.methods.duq import cross_entropies, log1mexp
from nescio.models import conv3, mlp


def small(seed=0, **settings):
    """A DUQ of three classes on five features, in float64, with BatchNorm and dropout."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 5)
    )
    return DUQ(net, 3, **{"centroid_size": 6, "length_scale": 0.7} | settings).double()


@pytest.fixture
def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 4, dtype=torch.float64, generator=generator)
    return x, torch.arange(12) % 3


def kernels_by_hand(model, x):
    """Equation 1, class by class and input by input."""
    features = model.net(x).detach().numpy()
    weight, centroids = model.weight.detach().numpy(), model.centroids.numpy()
    n = model.centroid_size
    return np.array(
        [
            [
                math.exp(
                    -(np.linalg.norm(weight[c] @ f - centroids[c]) ** 2)
                    / n
                    / (2 * model.length_scale**2)
                )
                for c in range(model.classes)
            ]
            for f in features
        ]
    )


def test_the_first_centroids_are_spread_as_told_and_all_else_is_the_same():
    default, narrow, wide = (
        small(**more) for more in ({}, {"centroid_spread": 0.05}, {"centroid_spread": 1})
    )
    assert torch.equal(default.centroids, wide.centroids)
    torch.testing.assert_close(narrow.centroids, 0.05 * default.centroids, rtol=1e-6, atol=0)
    for one, other in zip(default.parameters(), narrow.parameters(), strict=True):
        assert torch.equal(one, other)
    torch.manual_seed(0)
    many = DUQ(nn.Linear(2, 2), 50, 1000, centroid_spread=0.05, features=2).centroids
    assert many.std().item() == pytest.approx(0.05, rel=0.02)


class TestKernels:
    def test_logits_are_the_logs_of_equation_1(self, batch):
        model = small().eval()
        np.testing.assert_allclose(
            model(batch[0]).exp().detach(), kernels_by_hand(model, batch[0]), rtol=1e-12
        )

    def test_confidence_is_the_largest_kernel_and_kernels_need_not_sum_to_one(self, batch):
        model = small().eval()
        kernels = kernels_by_hand(model, batch[0])
        logits = nescio.predict(model, batch[0])
        np.testing.assert_allclose(model.confidence(logits), kernels.max(1), rtol=1e-12)
        assert (abs(kernels.sum(1) - 1) > 0.1).all()

    def test_far_away_log_kernels_keep_their_order_where_kernels_are_all_zero(self, batch):
        model = small(length_scale=0.05).eval()
        logits = nescio.predict(
            model, 1e3 * batch[0][:1] * torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
        )
        assert (model.confidence(logits) == 0).all()
        assert (nescio.scores.max_logit(logits).diff() > 0).all()

    def test_one_forward_pass_predicts(self, batch):
        model = small()
        calls = []
        model.net.register_forward_hook(lambda *_: calls.append(1))
        nescio.predict(model, batch[0])
        assert len(calls) == 1

    def test_a_length_scale_for_each_class_can_be_learned(self, batch):
        model = small(
            learn_length_scale=True
        ).eval()  # its log is rounded to float32 before the model is cast
        np.testing.assert_allclose(
            model(batch[0]).exp().detach(), kernels_by_hand(model, batch[0]), rtol=1e-7
        )
        before = model(batch[0]).detach()
        with torch.no_grad():
            model.log_length_scale[1] += math.log(2)
        np.testing.assert_allclose(
            model(batch[0]).detach() / before, [[1, 0.25, 1]] * 12, rtol=1e-12
        )
        model.loss(*batch)[0].backward()
        assert (model.log_length_scale.grad != 0).all()

    def test_the_centroid_is_as_long_as_the_features_by_default(self):
        assert DUQ(mlp(4, hidden=(9,)), 3).centroid_size == 9


class TestCrossEntropies:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_is_torchs_where_torch_can_do_it(self, seed, dtype):
        generator = torch.Generator().manual_seed(seed)
        kernels = torch.rand(50, 4, generator=generator, dtype=dtype) * 0.98 + 0.01
        y = torch.randint(4, (50,), generator=generator)
        torch.testing.assert_close(
            cross_entropies(kernels.log(), y),
            F.binary_cross_entropy(kernels, F.one_hot(y, 4).to(dtype)),
        )

    @pytest.mark.parametrize(
        "log_k", [-1e-15, -1e-9, -1e-3, -0.5, -math.log(2), -0.7, -5.0, -40.0, -700.0]
    )
    def test_log1mexp_to_the_last_digits(self, log_k):
        given = torch.tensor(log_k, dtype=torch.float64, requires_grad=True)
        value = log1mexp(given)
        value.backward()
        with mpmath.workdps(60):
            k = mpmath.exp(log_k)
            assert value.item() == pytest.approx(float(mpmath.log(1 - k)), rel=1e-14)
            assert given.grad.item() == pytest.approx(float(-k / (1 - k)), rel=1e-14)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_a_kernel_of_one_or_nothing_has_a_loss_and_a_gradient(self, dtype):
        logits = torch.tensor(
            [[-1e30, 0.0], [0.0, -1e5], [-1e5, -1e-30]], dtype=dtype, requires_grad=True
        )
        loss = cross_entropies(logits, torch.tensor([0, 0, 0]))
        loss.backward()
        assert loss.isfinite()
        assert logits.grad.isfinite().all()
        assert (
            logits.grad[:, 0] == -1 / 6
        ).all()  # the true class is always pulled in, however far it is

    def test_a_wrong_kernel_next_to_one_costs_more_than_a_lower_one(self):
        losses = [
            cross_entropies(torch.tensor([[-1.0, log_k]]), torch.tensor([0]))
            for log_k in (-1.0, -1e-3, 0.0)
        ]
        assert losses[0] < losses[1] < losses[2]

    def test_are_the_validation_loss_without_the_penalty(self, batch, seed):
        model = small(gradient_penalty=1.0)
        history = nescio.train(
            model, batch, epochs=1, validation=nescio.data.Samples(*batch), seed=seed
        )
        expected = F.binary_cross_entropy(
            nescio.predict(model, batch[0])[0].exp(), F.one_hot(batch[1]).double()
        )
        assert history.epochs[0].validation_loss == pytest.approx(expected.item(), rel=1e-9)

    def test_stop_a_training_that_they_tell_is_getting_worse(self, batch, monkeypatch):
        """All kernels fall, that of the true class least: better by a softmax, worse by DUQ."""
        model, own, calls = small(), F.one_hot(batch[1]).double(), iter(range(9))
        monkeypatch.setattr(model, "forward", lambda x: -1 - next(calls) * (3 - 2 * own[: len(x)]))
        monkeypatch.setattr(
            model, "loss", lambda x, y: (model.weight.sum() * 0, torch.zeros(len(x), 3))
        )
        history = nescio.train(
            model, batch, epochs=5, validation=nescio.data.Samples(*batch), patience=2
        )
        assert (history.best_epoch, len(history.epochs), history.stopped_early) == (1, 3, True)


class TestCentroids:
    def test_follow_equations_4_to_6_with_the_new_weights_in_eval_mode(self, batch):
        model, (x, y) = small(momentum=0.9), batch
        y = y.clamp(max=1)  # the last class is absent
        counts, centroids = model.counts.clone(), model.centroids.clone()
        sums = centroids * counts[:, None]
        model.train()
        model.net[0].eval()  # a part that is to stay so
        seen = copy.deepcopy(model)
        model.after_step(x, y)
        features = seen.net.eval()(x).detach()
        for c in range(3):
            own = features[y == c]
            assert model.counts[c].item() == pytest.approx(
                0.9 * counts[c].item() + 0.1 * len(own), rel=1e-12
            )
            total = sum(
                (seen.weight[c].detach() @ f for f in own), torch.zeros(6, dtype=torch.float64)
            )
            expected = (0.9 * sums[c] + 0.1 * total) / model.counts[c]
            np.testing.assert_allclose(model.centroids[c], expected, rtol=1e-9, atol=1e-12)
        assert torch.equal(model.centroids[2], centroids[2])
        assert not np.allclose(model.centroids[:2], centroids[:2])
        assert model.training
        assert not model.net[0].training
        assert model.net[1].training
        assert (
            model.net[1].num_batches_tracked == 0
        )  # the pass has left BatchNorm's statistics alone

    @pytest.mark.parametrize(
        ("momentum", "steps"), [(0.0, 3), (0.5, 1100), (0.9, 300), (0.999, 300)]
    )
    def test_of_a_class_that_stays_away_stay_where_they_are(self, batch, momentum, steps):
        model, (x, y) = small(momentum=momentum), batch
        still = model.centroids[2].clone()
        for _ in range(steps):  # 1100 halvings of a count would leave nothing of it in float64
            model.after_step(x[:4], y[:4].clamp(max=1))
        assert torch.equal(model.centroids[2], still)
        model.after_step(x, y)  # and when it comes back, they follow it as ever
        assert model.centroids.isfinite().all()
        assert not torch.equal(model.centroids[2], still)

    def test_without_momentum_are_the_means_of_the_last_batch(self, batch):
        model, (x, y) = small(momentum=0.0), batch
        model.after_step(x, y)
        seen = torch.einsum("cnd,id->icn", model.weight, model.net.eval()(x)).detach()
        np.testing.assert_allclose(
            model.centroids, torch.stack([seen[y == c, c].mean(0) for c in range(3)]), rtol=1e-9
        )

    @pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
    def test_are_averaged_in_the_weights_precision_also_under_autocast(self, batch, kind):
        class Coarse(nn.Module):
            def forward(self, x):
                return x.to(kind)

        x, y = batch[0].float(), batch[1]
        models = [DUQ(net, 3, features=4, momentum=0.5) for net in (Coarse(), nn.Identity())]
        models[1].load_state_dict(models[0].state_dict())
        with torch.autocast("cpu", dtype=kind):
            models[0].after_step(x, y)
        models[1].after_step(x.to(kind).float(), y)
        assert models[0].centroids.dtype == torch.float32
        assert torch.equal(models[0].centroids, models[1].centroids)

    def test_leave_the_modes_alone_when_the_network_fails(self, batch):
        model = small().train()
        with pytest.raises(NescioError, match="NaN"):
            model.after_step(batch[0] * math.nan, batch[1])
        assert all(module.training for module in model.modules())

    def test_move_after_the_optimizer_has(self, batch, seed):
        """A step of the loop gives the centroids that a step by hand gives."""
        data, how = (
            nescio.data.Samples(*batch),
            {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.0},
        )
        model = small(momentum=0.5)
        by_hand = copy.deepcopy(model)
        nescio.train(model, data, epochs=1, batch_size=12, seed=seed, **how)
        moved = copy.deepcopy(model)
        moved.counts, moved.centroids = by_hand.counts.clone(), by_hand.centroids.clone()
        moved.after_step(*batch)
        np.testing.assert_allclose(model.centroids, moved.centroids, rtol=1e-9)
        by_hand.after_step(*batch)  # with the old weights
        assert not np.allclose(model.centroids, by_hand.centroids, rtol=1e-3)

    def test_are_buffers_without_a_gradient(self, batch):
        model = small(gradient_penalty=0.5)
        model.loss(*batch)[0].backward()
        assert {"counts", "centroids", "met"} <= set(model.state_dict())
        assert not any(buffer.requires_grad for buffer in model.buffers())

    def test_of_constant_weights_converge_to_the_class_means(self, batch):
        """The closed form that the paper names: the centroids that minimise the distances."""
        model, (x, y) = small(momentum=0.9), batch
        for _ in range(400):
            model.after_step(x, y)
        seen = torch.einsum("cnd,id->icn", model.weight, model.net.eval()(x)).detach()
        means = torch.stack([seen[y == c, c].mean(0) for c in range(3)])
        np.testing.assert_allclose(model.centroids, means, rtol=1e-9)


class TestPenalty:
    def test_is_in_the_normalised_input(self, batch):
        x, y = batch
        mean, std = torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.5, 2, 1, 3])
        raw = small(gradient_penalty=0.7, normalise=Normalise(mean, std))
        plain = small(gradient_penalty=0.7)
        for model, given in ((raw, x * std + mean), (plain, x)):
            torch.manual_seed(5)  # of dropout
            model.loss(given, y)[0].backward()
        np.testing.assert_allclose(raw.weight.grad, plain.weight.grad, rtol=1e-6)

    def test_weighs_what_it_says(self, batch):
        losses = []
        for weight in (0.0, 1.0, 3.0):
            model = small(gradient_penalty=weight)
            torch.manual_seed(5)
            losses.append(model.loss(*batch)[0].item())
        assert losses[2] - losses[0] == pytest.approx(3 * (losses[1] - losses[0]), rel=1e-9)
        assert losses[1] > losses[0]

    @pytest.mark.parametrize("target", ["kernel sum", "kernels", "features"])
    @pytest.mark.parametrize("side", ["two-sided", "one-sided"])
    def test_every_kind_trains(self, target, side, blobs, seed):
        torch.manual_seed(seed)
        model = DUQ(
            mlp(2, hidden=(16,)),
            3,
            length_scale=0.3,
            gradient_penalty=0.1,
            penalty=side,
            penalty_target=target,
        )
        history = nescio.train(model, blobs, epochs=6, batch_size=64, learning_rate=1e-2, seed=seed)
        assert history.epochs[-1].accuracy > 0.95

    def test_two_sided_brings_slopes_nearer_to_one(self, blobs, seed):
        def distance(weight):
            torch.manual_seed(seed)
            model = DUQ(
                mlp(2, hidden=(16,)), 3, length_scale=0.3, momentum=0.99, gradient_penalty=weight
            )
            nescio.train(model, blobs, epochs=10, batch_size=64, learning_rate=1e-2, seed=seed)
            x = blobs.inputs.clone().requires_grad_()
            (slope,) = torch.autograd.grad(model.eval()(x).exp().sum(), x)
            return float((slope.norm(dim=1) - 1).square().mean())

        assert distance(1.0) < 0.7 * distance(0.0)

    def test_data_that_want_a_gradient_of_their_own_get_it(self, seed):
        torch.manual_seed(seed)
        model = DUQ(conv3(size=16), 3, length_scale=1.0, gradient_penalty=0.5).double()
        x, y = torch.rand(6, 1, 16, 16, dtype=torch.float64), torch.arange(6) % 3
        found = []
        for rules in (duq.CheapDoubleBackward, nullcontext):
            given = x.clone().requires_grad_()
            with patch.object(duq, "CheapDoubleBackward", rules):
                copy.deepcopy(model).loss(given, y)[0].backward()
            found.append(given.grad)
        torch.testing.assert_close(*found, rtol=1e-10, atol=1e-14)
        assert found[0].norm() > 0

    def test_needs_a_network_with_a_gradient_in_its_input(self, batch):
        class Deaf(nn.Module):
            def forward(self, x):
                return torch.ones(len(x), 5, dtype=x.dtype)

        with pytest.raises(NescioError, match="differentiated in its input"):
            DUQ(Deaf(), 3, features=5, gradient_penalty=1.0).double().loss(*batch)


class TestQuality:
    @pytest.mark.parametrize("weight", [0.0, 0.02])
    def test_knows_digits_from_digits_it_never_saw(self, weight, seed):
        known = nescio.data.load("digits", unseen=[7, 8, 9])
        torch.manual_seed(seed)
        model = DUQ(mlp(64), 7, gradient_penalty=weight, normalise=known.normalise)
        how = {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 1e-4}
        nescio.train(model, known.train, epochs=20, batch_size=64, seed=seed, **how)
        record = nescio.evaluate(
            model, known.test, {"held out": known.unseen}, scores=["max_logit"]
        )
        assert record.known.accuracy > 0.97
        assert 0.955 < record.unknown[0].separation[0].auroc < 0.995
        assert record.known.mmc > 2 * record.unknown[0].mmc


class TestBadInput:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"length_scale": 0}, "length_scale"),
            ({"length_scale": -0.1}, "length_scale"),
            ({"length_scale": math.nan}, "length_scale"),
            ({"length_scale": "auto"}, "length_scale"),
            ({"momentum": 1}, "momentum must be < 1"),
            ({"momentum": -0.1}, "momentum must be a number from 0 to 1"),
            ({"momentum": 1.5}, "momentum"),
            ({"classes": 1}, "classes"),
            ({"classes": 2.5}, "classes"),
            ({"centroid_size": 0}, "centroid_size"),
            ({"gradient_penalty": -1}, "gradient_penalty"),
            ({"gradient_penalty": math.inf}, "gradient_penalty"),
            ({"penalty": "both"}, "two-sided"),
            ({"penalty": 0.5}, "its weight is gradient_penalty"),
            ({"penalty": ["two-sided"]}, "penalty"),
            ({"penalty_target": "logits"}, "kernel sum"),
            ({"learn_length_scale": "yes"}, "learn_length_scale"),
            ({"weight_spread": 0}, "weight_spread"),
            ({"centroid_spread": 0}, "centroid_spread"),
            ({"centroid_spread": 1e7}, "centroid_spread"),
            ({"shared_projection": 1}, "shared_projection"),
            ({"features": 0}, "features"),
            ({"features": 10**9, "classes": 10**9}, "classes × centroid_size × features"),
        ],
    )
    def test_settings_that_cannot_be(self, settings, message):
        with pytest.raises(NescioError, match=message):
            DUQ(mlp(4, hidden=(8,)), **{"classes": 3} | settings)

    def test_features_of_the_wrong_width(self, batch):
        model = DUQ(nn.Linear(4, 5), 3, features=7).double()
        with pytest.raises(NescioError, match=r"features of shape \(12, 7\), .* got \(12, 5\)"):
            nescio.predict(model, batch[0])

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.compile imports
    def test_a_compiled_network_with_a_penalty(self):
        net = torch.compile(nn.Linear(4, 5))  # nothing is compiled before it runs
        assert DUQ(net, 3).features == 5
        with pytest.raises(NescioError, match="compile after training"):
            DUQ(net, 3, gradient_penalty=0.1)

    def test_a_network_that_returns_no_tensor(self, batch):
        class Pair(nn.Linear):
            def forward(self, x):
                return super().forward(x), x

        with pytest.raises(NescioError, match="a tensor of features, got tuple"):
            nescio.predict(DUQ(Pair(4, 5), 3).double(), batch[0])

    def test_a_network_that_does_not_tell_its_width(self):
        with pytest.raises(NescioError, match="features="):
            DUQ(nn.Flatten(), 3)

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_features_that_are_no_numbers(self, batch, bad):
        model = small()
        model.net[4].bias.data[2] = bad
        for use in (lambda: nescio.predict(model, batch[0]), lambda: model.loss(*batch)):
            with pytest.raises(NescioError, match="features that are NaN or infinite"):
                use()

    def test_a_batch_of_one_class_before_any_other(self, batch):
        model, (x, y) = small(), batch
        with pytest.raises(
            NescioError, match="a batch of 4 with one class only, 2, before any other"
        ):
            model.loss(x[:4], torch.full((4,), 2))
        model.after_step(x[:4], torch.full((4,), 2))
        with pytest.raises(NescioError, match="one class only, 2, before any other"):
            model.loss(x[:4], torch.full((4,), 2))
        model.after_step(x, y)
        assert model.loss(x[:4], torch.full((4,), 2))[0].isfinite()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda y: y.view(6, 2), r"integers of shape \(N,\), got torch\.int64 \(6, 2\)"),
            (lambda y: y.double(), r"integers of shape \(N,\), got torch\.float64"),
            (lambda y: y + 1, "labels must lie in 0 … 2 for 3 classes, got 1 to 3"),
            (lambda y: y - 1, "got -1 to 1"),
            (lambda y: y.numpy(), "labels must be a tensor of ints, got ndarray"),
            (lambda y: y[:5], "as many inputs as labels, at least 1, got 12 and 5"),
            (lambda y: y[:0], "as many inputs as labels, at least 1, got 12 and 0"),
        ],
    )
    def test_labels_of_another_kind(self, batch, change, message):
        x, y = batch
        model = small()
        for use in (model.loss, model.after_step):
            with pytest.raises(NescioError, match=message):
                use(x, change(y))

    def test_an_empty_batch(self, batch):
        for use in (small().loss, small().after_step):
            with pytest.raises(
                NescioError, match="as many inputs as labels, at least 1, got 0 and 0"
            ):
                use(batch[0][:0], batch[1][:0])

    def test_labels_of_any_whole_number_type_are_the_same_labels(self, batch):
        x, y = batch
        models = [small().eval() for _ in range(2)]
        losses = [
            model.loss(x, labels)[0] for model, labels in zip(models, (y, y.int()), strict=True)
        ]
        assert losses[0] == losses[1]
        for model, labels in zip(models, (y, y.int()), strict=True):
            model.after_step(x, labels)
        assert torch.equal(models[0].centroids, models[1].centroids)

    def test_training_data_of_one_class(self, blobs):
        for size in (1, 128):
            with pytest.raises(
                NescioError,
                match="all 64 training inputs are of one class; at least two are needed",
            ):
                nescio.train(
                    DUQ(mlp(2, hidden=(8,)), 3),
                    (blobs.inputs[:64], torch.ones(64).long()),
                    batch_size=size,
                )

    def test_batches_of_a_single_input(self, blobs):
        with pytest.raises(
            NescioError, match=r"batch of 1 with one class only.*: use larger batches$"
        ):
            nescio.train(DUQ(mlp(2, hidden=(8,)), 3), blobs, batch_size=1)

    @pytest.mark.parametrize("weight", [0.0, 1.0])
    def test_a_loss_that_diverges_keeps_the_last_good_checkpoint(self, blobs, tmp_path, weight):
        class Bursts(nn.Module):
            """Gives NaN from its tenth batch in training on."""

            left = 10

            def forward(self, x):
                self.left -= self.training
                return x * (math.nan if self.left < 0 else 1.0)

        model = DUQ(nn.Sequential(mlp(2, hidden=(8,)), Bursts()), 3, gradient_penalty=weight)
        path = tmp_path / "c.safetensors"
        with pytest.raises(
            NescioError, match=r"in epoch \d+, step \d+; the last good checkpoint is"
        ):
            nescio.train(
                model, blobs, epochs=5, batch_size=100, checkpoint=path, checkpoint_every=3
            )
        assert path.exists()

    @pytest.mark.parametrize("epochs", [2, 30])
    def test_centroids_that_run_away_never_reach_a_checkpoint_nor_a_user(self, tmp_path, epochs):
        def start():
            torch.manual_seed(0)
            model = DUQ(mlp(4, hidden=(8,)), 3)
            data = torch.randn(12, 4), torch.arange(12) % 3
            nescio.train(
                model, data, epochs=epochs, optimizer="sgd", learning_rate=1e6, checkpoint=path
            )

        path, message = (
            tmp_path / "c.safetensors",
            r"buffer 'centroids' became NaN or infinite in epoch 2, step 1; the last",
        )
        with pytest.raises(NescioError, match=message):
            start()
        kept = path.read_bytes()
        tensors, about = read_tensors(path, "checkpoint")
        assert about["progress"]["step"] == 1
        assert all(value.isfinite().all() for value in tensors.values())
        with pytest.raises(NescioError, match=message):  # from the kept one on, to the same end
            start()
        assert path.read_bytes() == kept
