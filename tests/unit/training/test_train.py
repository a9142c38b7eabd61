import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import nescio
from nescio.data.batches import split
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import lenet, mlp
from nescio.records import History
from nescio.training.schedule import Step
from small_nets import Watched, same, small


@pytest.fixture(scope="module")
def digits():
    return nescio.data.load("digits")


def test_digits_are_read_rightly(digits, seed):
    torch.manual_seed(seed)
    model = Softmax(lenet(10, size=8), normalise=digits.normalise)
    nescio.train(model, digits.train, epochs=10, batch_size=64, seed=seed)
    assert nescio.evaluate(model, digits.test).known.accuracy >= 0.97


def test_full_batch_steps_are_the_textbook_ones(blobs):
    """SGD with momentum, weight decay and a schedule, two steps, against the formula."""
    net = small()
    start = [weight.detach().clone() for weight in net.parameters()]
    how = {
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "momentum": 0.5,
        "weight_decay": 0.01,
        "schedule": Step(at=(0.5,)),
    }
    nescio.train(net, blobs, epochs=2, batch_size=len(blobs), **how)
    oracle = small()
    speed = [torch.zeros_like(weight) for weight in start]
    for rate in (0.1, 0.01):
        loss = nn.functional.cross_entropy(oracle(blobs.inputs), blobs.labels)
        slopes = torch.autograd.grad(loss, list(oracle.parameters()))
        with torch.no_grad():
            for weight, slope, v in zip(oracle.parameters(), slopes, speed, strict=True):
                v.mul_(0.5).add_(slope + 0.01 * weight)
                weight.sub_(rate * v)
    for got, want in zip(net.parameters(), oracle.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_adam_is_torchs_with_l2_weight_decay(blobs):
    net, oracle = small(), small()
    nescio.train(net, blobs, epochs=2, batch_size=len(blobs), learning_rate=0.01, weight_decay=0.1)
    optimizer = torch.optim.Adam(oracle.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(oracle(blobs.inputs), blobs.labels).backward()
        optimizer.step()
    for got, want in zip(net.parameters(), oracle.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


def test_training_is_in_train_mode_and_each_step_draws_its_own(blobs):
    model = Watched(
        nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3))
    ).eval()
    nescio.train(model, blobs, epochs=2)
    assert all(all(modes) for modes in model.modes)
    assert len(set(model.drawn)) == len(model.drawn) == 16


def test_parts_that_were_put_in_eval_mode_stay_there(blobs):
    model = Watched(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)))
    model.net[1].eval()
    nescio.train(model, blobs, epochs=1)
    assert all(modes == [True, False, True] for modes in model.modes)
    assert model.net[1].num_batches_tracked == 0


def test_no_batch_of_one_for_batchnorm(blobs):
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model = Watched(net)
    nescio.train(model, (blobs.inputs[:5], torch.tensor([0, 1, 2, 0, 1])), epochs=1, batch_size=2)
    assert sorted(map(len, model.inputs)) == [2, 3]
    with pytest.raises(NescioError, match="no loss for a batch"):
        nescio.train(net, (blobs.inputs[:5], torch.tensor([0, 1, 2, 0, 1])), epochs=1, batch_size=1)


def test_every_input_is_seen_once_an_epoch_in_batches_of_even_size(blobs):
    model = Watched(small())
    nescio.train(model, blobs, epochs=1, batch_size=300)
    sizes = [len(batch) for batch in model.inputs]
    assert max(sizes) <= 300
    assert max(sizes) - min(sizes) <= 1
    got, want = (
        np.sort(v.numpy().view("f4,f4").ravel()) for v in (torch.cat(model.inputs), blobs.inputs)
    )
    assert (got == want).all()


def test_history_tells_what_happened(blobs):
    history = nescio.train(
        small(), blobs, epochs=3, schedule=Step(at=(0.5,), factor=0.1), validation=0.2, seed=4
    )
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3]
    assert [epoch.learning_rate for epoch in history.epochs] == pytest.approx([1e-3, 1e-4, 1e-4])
    assert all(
        math.isfinite(epoch.validation_loss) and 0 <= epoch.accuracy <= 1
        for epoch in history.epochs
    )
    assert history.provenance.settings["schedule"] == "Step(at=(0.5,), factor=0.1)"
    assert history.provenance.seed == 4
    assert History.from_json(history.to_json()) == history


