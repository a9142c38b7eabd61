"""CEDA and ACET: their losses by hand, one batch for both, the search, what they learn."""

import math

import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples, noise
from nescio.errors import NescioError
from nescio.methods import ACET, CEDA, Softmax, TrainingStep
from nescio.models import mlp


@pytest.fixture(scope="module")
def digits():
    return nescio.data.load("digits", unseen=[7, 8, 9])


@pytest.fixture
def batch(digits):
    return digits.train.take(slice(0, 32))


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])

    def __len__(self):
        return 3


class Bare(torch.utils.data.Dataset):
    """Inputs without labels."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return torch.full((1, 8, 8), index / 10)


def net(seed=0, hidden=(32,)):
    torch.manual_seed(seed)
    return mlp(64, 7, hidden=hidden)


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_the_loss_of_ceda_by_hand(batch, weight, seed):
    x, y = batch
    made = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed))
    model = CEDA(net(seed), lambda _: made, weight)
    loss, logits = model.loss(x, y)
    p, q = (model.net(inputs).softmax(1) for inputs in (x, made))
    expected = -p[torch.arange(32), y].log().mean() + weight * q.amax(1).log().mean()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(logits, model.net(x))


def test_the_loss_on_noise_is_least_where_all_classes_are_alike():
    for out_loss, least in (("confidence", -math.log(7)), ("uniform", math.log(7))):
        model = CEDA(net(), out_loss=out_loss)
        torch.testing.assert_close(model.certainty(torch.zeros(3, 7)), torch.full((3,), least))
        assert (model.certainty(torch.randn(50, 7)) > least).all()


def test_cross_entropy_to_uniform_is_torchs(batch):
    model = CEDA(net(), out_loss="uniform")
    logits = torch.randn(20, 7)
    expected = nn.functional.cross_entropy(logits, torch.full((20, 7), 1 / 7), reduction="none")
    torch.testing.assert_close(model.certainty(logits), expected)


def test_batchnorm_sees_known_inputs_and_noise_as_one_batch(batch):
    x, y = batch
    made = torch.rand_like(x)
    layers = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64, momentum=1.0), nn.Linear(64, 7))
    CEDA(layers, lambda _: made).train().loss(x, y)
    both = torch.cat([x, made]).flatten(1)
    torch.testing.assert_close(layers[1].running_mean, both.mean(0))
    torch.testing.assert_close(layers[1].running_var, both.var(0))


def test_the_search_of_acet_is_in_eval_mode_and_leaves_batchnorm_alone(batch):
    x, y = batch
    layers = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 7))
    modes = []
    layers[1].register_forward_pre_hook(
        lambda module, _: modes.append((module.training, layers[2].weight.requires_grad))
    )
    model = ACET(layers, steps=3).train()
    model.loss(x, y)
    assert modes == [(False, False)] * 5 + [
        (True, True)
    ]  # the noise, the start, three steps; then the loss
    assert layers[1].num_batches_tracked == 1
    assert all(weight.requires_grad for weight in model.parameters())


def test_a_network_with_a_train_mode_of_its_own_is_back_in_it_after_the_search(batch):
    class Switch(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.fast = mlp(64, 7), False

        def train(self, mode=True):
            self.fast = not mode
            return super().train(mode)

        def forward(self, x):
            return self.inner(x)

    model = ACET(Switch(), steps=1).train()
    model.loss(*batch)
    assert not model.net.fast
    assert model.net.training


def test_the_noise_of_acet_is_surer_and_stays_near(batch, seed):
    x, _ = batch
    made = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed))
    model = ACET(net(seed), lambda _: made, eps=0.2, steps=10)
    worst = model.outliers(x)
    assert ((worst.double() - made.double()).abs() <= 0.2).all()
    assert worst.min() >= 0
    assert worst.max() <= 1
    before, after = (
        nescio.predict(model, inputs)[0].softmax(-1).amax(-1) for inputs in (made, worst)
    )
    assert (after > before + 0.01).all()
    assert not worst.requires_grad


def test_rows_of_a_table_are_searched_in_standard_deviations(seed):
    iris = nescio.data.load("iris")
    x, _ = iris.train.take(slice(None))
    torch.manual_seed(seed)
    model = ACET(mlp(4, 3, hidden=(16,)), lambda x: x, eps=0.5, steps=20, normalise=iris.normalise)
    away = (model.outliers(x) - x) / iris.normalise.std
    assert away.abs().max() == pytest.approx(0.5, abs=1e-4)
    assert away.abs().amax(0).min() > 0.4


def test_without_steps_acet_still_begins_at_random(batch):
    x, _ = batch
    made = torch.rand_like(x)
    worst = ACET(net(), lambda _: made, steps=0).outliers(x)
    assert 0 < (worst - made).abs().max() <= 0.3


def test_steps_grow_over_the_training():
    model = ACET(net(), steps=10, first_steps=2)
    seen = []
    for step in range(0, 101, 25):
        model.training_step = TrainingStep(step, 10, 101, 1000)
        seen.append((model.search().steps, model.search().step_size))
    assert [steps for steps, _ in seen] == [2, 4, 6, 8, 10]
    assert all(size == pytest.approx(0.3 / steps) for steps, size in seen)
    model.training_step = None
    assert model.search().steps == 10
    assert ACET(net(), steps=10, step_size=0.01, first_steps=2).search().step_size == 0.01
    assert ACET(net()).search() == nescio.attacks.ATTACKS["training"]


def test_outliers_of_the_users_own(digits, batch, seed):
    x, _ = batch
    brought = Samples(torch.rand(5, 1, 8, 8), torch.full((5,), -1))
    for given in (brought, brought.inputs, (brought.inputs, brought.labels)):
        torch.manual_seed(seed)
        taken = CEDA(net(), given).outliers(x)
        assert taken.shape == x.shape
        rows = {tuple(row.tolist()) for row in brought.inputs.flatten(1)}
        assert {tuple(row.tolist()) for row in taken.flatten(1)} <= rows
    assert set(CEDA(net(), Bare()).outliers(x).unique().tolist()) <= set(
        torch.tensor([0, 0.1, 0.2, 0.3, 0.4]).tolist()
    )
    model = CEDA(net(), digits.unseen, normalise=digits.normalise)
    nescio.train(model, digits.train, epochs=15, batch_size=64, seed=seed)
    plain = Softmax(net(), normalise=digits.normalise)
    nescio.train(plain, digits.train, epochs=15, batch_size=64, seed=seed)
    aurocs = [
        nescio.evaluate(one, digits.test, {"held": digits.unseen}, scores=["max_prob"])
        .unknown[0]
        .separation[0]
        .auroc
        for one in (model, plain)
    ]
    assert aurocs[0] > 0.99 > aurocs[1]  # what it was shown it knows not to know


def test_outliers_are_not_saved_but_part_of_a_checkpoint(digits, tmp_path):
    def model(inputs):
        return CEDA(
            net(), Samples(inputs, torch.full((len(inputs),), -1)), normalise=digits.normalise
        )

    zeros = torch.zeros(9, 1, 8, 8)
    first = model(zeros)
    nescio.train(first, digits.train, epochs=1, checkpoint=tmp_path / "c.safetensors")
    with pytest.raises(NescioError, match="another"):
        nescio.train(
            model(zeros + 0.5), digits.train, epochs=1, checkpoint=tmp_path / "c.safetensors"
        )
    nescio.save(first, tmp_path / "m.nescio")
    again = nescio.load(tmp_path / "m.nescio")
    assert again.settings()["noise"] == "outliers"
    assert torch.equal(nescio.predict(again, digits.test), nescio.predict(first, digits.test))
    with pytest.raises(NescioError, match="not saved with it"):
        nescio.train(again, digits.train, epochs=1)


@pytest.mark.parametrize("kind", [CEDA, ACET])
@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"noise": "mixd"}, "did you mean 'mixed'"),
        ({"noise": 3}, "noise must be"),
        ({"weight": -1.0}, "weight"),
        ({"out_loss": "entropy"}, "out_loss"),
        ({"noise": torch.zeros(0, 4)}, "N ≥ 1"),
        ({"noise": torch.tensor(1.0)}, "noise must be"),
        ({"noise": Endless()}, "data set with positions and a length"),
    ],
)
def test_what_neither_can_be(kind, how, what):
    with pytest.raises(NescioError, match=what):
        kind(net(), **how)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"eps": -1}, "eps"),
        ({"steps": -1}, "steps"),
        ({"first_steps": 50}, "first_steps must be ≤ steps=40, got 50"),
    ],
)
def test_what_acet_cannot_be(how, what):
    with pytest.raises(NescioError, match=what):
        ACET(net(), **how)


def test_noise_that_does_not_fit_is_refused(batch):
    x, y = batch
    for made, what in (
        (
            torch.rand(32, 1, 9, 9),
            r"must have the shape of its batch, \(32, 1, 8, 8\), got \(32, 1, 9, 9\)",
        ),
        (torch.rand(31, 1, 8, 8), r"got \(31, 1, 8, 8\)"),
        (torch.full((32, 1, 8, 8), math.nan), "NaN"),
        (None, "NoneType"),
        (torch.zeros(32, 1, 8, 8, dtype=torch.uint8), "torch.uint8"),
    ):
        with pytest.raises(NescioError, match=what):
            CEDA(net(), lambda _, made=made: made).loss(x, y)
    with pytest.raises(NescioError, match="outside the box"):
        ACET(net(), lambda x: x + 2).loss(x, y)


@pytest.mark.slow
def test_acet_withstands_what_ceda_and_a_plain_network_do_not(digits, seed):
    """The small version of the paper's table 1, with its attack of 200 steps."""
    made = noise.samples("mixed", digits.test, seed=seed + 1)
    mmc, auroc = {}, {}
    for name, make in (
        ("plain", Softmax),
        ("ceda", CEDA),
        ("acet", lambda *a, **k: ACET(*a, steps=10, **k)),
        ("known", lambda *a, **k: ACET(*a, steps=5, step_size=0.1, known_starts=3, **k)),
    ):
        model = make(net(seed, (100, 100)), normalise=digits.normalise)
        nescio.train(model, digits.train, epochs=20, batch_size=64, seed=seed)
        sets = {"noise": made, "worst": "adversarial_noise_paper"}
        sets |= {"samples": "adversarial_samples_paper", "strongest": "adversarial_noise"}
        record = nescio.evaluate(
            model, digits.test, sets, scores=["max_prob"], attacked=200, seed=seed
        )
        assert record.known.accuracy > 0.96
        mmc[name] = [side.mmc for side in record.unknown]
        auroc[name] = [side.separation[0].auroc for side in record.unknown]
    assert auroc["plain"][1] < 0.5
    assert auroc["plain"][1] + 0.2 < auroc["ceda"][1] < auroc["acet"][1] - 0.05
    assert auroc["acet"][1] > 0.95
    assert mmc["plain"][1] > 0.95
    assert mmc["acet"][1] < 0.4
    assert min(auroc["ceda"][0], auroc["acet"][0]) > 0.999
    assert (
        auroc["acet"][2] > auroc["plain"][2] + 0.1
    )  # without ever having seen an adversarial sample
    # the paper's attack flatters it
    assert auroc["acet"][3] < auroc["acet"][1] - 0.01
    assert auroc["known"][3] > 0.95
