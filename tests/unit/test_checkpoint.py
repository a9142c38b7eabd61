"""Checkpoints: what they hold, when they are taken up again, and when they are refused."""

import functools

import pytest
import torch
from torch import nn

import nescio
from nescio.data.augment import random_crop
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.tensorfile import read_tensors, write_tensors


@pytest.fixture
def blobs():
    return nescio.data.load("three_blobs").train


def small(seed=0):
    torch.manual_seed(seed)
    return mlp(2, 3, hidden=(16,))


def same(a, b):
    return all(torch.equal(a.state_dict()[key], b.state_dict()[key]) for key in a.state_dict())


def test_a_finished_run_is_not_trained_again(blobs, tmp_path):
    path = tmp_path / "c"
    first, second = small(), small(seed=9)
    history = nescio.fit(first, blobs, epochs=2, checkpoint=path)
    again = nescio.fit(second, blobs, epochs=2, checkpoint=path)
    assert same(first, second)
    assert again.epochs == history.epochs


def test_a_run_that_stopped_early_comes_back_with_its_best_weights(blobs, tmp_path):
    how = {"epochs": 60, "learning_rate": 0.5, "optimizer": "sgd", "validation": 0.3, "patience": 3, "seed": 2}
    first, second = small(), small(seed=9)
    assert nescio.fit(first, blobs, checkpoint=tmp_path / "c", **how).stopped_early
    nescio.fit(second, blobs, checkpoint=tmp_path / "c", **how)
    assert same(first, second)


def test_functions_of_the_users_own_are_known_again(blobs, tmp_path):
    def run(net):
        def schedule(t):
            return 1 - t

        crop = functools.partial(random_crop, padding=1)
        data = blobs.inputs.reshape(-1, 1, 1, 2), blobs.labels
        nescio.fit(net, data, epochs=1, schedule=schedule, augment=[crop], checkpoint=tmp_path / "c")

    first, second = small(), small(seed=9)
    run(first)
    run(second)
    assert same(first, second)


def test_buffers_in_no_state_dict_are_resumed_too(blobs, tmp_path):
    class Counting(Softmax):
        def __init__(self):
            super().__init__(small())
            self.register_buffer("count", torch.zeros(()), persistent=False)

        def after_step(self, x, y):
            self.count += 1

    nescio.fit(Counting(), blobs, epochs=2, checkpoint=tmp_path / "c")
    again = Counting()
    nescio.fit(again, blobs, epochs=2, checkpoint=tmp_path / "c")
    assert again.count == 16


def test_checkpoint_of_another_run_is_refused(blobs, tmp_path):
    path = tmp_path / "c"
    nescio.fit(small(), blobs, epochs=2, checkpoint=path)
    with pytest.raises(NescioError, match=r"learning_rate=0\.001, not 0\.01"):
        nescio.fit(small(), blobs, epochs=2, checkpoint=path, learning_rate=0.01)
    with pytest.raises(NescioError, match="inputs, crc"):
        nescio.fit(small(), nescio.data.load("three_blobs", seed=1).train, epochs=2, checkpoint=path)
    with pytest.raises(NescioError, match=r"data='1000 inputs, crc"):
        nescio.fit(small(), blobs.__class__(blobs.inputs + 1, blobs.labels), epochs=2, checkpoint=path)
    frozen, other = small(), small()
    frozen[1].weight.requires_grad_(False)
    other[2] = nn.Tanh()
    for net in (mlp(2, 3, hidden=(5,)), frozen, other):
        with pytest.raises(NescioError, match="model='99 weights"):
            nescio.fit(net, blobs, epochs=2, checkpoint=path)
    nescio.fit(small(), blobs, epochs=2, checkpoint=path, checkpoint_every=3)  # changes nothing in the weights


def retold(path, change):
    """The checkpoint with something changed in it."""
    tensors, about = read_tensors(path, "checkpoint")
    change(tensors, about)
    write_tensors(path, "checkpoint", tensors, about)


@pytest.mark.parametrize("change", [
    lambda t, a: a.update(settings=[]),
    lambda t, a: a["progress"].update(step=-1),
    lambda t, a: a["progress"].update(step=10**9),
    lambda t, a: a["progress"].update(epochs=[]),
    lambda t, a: a.pop("progress"),
    lambda t, a: t.pop("optimizer.0.exp_avg"),
    lambda t, a: t.update({"optimizer.0.exp_avg": torch.zeros(1)}),
    lambda t, a: t.update({"optimizer.0.exp_avg": torch.zeros(16, 2, dtype=torch.long)}),
    lambda t, a: t.update({"optimizer.x.step": t.pop("optimizer.0.step")}),
    lambda t, a: t.update({"optimizer.0": t.pop("optimizer.0.step")}),
    lambda t, a: t.update({"optimizer.99.step": t.pop("optimizer.0.step")}),
    lambda t, a: t.pop("model.net.1.weight"),
])  # fmt: skip
def test_tampered_checkpoint_is_refused(blobs, tmp_path, change):
    path = tmp_path / "c"
    nescio.fit(small(), blobs, epochs=2, checkpoint=path)
    retold(path, change)
    with pytest.raises(NescioError):
        nescio.fit(small(), blobs, epochs=2, checkpoint=path)


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

    for more in ({"checkpoint": tmp_path / "c"}, {}, {"validation": 0.2}):
        with pytest.raises(NescioError, match=r"'net\.1\.weight' became NaN .* in epoch 1, step 1; .*checkpoint"):
            nescio.fit(Breaks(small()), blobs, epochs=1, batch_size=1000, **more)
    assert not (tmp_path / "c").exists()


def test_buffers_may_hold_infinities(blobs, tmp_path):
    model = Softmax(small())
    model.register_buffer("mask", torch.tensor([-torch.inf, 0.0]))
    nescio.fit(model, blobs, epochs=1, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").exists()