def test_reported_loss_and_accuracy_are_those_of_the_batches(blobs):
    net = small()
    with torch.no_grad():
        logits = net(blobs.inputs)
    history = nescio.train(net, blobs, epochs=1, batch_size=len(blobs))
    assert history.epochs[0].loss == pytest.approx(
        nn.functional.cross_entropy(logits, blobs.labels).item(), rel=1e-5
    )
    assert history.epochs[0].accuracy == (logits.argmax(-1) == blobs.labels).double().mean().item()


def test_validation_data_is_not_trained_on(blobs):
    model = Watched(small())
    nescio.train(model, blobs, epochs=2, validation=0.25, seed=1)
    assert len(torch.cat(model.inputs).unique(dim=0)) == round(0.75 * len(blobs))


def test_early_stopping_keeps_the_best_weights(blobs):
    validation = nescio.data.load("three_blobs").test
    net = small()
    history = nescio.train(
        net,
        blobs,
        epochs=60,
        learning_rate=0.5,
        optimizer="sgd",
        validation=validation,
        patience=3,
        seed=2,
    )
    assert history.stopped_early
    losses = [epoch.validation_loss for epoch in history.epochs]
    assert history.best_epoch == 1 + int(np.argmin(losses))
    assert len(losses) == history.best_epoch + 3
    assert nescio.evaluate(net, validation).known.nll == pytest.approx(min(losses), rel=1e-9)


def test_equal_validation_losses_do_not_count_as_better(blobs):
    history = nescio.train(
        small(), blobs, epochs=9, learning_rate=1e-30, validation=0.2, patience=2
    )
    assert history.best_epoch == 1
    assert len(history.epochs) == 3


def test_a_split_loses_and_shares_nothing(blobs):
    for data in (blobs, TensorDataset(blobs.inputs, blobs.labels)):
        parts = split(data, 0.3, seed=5)
        x, y = (torch.stack([one[0] for one in part]) for part in parts)
        assert (len(x), len(y)) == (700, 300)
        assert len(torch.cat([x, y]).unique(dim=0)) == 1000


def test_same_seed_same_run_other_seed_other_run(blobs):
    nets = [small() for _ in range(3)]
    for net, seed in zip(nets, (7, 7, 8), strict=True):
        nescio.train(net, blobs, epochs=2, seed=seed)
    assert same(nets[0], nets[1])
    assert not same(nets[0], nets[2])


