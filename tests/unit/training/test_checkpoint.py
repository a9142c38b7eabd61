"""Checkpoints: what they hold, when they are taken up again, and when they are refused."""

import functools

import pytest
import torch
from torch import nn

import nescio
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data.transforms import random_crop
from nescio.errors import NescioError
from nescio.methods import DUQ, Softmax
from nescio.models import mlp
from small_nets import same, small


def test_a_finished_run_is_not_trained_again(blobs, tmp_path):
    path = tmp_path / "c"
    first, second = small(), small(seed=9)
    history = nescio.train(first, blobs, epochs=2, checkpoint=path)
    again = nescio.train(second, blobs, epochs=2, checkpoint=path)
    assert same(first, second)
    assert again.epochs == history.epochs


def test_a_run_cut_off_in_its_first_epoch_does_not_judge_the_labels_by_the_rest(tmp_path):
    class Cut(Softmax):
        def loss(self, x, y):
            if self.cut and len(self.labels) == 9:
                raise KeyboardInterrupt
            self.labels.append(y)
            return super().loss(x, y)

    data = torch.randn(20, 2), torch.tensor([0] * 19 + [1])
    for seed in range(4):
        for cut in (True, False):
            model = Cut(mlp(2, 2, hidden=()))
            model.cut, model.labels = cut, []
            how = {
                "epochs": 1,
                "batch_size": 2,
                "seed": seed,
                "checkpoint": tmp_path / str(seed),
                "checkpoint_every": 1,
            }
            if cut:
                with pytest.raises(KeyboardInterrupt):
                    nescio.train(model, torch.utils.data.TensorDataset(*data), **how)
            else:
                nescio.train(model, torch.utils.data.TensorDataset(*data), **how)
        assert len(model.labels) == 1


def test_a_run_that_stopped_early_comes_back_with_its_best_weights(blobs, tmp_path):
    how = {
        "epochs": 60,
        "learning_rate": 0.5,
        "optimizer": "sgd",
        "validation": 0.3,
        "patience": 3,
        "seed": 2,
    }
    first, second = small(), small(seed=9)
    assert nescio.train(first, blobs, checkpoint=tmp_path / "c", **how).stopped_early
    nescio.train(second, blobs, checkpoint=tmp_path / "c", **how)
    assert same(first, second)


def test_functions_of_the_users_own_are_known_again(blobs, tmp_path):
    def run(net):
        def schedule(t):
            return 1 - t

        crop = functools.partial(random_crop, padding=1)
        data = blobs.inputs.reshape(-1, 1, 1, 2), blobs.labels
        nescio.train(
            net, data, epochs=1, schedule=schedule, augment=[crop], checkpoint=tmp_path / "c"
        )

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

    nescio.train(Counting(), blobs, epochs=2, checkpoint=tmp_path / "c")
    again = Counting()
    nescio.train(again, blobs, epochs=2, checkpoint=tmp_path / "c")
    assert again.count == 16


def test_checkpoint_of_another_run_is_refused(blobs, tmp_path):
    path = tmp_path / "c"
    nescio.train(small(), blobs, epochs=2, checkpoint=path)
    with pytest.raises(NescioError, match=r"learning_rate=0\.001, not 0\.01"):
        nescio.train(small(), blobs, epochs=2, checkpoint=path, learning_rate=0.01)
    with pytest.raises(NescioError, match="inputs, crc"):
        nescio.train(
            small(), nescio.data.load("three_blobs", seed=1).train, epochs=2, checkpoint=path
        )
    with pytest.raises(NescioError, match=r"data='1000 inputs, crc"):
        nescio.train(
            small(), blobs.__class__(blobs.inputs + 1, blobs.labels), epochs=2, checkpoint=path
        )
    frozen, other = small(), small()
    frozen[1].weight.requires_grad_(False)
    other[2] = nn.Tanh()
    for net in (mlp(2, 3, hidden=(5,)), frozen, other):
        with pytest.raises(NescioError, match="model='99 weights"):
            nescio.train(net, blobs, epochs=2, checkpoint=path)
    nescio.train(
        small(), blobs, epochs=2, checkpoint=path, checkpoint_every=3
    )  # changes nothing in the weights


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update({"best.net.1.weight": torch.zeros(2, 2)}),
        lambda t: t.pop("best.net.1.weight"),
        lambda t: [t.pop(key) for key in list(t) if key.startswith("best.")],
    ],
)
def test_best_weights_that_do_not_fit_are_refused(blobs, tmp_path, change):
    how = {"epochs": 2, "validation": 0.2, "patience": 2, "checkpoint": tmp_path / "c"}
    nescio.train(small(), blobs, **how)
    rewrite(tmp_path / "c", lambda tensors, _: change(tensors))
    with pytest.raises(NescioError, match="best epoch"):
        nescio.train(small(), blobs, **how)


