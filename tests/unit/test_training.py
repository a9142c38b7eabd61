import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import nescio
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import lenet, mlp
from nescio.records import History
from nescio.schedule import Step
from nescio.tensorfile import read_tensors


@pytest.fixture(scope="module")
def digits():
    return nescio.data.load("digits")


@pytest.fixture
def blobs():
    return nescio.data.load("three_blobs").train


def small(seed=0):
    torch.manual_seed(seed)
    return mlp(2, 3, hidden=(16,))


def same(a, b):
    return all(torch.equal(a.state_dict()[key], b.state_dict()[key]) for key in a.state_dict())


def test_digits_are_read_rightly(digits, seed):
    torch.manual_seed(seed)
    model = Softmax(lenet(10, size=8), normalise=digits.normalise)
    nescio.fit(model, digits.train, epochs=10, batch_size=64, seed=seed)
    assert nescio.evaluate(model, digits.test).known.accuracy >= 0.97


def test_one_full_batch_step_is_the_textbook_one(blobs):
    """SGD with momentum and weight decay, two steps, against the formula written out."""
    net = small()
    start = [weight.detach().clone() for weight in net.parameters()]
    n = len(blobs)
    nescio.fit(net, blobs, epochs=2, batch_size=n, optimizer="sgd", learning_rate=0.1, momentum=0.5, weight_decay=0.01)
    oracle = small()
    speed = [torch.zeros_like(weight) for weight in start]
    for _ in range(2):
        loss = nn.functional.cross_entropy(oracle(blobs.inputs), blobs.labels)
        slopes = torch.autograd.grad(loss, list(oracle.parameters()))
        with torch.no_grad():
            for weight, slope, v in zip(oracle.parameters(), slopes, speed, strict=True):
                v.mul_(0.5).add_(slope + 0.01 * weight)
                weight.sub_(0.1 * v)
    for got, want in zip(net.parameters(), oracle.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_every_input_is_seen_once_an_epoch_in_batches_of_even_size(blobs):
    seen = []

    class Spy(Softmax):
        def loss(self, x, y):
            seen.append(x)
            return super().loss(x, y)

    nescio.fit(Spy(small()), blobs, epochs=1, batch_size=300)
    sizes = [len(batch) for batch in seen]
    assert max(sizes) <= 300
    assert max(sizes) - min(sizes) <= 1
    got, want = (np.sort(v.numpy().view("f4,f4").ravel()) for v in (torch.cat(seen), blobs.inputs))
    assert (got == want).all()


def test_history_tells_what_happened(blobs):
    history = nescio.fit(small(), blobs, epochs=3, schedule=Step(at=(0.5,), factor=0.1), validation=0.2, seed=4)
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3]
    assert [epoch.learning_rate for epoch in history.epochs] == pytest.approx([1e-3, 1e-4, 1e-4])
    assert all(math.isfinite(epoch.validation_loss) and 0 <= epoch.accuracy <= 1 for epoch in history.epochs)
    assert history.provenance.settings["schedule"] == "Step(at=(0.5,), factor=0.1)"
    assert history.provenance.seed == 4
    assert History.from_json(history.to_json()) == history


def test_reported_loss_and_accuracy_are_those_of_the_batches(blobs):
    net = small()
    with torch.no_grad():
        logits = net(blobs.inputs)
    history = nescio.fit(net, blobs, epochs=1, batch_size=len(blobs))
    assert history.epochs[0].loss == pytest.approx(nn.functional.cross_entropy(logits, blobs.labels).item(), rel=1e-5)
    assert history.epochs[0].accuracy == (logits.argmax(-1) == blobs.labels).double().mean().item()


def test_validation_data_is_not_trained_on(blobs):
    seen = []

    class Spy(Softmax):
        def loss(self, x, y):
            seen.append(x)
            return super().loss(x, y)

    nescio.fit(Spy(small()), blobs, epochs=2, validation=0.25, seed=1)
    assert len(torch.cat(seen).unique(dim=0)) == round(0.75 * len(blobs))


def test_early_stopping_keeps_the_best_weights(blobs):
    held = nescio.data.load("three_blobs").test
    net = small()
    history = nescio.fit(net, blobs, epochs=60, learning_rate=0.5, optimizer="sgd", validation=held, patience=3, seed=2)
    assert history.stopped_early
    losses = [epoch.validation_loss for epoch in history.epochs]
    assert history.best_epoch == 1 + int(np.argmin(losses))
    assert len(losses) == history.best_epoch + 3
    assert nescio.evaluate(net, held).known.nll == pytest.approx(min(losses), rel=1e-9)


def test_same_seed_same_run_other_seed_other_run(blobs):
    nets = [small() for _ in range(3)]
    for net, seed in zip(nets, (7, 7, 8), strict=True):
        nescio.fit(net, blobs, epochs=2, seed=seed)
    assert same(nets[0], nets[1])
    assert not same(nets[0], nets[2])