def test_random_state_and_flags_are_left_as_found(blobs):
    net = small().eval()
    before = torch.random.get_rng_state()
    nescio.train(net, blobs, epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not any(module.training for module in net.modules())
    assert all(weight.grad is None for weight in net.parameters())


def test_takes_datasets_and_pairs_of_arrays(blobs):
    nets = [small() for _ in range(3)]
    pair = blobs.inputs.numpy().astype(np.float64), blobs.labels.numpy()
    for net, data in zip(
        nets, (blobs, TensorDataset(blobs.inputs, blobs.labels), pair), strict=True
    ):
        nescio.train(net, data, epochs=1, seed=3)
    assert same(nets[0], nets[1])
    assert same(nets[0], nets[2])


def test_data_that_draw_do_not_move_the_global_generator(blobs):
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return torch.randn(2), index % 3

    nets = [small() for _ in range(2)]
    for net in nets:
        before = torch.random.get_rng_state()
        nescio.train(net, Noisy(), epochs=1, validation=Noisy())
        assert torch.equal(torch.random.get_rng_state(), before)
        torch.rand(5)
    assert same(*nets)


def test_a_bad_input_is_named_by_its_place_in_the_data(blobs):
    x = blobs.inputs.clone()
    x[713] = torch.nan
    with pytest.raises(NescioError, match="input 713 "):
        nescio.train(small(), (x, blobs.labels), epochs=1)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_inputs_of_any_floating_type_also_with_a_graph(blobs, kind):
    inputs = blobs.inputs.to(kind).requires_grad_()
    assert len(nescio.train(small(), (inputs, blobs.labels), epochs=1).epochs) == 1


def test_frozen_weights_stay(blobs):
    net = small()
    net[1].weight.requires_grad_(False)
    before = net[1].weight.clone()
    nescio.train(net, blobs, epochs=1)
    assert torch.equal(net[1].weight, before)


def test_labels_of_any_integer_type_and_inputs_of_any_layout(blobs):
    x, y = blobs.inputs.numpy(), blobs.labels
    frozen = x.copy()
    frozen.flags.writeable = False
    nets = [small() for _ in range(5)]
    for net, data in zip(
        nets,
        (
            (x, y),
            TensorDataset(blobs.inputs, y.int()),
            (x[::-1][::-1], y.short()),
            (x.astype(">f4"), y),
            (frozen, y),
        ),
        strict=True,
    ):
        nescio.train(net, data, epochs=1)
    assert all(same(nets[0], net) for net in nets[1:])


def test_doubles_stay_doubles_for_a_double_model():
    x = 1e9 + np.arange(4.0)[:, None]
    model = Watched(mlp(1, 2, hidden=()).double())
    nescio.train(model, (x, np.array([0, 1, 0, 1])), epochs=1)
    assert sorted(model.inputs[0][:, 0].tolist()) == x[:, 0].tolist()


def test_numbers_of_numpy_are_numbers(blobs, tmp_path):
    how = {
        "epochs": np.int64(1),
        "batch_size": np.int32(500),
        "learning_rate": np.float32(1e-3),
        "seed": np.int64(2),
    }
    history = nescio.train(small(), blobs, checkpoint=tmp_path / "c", **how)
    assert History.from_json(history.to_json()).provenance.seed == 2


def bad(blobs, **changes):
    return {"model": small(), "data": blobs, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": (np.zeros((4, 2)), np.array([0, 1, 2, 3]))}, "0 … 2"),
        ({"data": (np.zeros((4, 2)), np.array([0, 1, -1, 2]))}, "got -1 to 2"),
        (
            {"data": (np.zeros((4, 2)), np.array([1, 1, 1, 1]))},
            "all 4 training inputs are of one class",
        ),
        (
            {"data": (np.zeros((4, 2)), np.array([0.0, 1.0, 0.5, 1.0]))},
            "labels must be .* integers",
        ),
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
        ({"augment": "crops"}, "did you mean 'crop'"),
        ({"model": None}, "Module, got a NoneType"),
        ({"augment": ["crop"]}, "image"),
        ({"patience": 3}, "validation"),
        ({"validation": 1.5}, "validation"),
        ({"validation": 0.0}, "validation"),
        ({"seed": -1}, "seed"),
        ({"seed": "a", "validation": 0.2}, "seed"),
        ({"learning_rate": "a"}, "learning_rate"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"schedule": Step}, "function"),
        ({"validation": math.nan}, "validation"),
        ({"validation": TensorDataset(torch.zeros(4, 2))}, "pairs"),
        ({"validation": TensorDataset(torch.zeros(4, 2), torch.tensor([5, 0, 0, 1]))}, "0 … 2"),
        ({"validation": TensorDataset(torch.zeros(4, 2), torch.tensor([0, 1, 1, 5]))}, "0 … 2"),
        ({"data": TensorDataset(torch.randn(9, 2), torch.zeros(9, dtype=torch.long))}, "one class"),
        ({"data": TensorDataset(torch.randn(9, 2), torch.full((9,), 0.5))}, "integers of shape"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
    ],
)
def test_bad_input_is_refused(blobs, changes, message):
    arguments = bad(blobs, **changes)
    model, data = arguments.pop("model"), arguments.pop("data")
    with pytest.raises(NescioError, match=message):
        nescio.train(model, data, **arguments)


def test_data_in_memory_of_one_class_are_refused_before_any_step(blobs):
    model = Watched(small())
    with pytest.raises(NescioError, match="all 1000 training inputs are of one class"):
        nescio.train(model, (blobs.inputs, torch.ones(1000, dtype=torch.long)), epochs=1)
    assert not model.inputs