def test_what_other_runs_are_writing_is_left_alone(blobs, tmp_path):
    ours, theirs = tmp_path / ".c.abcdefgh.partial", tmp_path / ".c.2.abcdefgh.partial"
    for path in (ours, theirs):
        path.write_text("half")
    nescio.train(small(), blobs, epochs=1, checkpoint=tmp_path / "c")
    assert not ours.exists()
    assert theirs.exists()
    with pytest.raises(NescioError, match="is a folder"):
        nescio.train(small(), blobs, epochs=1, checkpoint=tmp_path)


def rewrite(path, change):
    """The checkpoint with something changed in it."""
    tensors, about = read_tensors(path, "checkpoint")
    change(tensors, about)
    write_tensors(path, "checkpoint", tensors, about)


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_tampered_checkpoint_is_refused(blobs, tmp_path, change):
    path = tmp_path / "c"
    nescio.train(small(), blobs, epochs=2, checkpoint=path)
    rewrite(path, change)
    with pytest.raises(NescioError):
        nescio.train(small(), blobs, epochs=2, checkpoint=path)


@pytest.mark.parametrize(("spread", "resumes"), [(1.0, True), (0.5, False)])
def test_a_setting_newer_than_a_checkpoint_had_its_default(blobs, tmp_path, spread, resumes):
    def model():
        return DUQ(mlp(2, hidden=(4,)), 3, centroid_spread=spread)

    how = {"epochs": 1, "checkpoint": tmp_path / "c"}
    nescio.train(model(), blobs, **how)
    rewrite(how["checkpoint"], lambda _, a: a["settings"]["method_settings"].pop("centroid_spread"))
    if resumes:
        assert nescio.train(model(), blobs, **how).steps == 8
    else:
        with pytest.raises(NescioError, match=r"centroid_spread=1\.0, not 0\.5"):
            nescio.train(model(), blobs, **how)


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\xff" * 16 + b, lambda b: b[:-1]],
)
def test_damaged_checkpoint_is_refused(blobs, tmp_path, damage):
    path = tmp_path / "c"
    nescio.train(small(), blobs, epochs=1, checkpoint=path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NescioError, match="not a whole nescio checkpoint"):
        nescio.train(small(), blobs, epochs=1, checkpoint=path)


def test_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(blobs, tmp_path):
    path = tmp_path / "c"
    steps = []

    class Diverges(Softmax):
        def loss(self, x, y):
            loss, logits = super().loss(x, y)
            steps.append(0)
            return loss * (torch.nan if len(steps) == 12 else 1.0), logits

    net = small()
    with pytest.raises(
        NescioError, match=r"became nan in epoch 2, step 4.*last good checkpoint is '.*c'"
    ):
        nescio.train(Diverges(net), blobs, epochs=5, checkpoint=path)
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
        with pytest.raises(
            NescioError, match=r"'net\.1\.weight' became NaN .* in epoch 1, step 1; .*checkpoint"
        ):
            nescio.train(Breaks(small()), blobs, epochs=1, batch_size=1000, **more)
    assert not (tmp_path / "c").exists()


def test_buffers_may_hold_infinities(blobs, tmp_path):
    model = Softmax(small())
    model.register_buffer("mask", torch.tensor([-torch.inf, 0.0]))
    nescio.train(model, blobs, epochs=1, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").exists()


@pytest.mark.parametrize("place", ["", ".", "/", ".."])
def test_a_place_without_a_name_is_refused(blobs, place):
    with pytest.raises(NescioError, match=r"names no file|is a folder"):
        nescio.train(small(), blobs, epochs=1, checkpoint=place)