def test_random_state_and_flags_are_left_as_found(blobs):
    net = small().eval()
    before = torch.random.get_rng_state()
    nescio.fit(net, blobs, epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not any(module.training for module in net.modules())
    assert all(weight.grad is None for weight in net.parameters())


def test_takes_datasets_and_pairs_of_arrays(blobs):
    nets = [small() for _ in range(3)]
    pair = blobs.inputs.numpy().astype(np.float64), blobs.labels.numpy()
    for net, data in zip(nets, (blobs, TensorDataset(blobs.inputs, blobs.labels), pair), strict=True):
        nescio.fit(net, data, epochs=1, seed=3)
    assert same(nets[0], nets[1])
    assert same(nets[0], nets[2])


def test_frozen_weights_stay(blobs):
    net = small()
    net[1].weight.requires_grad_(False)
    before = net[1].weight.clone()
    nescio.fit(net, blobs, epochs=1)
    assert torch.equal(net[1].weight, before)


def test_a_finished_run_is_not_trained_again(blobs, tmp_path):
    path = tmp_path / "c"
    first, second = small(), small(seed=9)
    history = nescio.fit(first, blobs, epochs=2, checkpoint=path)
    again = nescio.fit(second, blobs, epochs=2, checkpoint=path)
    assert same(first, second)
    assert again.epochs == history.epochs


def test_checkpoint_of_another_run_is_refused(blobs, tmp_path):
    path = tmp_path / "c"
    nescio.fit(small(), blobs, epochs=2, checkpoint=path)
    with pytest.raises(NescioError, match=r"learning_rate=0\.001, not 0\.01"):
        nescio.fit(small(), blobs, epochs=2, checkpoint=path, learning_rate=0.01)
    with pytest.raises(NescioError, match="inputs, crc"):
        nescio.fit(small(), nescio.data.load("three_blobs", seed=1).train, epochs=2, checkpoint=path)
    with pytest.raises(NescioError, match="model='99 weights"):
        nescio.fit(mlp(2, 3, hidden=(5,)), blobs, epochs=2, checkpoint=path)


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\xff" * 16 + b, lambda b: b[:-1]]
)
def test_damaged_checkpoint_is_refused(blobs, tmp_path, damage):
    path = tmp_path / "c"
    nescio.fit(small(), blobs, epochs=1, checkpoint=path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NescioError, match="not a whole nescio checkpoint"):
        nescio.fit(small(), blobs, epochs=1, checkpoint=path)


def test_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(blobs, tmp_path):
    path = tmp_path / "c"
    steps = []

    class Diverges(Softmax):
        def loss(self, x, y):
            loss, logits = super().loss(x, y)
            steps.append(0)
            return loss * (torch.nan if len(steps) == 12 else 1.0), logits

    net = small()
    with pytest.raises(NescioError, match=r"became nan in epoch 2, step 4.*last good checkpoint is '.*c'"):
        nescio.fit(Diverges(net), blobs, epochs=5, checkpoint=path)
    assert len(blobs) == 1000
    tensors, about = read_tensors(path, "checkpoint")
    assert about["progress"]["step"] == 8
    assert all(value.isfinite().all() for value in tensors.values())


def test_weights_that_are_not_finite_never_reach_a_checkpoint(blobs, tmp_path):
    class Breaks(Softmax):
        def after_step(self, x, y):
            with torch.no_grad():
                self.net[1].weight.fill_(torch.nan)

    with pytest.raises(NescioError, match="NaN or infinite"):
        nescio.fit(Breaks(small()), blobs, epochs=1, batch_size=1000, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def bad(blobs, **changes):
    return {"model": small(), "data": blobs, **changes}


@pytest.mark.parametrize(("changes", "message"), [
    ({"data": (np.zeros((4, 2)), np.array([0, 1, 2, 3]))}, "0 … 2"),
    ({"data": (np.zeros((4, 2)), np.array([0, 1, -1, 2]))}, "from -1"),
    ({"data": (np.zeros((4, 2)), np.array([1, 1, 1, 1]))}, "one class"),
    ({"data": (np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 1.0]))}, "integer labels"),
    ({"data": (np.full((4, 2), np.nan), np.array([0, 1, 1, 1]))}, "NaN"),
    ({"data": (np.zeros((4, 3)), np.array([0, 1, 1, 1]))}, r"shape \(2, 3\)"),
    ({"data": (np.zeros((4, 2)), np.array([0, 1, 1]))}, "labels"),
    ({"data": (np.zeros((0, 2)), np.zeros(0, dtype=int))}, "N ≥ 1"),
    ({"data": "digits"}, "str"),
    ({"model": nn.ReLU(), "data": (np.zeros((4, 3)), np.array([0, 1, 1, 2]))}, "no weights"),
    ({"epochs": 0}, "epochs"),
    ({"batch_size": -1}, "batch_size"),
    ({"learning_rate": 0.0}, "learning_rate"),
    ({"learning_rate": math.nan}, "learning_rate"),
    ({"momentum": 1.0}, "momentum"),
    ({"optimizer": "adamm"}, "did you mean 'adam'"),
    ({"schedule": "cosin"}, "did you mean 'cosine'"),
    ({"augment": ["crops"]}, "did you mean 'crop'"),
    ({"augment": ["crop"]}, "image"),
    ({"patience": 3}, "validation"),
    ({"validation": 1.5}, "validation"),
    ({"validation": 0.0}, "validation"),
    ({"seed": -1}, "seed"),
    ({"checkpoint_every": 0}, "checkpoint_every"),
])  # fmt: skip
def test_bad_input_is_told(blobs, changes, message):
    arguments = bad(blobs, **changes)
    model, data = arguments.pop("model"), arguments.pop("data")
    with pytest.raises(NescioError, match=message):
        nescio.fit(model, data, **arguments)
