"""Ensembles: members that share nothing, side by side or one after the other, to the same end."""

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nescio
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.methods import AnchoredEnsemble, Ensemble
from nescio.models import mlp
from nescio.records import History


@pytest.fixture
def few(blobs):
    return Samples(blobs.inputs[:200], blobs.labels[:200])


def nets(count, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    return [mlp(2, 3, hidden=(6,), dropout=dropout).double() for _ in range(count)]


def normed(seed=0):
    """A function that makes networks with BatchNorm."""
    torch.manual_seed(seed)
    return lambda: nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def close(one, other, rtol=1e-9):
    """Whether two networks have the same weights but for rounding."""
    for (name, a), (again, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert name == again
        torch.testing.assert_close(a, b, rtol=rtol, atol=rtol * b.abs().max().item())


RECIPES = {
    "adam": {"optimizer": "adam", "learning_rate": 0.01},
    "sgd": {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "schedule": {"optimizer": "sgd", "learning_rate": 0.2, "schedule": "one_cycle"},
}


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("how", RECIPES)
@pytest.mark.parametrize("kind", [Ensemble, AnchoredEnsemble])
def test_side_by_side_is_one_after_the_other(few, how, bootstrap, kind):
    start, models, histories = nets(3), [], []
    for stacked in (True, False):
        torch.manual_seed(4)
        models.append(kind(copy.deepcopy(start), bootstrap=bootstrap, stacked=stacked).double())
        how_to = {"epochs": 3, "batch_size": 64, "seed": 5, **RECIPES[how]}
        histories.append(nescio.train(models[-1], few, **how_to))
    assert [model.stacked for model in models] == [True, False]
    for j in range(3):
        close(models[0].member(j), models[1].member(j))
    for one, other in zip(histories[0].epochs, histories[1].epochs, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-9)
        assert one.accuracy == pytest.approx(other.accuracy)


@pytest.mark.parametrize("stacked", [True, False])
def test_each_member_trains_as_a_plain_loop_would_train_it(few, stacked):
    start = nets(3)
    model = Ensemble(copy.deepcopy(start), stacked=stacked)
    rows = [model.epoch_order(200, 7, epoch) for epoch in range(2)]
    nescio.train(model, few, epochs=2, batch_size=50, optimizer="sgd", learning_rate=0.1, seed=7)
    for j, net in enumerate(start):
        optimizer = torch.optim.SGD(net.parameters(), 0.1, 0.9)
        for order in rows:
            for index in order[j].split(50):
                optimizer.zero_grad()
                F.cross_entropy(net(few.inputs[index].double()), few.labels[index]).backward()
                optimizer.step()
        close(model.member(j), net)


@pytest.mark.parametrize("stacked", [True, False])
def test_members_do_not_hang_on_one_another(few, stacked):
    start = nets(5)
    three, five = (
        Ensemble(copy.deepcopy(start[:count]), stacked=stacked, bootstrap=True) for count in (3, 5)
    )
    for model in (three, five):
        nescio.train(model, few, epochs=2, seed=3)
    for j in range(3):
        close(three.member(j), five.member(j))


def test_orders_are_permutations_of_each_members_own():
    model = Ensemble(nets(4))
    orders = torch.cat([model.epoch_order(50, 1, epoch) for epoch in range(3)])
    assert orders.shape == (12, 50)
    assert torch.equal(orders.sort(1).values, torch.arange(50).expand(12, 50))
    assert len(orders.unique(dim=0)) == 12
    assert torch.equal(model.epoch_order(50, 1, 2), orders[8:])
    assert not torch.equal(model.epoch_order(50, 2, 2), orders[8:])


def test_a_bootstrap_is_one_sample_for_all_epochs():
    model, count = Ensemble(nets(6), bootstrap=True), 3000
    first, second = model.epoch_order(count, 1, 0), model.epoch_order(count, 1, 1)
    bags = first.sort(1).values
    assert torch.equal(second.sort(1).values, bags)
    assert not torch.equal(first, second)
    assert len(bags.unique(dim=0)) == 6
    assert not torch.equal(model.epoch_order(count, 2, 0).sort(1).values, bags)
    for bag in bags:
        assert 0 <= bag.min() <= bag.max() < count
        assert len(bag.unique()) / count == pytest.approx(1 - 1 / 2.718281828, abs=0.03)


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_loss_is_the_mean_and_each_gradient_a_members_own(stacked, dropout):
    start = nets(3, dropout)
    model = Ensemble(copy.deepcopy(start), stacked=stacked).eval()
    x, y = torch.randn(12, 2, dtype=torch.float64), torch.arange(12) % 3
    loss, logits = model.loss(x, y)
    loss.backward()
    own = [
        F.cross_entropy(net.eval()(x[4 * j : 4 * j + 4]), y[4 * j : 4 * j + 4])
        for j, net in enumerate(start)
    ]
    torch.testing.assert_close(loss, torch.stack(own).mean())
    torch.testing.assert_close(logits[4:8], start[1](x[4:8]))
    for j, net in enumerate(start):
        own[j].backward()
        for name, weight in net.named_parameters():
            found = (
                model.net.get_parameter(name).grad[j]
                if stacked
                else model.member(j).get_parameter(name).grad
            )
            torch.testing.assert_close(found, weight.grad)


@pytest.mark.parametrize("stacked", [True, False])
def test_members_drop_units_of_their_own_in_training(stacked):
    model = Ensemble(
        [nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.Flatten()) for _ in range(2)],
        stacked=stacked,
    )
    _, logits = model.train().loss(torch.ones(80, 2), torch.zeros(80, dtype=torch.long))
    assert not torch.equal(logits[:40] == 0, logits[40:] == 0)
    assert (logits == 0).float().mean().item() == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_member_is_a_row_of_what_is_predicted(stacked):
    model, x = Ensemble(nets(3), stacked=stacked), torch.randn(5, 2, dtype=torch.float64)
    rows = nescio.predict(model, x)
    for j in range(3):
        torch.testing.assert_close(nescio.predict(model.member(j), x)[0], rows[j])
    for wrong in (3, -1, 1.5):
        with pytest.raises(NescioError, match="member must be an int"):
            model.member(wrong)


def test_normalisation_goes_before_the_members():
    normalise = nescio.data.Normalise(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
    start = nets(2)
    x = torch.randn(6, 2, dtype=torch.float64)
    ready = (x - torch.tensor([1.0, 2.0])) / torch.tensor([2.0, 4.0])
    for stacked in (True, False):
        model = Ensemble(copy.deepcopy(start), stacked=stacked, normalise=normalise)
        torch.testing.assert_close(model(x), torch.stack([net(ready) for net in start]))
        want = torch.cat([start[0](ready[:3]), start[1](ready[3:])])
        torch.testing.assert_close(model.loss(x, torch.zeros(6, dtype=torch.long))[1], want)


def test_members_side_by_side_are_copies_and_others_the_networks_themselves():
    start = nets(2)
    before = copy.deepcopy(start[0])
    side_by_side = Ensemble(start)
    with torch.no_grad():
        side_by_side.net[1].weight.zero_()
    close(start[0], before, rtol=0)
    assert Ensemble(start, stacked=False).member(1) is start[1]
    side_by_side.member(0)[1].weight.data.fill_(7.0)
    assert not (side_by_side.net[1].weight == 7).any()


def test_trained_networks_become_an_ensemble(few):
    start = [mlp(2, 3, hidden=(6,)) for _ in range(3)]
    for seed, net in enumerate(start):
        nescio.train(net, few, epochs=2, seed=seed)
    want = torch.cat([nescio.predict(net, few) for net in start])
    for given in (start, tuple(start), nn.ModuleList(start)):
        model = Ensemble(given)
        assert model.members == 3
        torch.testing.assert_close(nescio.predict(model, few), want)


def test_different_architectures_make_an_ensemble_too(few):
    start = [
        mlp(2, 3, hidden=(6,)),
        mlp(2, 3, hidden=()),
        nn.Sequential(nn.Linear(2, 3), nn.Tanh()),
    ]
    model = Ensemble(start)
    assert not model.stacked
    before = [copy.deepcopy(net) for net in start]
    history = nescio.train(model, few, epochs=2)
    assert nescio.predict(model, few).shape == (3, 200, 3)
    assert all(
        not torch.equal(a[-2 if j == 2 else -1].weight, b[-2 if j == 2 else -1].weight)
        for j, (a, b) in enumerate(zip(start, before, strict=True))
    )
    assert len(history.members) == 3


class Scaled(nn.Linear):
    def __init__(self, factor, function=torch.tanh):
        super().__init__(2, 3)
        self.factor, self.function = factor, function

    def forward(self, x):
        return self.factor * self.function(super().forward(x))


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ((Scaled(1.0), Scaled(2.0)), "attributes of their Scaled modules differ"),
        ((Scaled(1.0), Scaled(1.0, torch.sin)), "attributes of their Scaled modules differ"),
        (
            [nn.Sequential(nn.Linear(2, 3), last) for last in (nn.ReLU(), nn.Tanh())],
            "architectures differ",
        ),
    ],
    ids=["numbers", "functions", "layers"],
)
def test_networks_that_differ_in_more_than_weights_are_not_run_as_one(pair, why):
    model, x = Ensemble(pair), torch.randn(4, 2)
    assert not model.stacked
    torch.testing.assert_close(model(x), torch.stack([net(x) for net in pair]))
    with pytest.raises(NescioError, match=why):
        Ensemble(pair, stacked=True)


class Features(nn.Module):
    """Random features that are no buffer."""

    def __init__(self, wrapped):
        super().__init__()
        self.of = wrapped(torch.randn(2, 6, dtype=torch.float64))
        self.out = nn.Linear(6, 3, dtype=torch.float64)

    def forward(self, x):
        features = self.of if isinstance(self.of, torch.Tensor) else next(iter(self.of))
        return self.out(torch.relu(x @ features))


@pytest.mark.parametrize(
    "wrapped", [lambda v: v, lambda v: [v], lambda v: (v,)], ids=["tensor", "list", "tuple"]
)
def test_tensors_a_module_keeps_for_itself_are_its_own(wrapped):
    members = [Features(wrapped) for _ in range(3)]
    model = Ensemble(members)
    assert not model.stacked
    x = torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(model(x), torch.stack([member(x) for member in members]))
    shared = members[0].of
    alike = [Features(lambda _, kept=shared: kept) for _ in range(3)]
    assert Ensemble(alike).stacked
    for member in alike:
        member.device, member.kinds = torch.device("cpu"), {"of": [torch.float32, np.ones(3)]}
    assert Ensemble(alike).stacked
    alike[1].kinds = {"of": [torch.float32, np.zeros(3)]}
    assert not Ensemble(alike).stacked
    alike[1].kinds = {"of": [torch.float64, np.ones(3)]}
    assert not Ensemble(alike).stacked


class Writes(nn.Module):
    """Normalises its input in place, before a linear layer."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2, 3, dtype=torch.float64)

    def forward(self, x):
        return self.out(x.sub_(0.5).div_(0.5))


@pytest.mark.parametrize("stacked", [True, False])
def test_a_member_that_writes_on_its_input_spoils_no_other(stacked):
    torch.manual_seed(0)
    members = [Writes() for _ in range(3)]
    x = torch.randn(4, 2, dtype=torch.float64)
    want = torch.stack([member(x.clone()) for member in members])
    torch.testing.assert_close(nescio.predict(Ensemble(members, stacked=stacked), x), want)


def test_a_weight_frozen_in_one_member_stays_frozen_there_alone(few):
    start = nets(2)
    start[1][1].weight.requires_grad_(False)
    model, before = Ensemble(start), copy.deepcopy(start)
    nescio.train(model, few, epochs=1)
    assert [torch.equal(model.member(j)[1].weight, before[j][1].weight) for j in range(2)] == [
        False,
        True,
    ]
    assert not torch.equal(model.member(1)[3].weight, before[1][3].weight)


class Tied(nn.Module):
    """Two layers with one weight, and two names for one buffer."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight
        self.two.bias.requires_grad_(False)
        shift = torch.randn(3)
        self.one.register_buffer("shift", shift)
        self.two.register_buffer("shift", shift)
        self.register_buffer("count", torch.randint(9, ()))
        self.register_buffer("loose", torch.randn(1), persistent=False)

    def forward(self, x):
        x = self.one(x) * self.one.shift + self.loose
        return self.two(x.relu()) + self.two.shift + self.count


def test_tied_weights_buffers_and_frozen_weights_side_by_side():
    torch.manual_seed(1)
    start = [Tied() for _ in range(3)]
    model, x, y = Ensemble(start, stacked=True), torch.randn(40, 3), torch.arange(40) % 3
    torch.testing.assert_close(model(x), torch.stack([net(x) for net in start]))
    nescio.train(model, (x, y), epochs=3, learning_rate=0.05)
    assert model.net.one.weight is model.net.two.weight
    for j, net in enumerate(start):
        member = model.member(j)
        assert member.one.weight is member.two.weight
        assert not torch.equal(member.one.weight, net.one.weight)
        assert torch.equal(member.two.bias, net.two.bias)
        assert not member.two.bias.requires_grad
        torch.testing.assert_close(member(x), model(x)[j])


class Counting(Samples):
    """Data that count how often they are asked, and are cut off after so many times."""

    asked, most = 0, 10**9

    def take(self, index):
        if self.asked == self.most:
            raise KeyboardInterrupt
        self.asked += 1
        return super().take(index)


@pytest.mark.parametrize("kind", [Ensemble, AnchoredEnsemble])
def test_a_run_cut_off_in_its_second_member_goes_on_there(few, tmp_path, kind):
    def run(checkpoint, most=10**9):
        data = Counting(few.inputs, few.labels)
        data.most = most
        model = kind(normed(), members=3)
        assert not model.stacked
        how = {
            "epochs": 2,
            "batch_size": 50,
            "seed": 5,
            "checkpoint": checkpoint,
            "checkpoint_every": 3,
        }
        return model, data, lambda: nescio.train(model, data, **how)

    whole, data, go = run(None)
    history, asked = go(), data.asked
    path = tmp_path / "run.safetensors"
    with pytest.raises(KeyboardInterrupt):
        run(path, most=asked // 3 + 6)[2]()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "run.member0.safetensors",
        "run.member1.safetensors",
    ]
    first = (tmp_path / "run.member0.safetensors").read_bytes()
    resumed, data, go = run(path)
    again = go()
    assert (
        data.asked <= asked - 8 - 3
    )  # neither the first member's steps, nor the first three of the second
    assert (tmp_path / "run.member0.safetensors").read_bytes() == first
    assert (tmp_path / "run.member2.safetensors").exists()
    assert all(
        torch.equal(resumed.state_dict()[name], value) for name, value in whole.state_dict().items()
    )
    for one, other in zip(history.members, again.members, strict=True):
        assert [epoch.loss for epoch in one.epochs] == [epoch.loss for epoch in other.epochs]


@pytest.mark.parametrize("kind", [Ensemble, AnchoredEnsemble])
def test_a_checkpoint_of_another_run_is_refused_by_members_too(few, tmp_path, kind):
    how = {"epochs": 1, "batch_size": 100}
    nescio.train(kind(normed(), members=2), few, checkpoint=tmp_path / "two", **how)
    with pytest.raises(NescioError, match="members=2, not 3"):
        nescio.train(kind(normed(), members=3), few, checkpoint=tmp_path / "two", **how)
    with pytest.raises(NescioError, match="trained member by member"):
        nescio.train(normed()(), few, checkpoint=tmp_path / "two", **how)
    nescio.train(normed()(), few, checkpoint=tmp_path / "one", **how)
    with pytest.raises(NescioError, match="trained as one"):
        nescio.train(kind(normed(), members=2), few, checkpoint=tmp_path / "one", **how)


def test_a_resumed_member_gets_the_anchors_of_its_checkpoint_back(few, tmp_path):
    how = {"epochs": 1, "batch_size": 100, "checkpoint": tmp_path / "run"}
    first = AnchoredEnsemble(normed(), members=2)
    nescio.train(first, few, **how)
    again = AnchoredEnsemble(normed(seed=9), members=2)
    nescio.train(again, few, **how)
    assert all(torch.equal(value, again.anchors()[name]) for name, value in first.anchors().items())


def test_members_trained_one_after_the_other_each_have_a_history(few):
    model = Ensemble(normed(), members=3)
    history = nescio.train(model, few, epochs=3, batch_size=50, validation=0.25, seed=2)
    assert (history.method, history.steps, len(history.members)) == ("ensemble", 27, 3)
    for i, epoch in enumerate(history.epochs):
        own = [member.epochs[i] for member in history.members]
        for name in ("loss", "accuracy", "validation_loss", "validation_accuracy", "learning_rate"):
            assert getattr(epoch, name) == pytest.approx(sum(getattr(one, name) for one in own) / 3)
        assert epoch.epoch == i + 1
        assert epoch.seconds == pytest.approx(sum(one.seconds for one in own))
    assert len({member.epochs[0].loss for member in history.members}) == 3
    assert len({member.provenance.seed for member in history.members}) == 3
    assert history.provenance.seed == history.provenance.settings["seed"] == 2
    assert History.from_json(history.to_json()) == history


def test_members_may_stop_at_different_epochs(few):
    model = Ensemble(normed(), members=3)
    how = {"epochs": 40, "batch_size": 20, "learning_rate": 0.3, "validation": 0.3, "patience": 2}
    history = nescio.train(model, few, **how)
    lengths = [len(member.epochs) for member in history.members]
    assert len(set(lengths)) > 1
    assert len(history.epochs) == max(lengths)
    assert history.stopped_early
    longest = [member for member in history.members if len(member.epochs) == max(lengths)]
    assert history.epochs[-1].loss == pytest.approx(
        sum(member.epochs[-1].loss for member in longest) / len(longest)
    )


def test_side_by_side_has_one_history(few):
    history = nescio.train(Ensemble(nets(3)), few, epochs=2, batch_size=50)
    assert (history.members, history.steps, len(history.epochs)) == ((), 8, 2)


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("kind", [Ensemble, AnchoredEnsemble])
def test_survives_saving(stacked, kind, tmp_path):
    model = kind(lambda: mlp(2, 3, hidden=(6,)), members=3, stacked=stacked, bootstrap=True)
    nescio.save(model, tmp_path / "m")
    again = nescio.load(tmp_path / "m")
    assert type(again) is kind
    assert again.settings() == model.settings()
    assert again.stacked == stacked
    x = torch.randn(7, 2)
    assert torch.equal(nescio.predict(again, x), nescio.predict(model, x))
    assert all(
        torch.equal(again.state_dict()[name], value) for name, value in model.state_dict().items()
    )
    nescio.save(again.member(1), tmp_path / "one")
    torch.testing.assert_close(
        nescio.predict(nescio.load(tmp_path / "one"), x)[0], nescio.predict(model, x)[1]
    )
    nescio.train(again, (x, torch.arange(7) % 3), epochs=1)  # and can be trained on


@pytest.mark.parametrize(
    "change",
    [
        {"members": 10**9},
        {"members": 300},
        {"members": 0},
        {"members": "2"},
        {"stacked": 1},
        {"bootstrap": None},
        {"width": 3},
    ],
    ids=str,
)
def test_tampered_files_are_refused(tmp_path, change):
    nescio.save(Ensemble(lambda: mlp(2, 3, hidden=(6,)), members=2), tmp_path / "m")
    tensors, about = read_tensors(tmp_path / "m", "model")
    about["plan"]["settings"].update(change)
    write_tensors(tmp_path / "m", "model", tensors, about)
    with pytest.raises(NescioError):
        nescio.load(tmp_path / "m")


def test_networks_of_different_recipes_cannot_be_saved(tmp_path):
    with pytest.raises(NescioError, match="cannot be made again"):
        nescio.save(Ensemble([mlp(2, 3, hidden=(6,)), mlp(2, 3, hidden=())]), tmp_path / "m")


def copied(net):
    return [net, copy.deepcopy(net)]


def sharing():
    body = nn.Linear(2, 4)
    return [nn.Sequential(body, nn.Linear(4, 3)) for _ in range(2)]


@pytest.mark.parametrize(
    ("make", "more", "message"),
    [
        (mlp(2, 3), {}, "from a function that makes a network"),
        (None, {}, "from a function that makes a network.*NoneType"),
        (3, {}, "from a function that makes a network.*int"),
        ([], {}, "needs at least one network"),
        (lambda: 3, {}, "Module, got a int"),
        ([mlp(2, 3), 3], {}, "Module, got a int"),
        (itertools.cycle([mlp(2, 3)]).__next__, {}, "member 1 has the weights of an earlier one"),
        ([mlp(2, 3)] * 2, {}, "member 1 has the weights of an earlier one"),
        (copied(mlp(2, 3)), {}, "member 1 has the weights of an earlier one"),
        (sharing(), {}, "member 1 has the weights of an earlier one"),
        (nets(2), {"members": 3}, "2 networks were given for 3 members"),
        (mlp, {"members": 0}, "members must be an int ≥ 1"),
        (mlp, {"members": 10**9}, "members must be an int"),
        (mlp, {"members": 2.5}, "members must be an int"),
        (mlp, {"members": True}, "members must be an int"),
        (mlp, {"bootstrap": 1}, "bootstrap must be True or False, got 1"),
        (mlp, {"stacked": "yes"}, "stacked must be True, False.*'yes'"),
        (normed(), {"stacked": True}, "BatchNorm1d keeps batch statistics"),
        (
            lambda: nn.Sequential(
                nn.Conv1d(2, 2, 1), nn.InstanceNorm1d(2, track_running_stats=True)
            ),
            {"stacked": True},
            "InstanceNorm1d keeps batch statistics",
        ),
    ],
)
def test_what_makes_no_ensemble_is_refused(make, more, message):
    with pytest.raises(NescioError, match=message):
        Ensemble(make, **more)


def test_normalisation_without_statistics_lives_side_by_side():
    def make():
        return nn.Sequential(
            nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)
        )

    torch.manual_seed(0)
    start = [make() for _ in range(3)]
    model, x = Ensemble(start), torch.randn(9, 2)
    assert model.stacked
    torch.testing.assert_close(model(x), torch.stack([net(x) for net in start]))


def test_five_members_by_default():
    assert Ensemble(lambda: mlp(2, 3)).members == 5


def test_a_batch_that_cannot_be_divided_is_an_error():
    with pytest.raises(
        NescioError, match="each of 3 members, one after the other, but 7 inputs cannot be divided"
    ):
        Ensemble(nets(3)).loss(
            torch.zeros(7, 2, dtype=torch.float64), torch.zeros(7, dtype=torch.long)
        )
