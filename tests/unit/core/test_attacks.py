"""Attacks: closed forms on linear models, exact balls and boxes, models left as found."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nescio
from nescio.core.attacks import ATTACKS, Attack, ascend, attack
from nescio.errors import NescioError
from nescio.methods import DUQ, MCDropout, Softmax
from nescio.models import mlp

BOTH = pytest.mark.parametrize("norm", ["linf", "l2"])
ADAPTIVE = pytest.mark.parametrize("adaptive", [False, True])


def two_class(slope):
    """A linear model of two classes whose log-odds are `slope · x`."""
    net = nn.Linear(len(slope), 2, bias=False).double()
    net.weight.data = torch.stack([torch.zeros_like(slope), slope])
    return net


@pytest.fixture
def slope(seed):
    return torch.randn(8, generator=torch.Generator().manual_seed(seed + 1)).double()


@pytest.fixture
def x(seed):
    return torch.rand(60, 8, generator=torch.Generator().manual_seed(seed)).double()


@BOTH
@ADAPTIVE
def test_the_loss_of_a_linear_model_is_raised_to_its_maximum(x, slope, norm, adaptive):
    y = torch.arange(60) % 2
    how = Attack("loss", eps=0.25, steps=80, step_size=0.02, norm=norm, adaptive=adaptive)
    found = attack(two_class(slope), (x, y), how, box=None)
    dual = slope.abs().sum() if norm == "linf" else slope.norm()
    odds = (1 - 2 * y) * (x @ slope) + 0.25 * dual  # of the other class
    torch.testing.assert_close(
        found.objective, torch.nn.functional.softplus(odds), rtol=1e-4, atol=1e-5
    )


@BOTH
def test_the_confidence_of_a_linear_model_is_raised_to_its_maximum(x, slope, norm):
    how = Attack(eps=0.25, steps=30, step_size=0.04, norm=norm, restarts=12)
    found = attack(two_class(slope), x, how, box=None)
    dual = slope.abs().sum() if norm == "linf" else slope.norm()
    # uphill on either side; a start near the boundary may choose the lower one; restarts mend that
    odds = (x @ slope).abs() + 0.25 * dual
    torch.testing.assert_close(
        found.objective, -torch.nn.functional.softplus(-odds), rtol=1e-3, atol=1e-5
    )


def test_the_confidence_of_a_linear_model_is_lowered_to_a_half(x, slope):
    how = Attack("doubt", eps=2.0, steps=300, step_size=0.05, adaptive=True)
    found = attack(two_class(slope), x, how, box=None)
    torch.testing.assert_close(
        found.objective, torch.full((60,), math.log(2)).double(), rtol=1e-4, atol=0
    )


def test_the_box_counts(x, slope):
    how = Attack("loss", eps=0.5, steps=100, step_size=0.01, random_start=False)
    found = attack(two_class(slope), (x, torch.zeros(60).long()), how)
    corner = torch.where(slope > 0, (x + 0.5).clamp(max=1), (x - 0.5).clamp(min=0))
    torch.testing.assert_close(found.inputs, corner, rtol=0, atol=1e-12)


@given(
    eps=st.floats(0, 2),
    step=st.floats(0, 1),
    steps=st.integers(0, 6),
    norm=st.sampled_from(["linf", "l2"]),
    objective=st.sampled_from(["confidence", "doubt", "loss"]),
    adaptive=st.booleans(),
    start=st.booleans(),
    double=st.booleans(),
    shift=st.sampled_from([0.0, 1e-3, 5.0, 1e4]),
    seed=st.integers(0, 100),
)
@settings(max_examples=120, deadline=None)
def test_never_outside_ball_or_box_and_never_worse(
    eps, step, steps, norm, objective, adaptive, start, double, shift, seed
):
    g = torch.Generator().manual_seed(seed)
    kind = torch.float64 if double else torch.float32
    x = (torch.rand(9, 2, 3, generator=g) + shift).to(kind)
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).to(kind)
    how = Attack(
        objective, eps, steps, step, norm, random_start=start, restarts=2, adaptive=adaptive
    )
    data = (x, torch.arange(9) % 3) if objective == "loss" else x
    found = attack(net, data, how, box=(shift, shift + 1 + 1e-3), seed=seed)
    away = (found.inputs.double() - x.double()).flatten(1)
    lengths = away.abs().amax(1) if norm == "linf" else away.norm(dim=1)
    assert (lengths <= eps).all()
    assert found.inputs.min() >= shift
    assert found.inputs.max() <= torch.tensor(shift + 1 + 1e-3, dtype=kind)
    assert (found.objective >= found.before).all()


@BOTH
@ADAPTIVE
def test_more_steps_never_do_worse(x, norm, adaptive, seed):
    torch.manual_seed(seed)
    net = mlp(8, 4, hidden=(30, 30)).double()
    values = [
        attack(
            net,
            x,
            Attack(eps=0.4, steps=steps, step_size=0.05, norm=norm, adaptive=adaptive),
            seed=seed,
        ).objective
        for steps in (0, 1, 3, 10, 30)
    ]
    assert all((later >= sooner).all() for sooner, later in pairwise(values))
    assert values[-1].mean() > values[0].mean()


def test_the_objective_is_what_the_model_says_there(x, seed):
    torch.manual_seed(seed)
    net = mlp(8, 4, hidden=(30,)).double()
    y = torch.arange(60) % 4
    for objective in ("confidence", "doubt", "loss"):
        found = attack(net, (x, y), Attack(objective, steps=5))
        for inputs, value in ((x, found.before), (found.inputs, found.objective)):
            log_p = nescio.predict(net, inputs)[0].log_softmax(-1)
            own = {
                "confidence": log_p.amax(1),
                "doubt": -log_p.amax(1),
                "loss": -log_p[torch.arange(60), y],
            }
            torch.testing.assert_close(value, own[objective])


def test_ball_and_box_together_in_the_euclidean_norm(x, slope, seed):
    """A linear model's optimum by its conditions: along the slope where the box does not cut it."""
    how = Attack("loss", eps=0.5, steps=100, step_size=0.5, norm="l2")
    found = attack(two_class(slope), (x, torch.zeros(60).long()), how, seed=seed).inputs
    for start, end in zip(x, found, strict=True):

        def moved(t, start=start):
            return (start + t * slope).clamp(0, 1) - start

        low, high = 0.0, 1e3
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if moved(middle).norm() <= 0.5 else (low, middle)
        assert (end @ slope).item() == pytest.approx(
            ((start + moved(low)) @ slope).item(), abs=1e-6
        )


def test_an_edge_of_the_box_that_is_no_float_is_not_passed():
    x = torch.full((4, 8), 0.15)
    found = attack(
        nn.Linear(8, 2), x, Attack(eps=1.0, steps=20, step_size=0.1), box=(0.1, 0.3)
    ).inputs.double()
    assert found.min() >= 0.1
    assert found.max() <= 0.3
    assert found.max() > 0.2999999


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_a_scripted_model_is_attacked_and_left_as_found(x, seed):
    torch.manual_seed(seed)
    net = torch.jit.script(nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)))
    net[0].weight.grad = torch.ones(5, 8)
    found = attack(net, x.float(), Attack(steps=5, step_size=0.05))
    assert (found.objective >= found.before).all()
    assert torch.equal(net[0].weight.grad, torch.ones(5, 8))
    assert net.training
    assert net[1].num_batches_tracked == 0


def test_a_scale_stretches_ball_and_steps(slope):
    x, scale = torch.zeros(5, 8).double(), torch.linspace(0.1, 10, 8).double()
    how = Attack("loss", eps=1.0, steps=30, step_size=0.1, random_start=False)
    found = attack(two_class(slope), (x, torch.zeros(5).long()), how, box=None, scale=scale)
    torch.testing.assert_close(found.inputs, (scale * slope.sign()).expand(5, 8))
    how = Attack("loss", eps=1.0, steps=30, step_size=0.1, norm="l2", random_start=False)
    found = attack(two_class(slope), (x, torch.zeros(5).long()), how, box=None, scale=scale)
    best = scale * (scale * slope) / (scale * slope).norm()
    torch.testing.assert_close(found.inputs, best.expand(5, 8), rtol=1e-5, atol=1e-6)


def test_batches_of_any_size_give_the_same(x, seed):
    torch.manual_seed(seed)
    net = mlp(8, 4, hidden=(30,)).double()
    how = Attack(steps=10, step_size=0.05, restarts=3)
    whole, pieces = (attack(net, x, how, batch_size=size).inputs for size in (60, 7))
    torch.testing.assert_close(whole, pieces)


def test_what_is_at_the_bound_is_left_alone():
    calls = []

    def certain(x, y):
        calls.append(len(x))
        return torch.minimum(x.sum(1), torch.zeros(len(x)))

    x = torch.cat([torch.full((90, 2), 0.0), torch.full((10, 2), -1.0)])
    found = ascend(
        certain, x, None, Attack(eps=10.0, steps=8, step_size=0.25, random_start=False), bound=0.0
    )
    assert torch.equal(found.inputs[:90], x[:90])
    assert calls == [
        100,
        100,
        10,
        10,
        10,
        10,
    ]  # the others reach the bound with their fourth step, and all is done
    assert (found.objective == 0).all()


def test_what_cannot_move_is_left_alone():
    calls = []

    def linear(x, y):
        calls.append(len(x))
        return x.sum(1)

    ascend(
        linear,
        torch.zeros(20, 2),
        None,
        Attack("loss", eps=0.3, steps=50, step_size=0.1, random_start=False),
    )
    assert len(calls) < 8  # three steps to the edge


def test_the_same_seed_gives_the_same_and_another_another(x, seed):
    net = two_class(torch.ones(8).double())
    how = Attack(steps=0)  # the random start alone
    first, again, other = (attack(net, x, how, seed=s).inputs for s in (seed, seed, seed + 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_only_the_gradient_in_the_input_is_computed_and_the_model_is_left_as_found(x, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3)
    )
    net[0].weight.requires_grad_(False)
    net[0].bias.grad = torch.ones(6)
    flags, seen = [], []
    net[4].register_forward_hook(
        lambda module, *_: flags.append((net.training, module.weight.requires_grad))
    )
    before = {key: value.clone() for key, value in net.state_dict().items()}
    state = torch.get_rng_state()
    attack(net, x.float(), Attack(steps=3), seed=seed)
    seen = [parameter.requires_grad for parameter in net.parameters()]
    assert set(flags) == {(False, False)}
    assert seen == [False, True, True, True, True, True]
    assert net.training
    assert torch.equal(net[0].bias.grad, torch.ones(6))
    assert net[4].weight.grad is None
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_method_says_what_its_confidence_is(x, seed):
    torch.manual_seed(seed)
    model = DUQ(mlp(8, hidden=(20,)), classes=3)
    found = attack(model, x.float(), Attack(steps=20, step_size=0.02))
    after = model.confidence(nescio.predict(model, found.inputs))
    assert (after >= model.confidence(nescio.predict(model, x.float()))).all()
    torch.testing.assert_close(found.objective.exp().double(), after, rtol=1e-4, atol=1e-6)


def test_a_model_that_draws_is_one_function(x, seed):
    torch.manual_seed(seed)
    model = MCDropout(mlp(8, 3, hidden=(20,), dropout=0.5), samples=5)
    found = attack(model, x.float(), Attack(steps=20, step_size=0.02), seed=3)
    after = model.confidence(nescio.predict(model, found.inputs, seed=3))
    torch.testing.assert_close(found.objective.exp().double(), after, rtol=1e-4, atol=1e-6)


def test_a_network_and_its_method_are_attacked_alike(x, seed):
    torch.manual_seed(seed)
    net = mlp(8, 3, hidden=(20,)).double()
    how = Attack(steps=5)
    assert torch.equal(attack(net, x, how).inputs, attack(Softmax(net), x, how).inputs)


def test_the_papers_settings():
    assert (ATTACKS["training"].steps, ATTACKS["training"].step_size, ATTACKS["training"].eps) == (
        40,
        0.0075,
        0.3,
    )
    assert ATTACKS["adversarial_noise"] == Attack("confidence", 0.3, 200, 0.0075)
    assert ATTACKS["adversarial_samples"] == Attack("loss", 0.3, 80, 0.0075)
    assert ATTACKS["adversarial_samples_in_colour"] == Attack("loss", 0.1, 80, 0.0025)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"eps": -0.1}, "eps"),
        ({"steps": -1}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"step_size": -1.0}, "step_size"),
        ({"restarts": 0}, "restarts"),
        ({"norm": "l1"}, "norm"),
        ({"objective": "confidnce"}, "did you mean"),
        ({"eps": float("nan")}, "eps"),
        ({"eps": 1e99}, "eps"),
        ({"step_size": 1e99}, "step_size"),
    ],
)
def test_what_no_attack_can_be(how, what):
    with pytest.raises(NescioError, match=what):
        Attack(**how)


def test_bad_input_is_reported(x):
    net = nn.Linear(8, 3).double()
    with pytest.raises(NescioError, match=r"60 of 60 inputs lie outside the box \[0, 1\]"):
        attack(net, x + 2)
    for box in ((1.0, 0.0), ("0", "1"), 1.0, (0.0, math.nan)):
        with pytest.raises(NescioError, match="box must be a pair"):
            attack(net, x, box=box)
    with pytest.raises(NescioError, match="scale must be a tensor"):
        attack(net, x, scale="a")
    with pytest.raises(NescioError, match=r"torch\.inference_mode"), torch.inference_mode():
        attack(net, x)
    with pytest.raises(NescioError, match="must be floats"):
        attack(
            nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 2)),
            torch.zeros(4, 3).long(),
        )
    with pytest.raises(NescioError, match="labels"):
        attack(net, x, Attack("loss"))
    with pytest.raises(NescioError, match="labels must lie in 0"):
        attack(net, (x, torch.full((60,), 3)), Attack("loss"))
    with pytest.raises(NescioError, match="input 4 holds NaN"):
        attack(net, x.index_fill(0, torch.tensor([4]), math.nan))
    with pytest.raises(NescioError, match="did you mean 'training'"):
        attack(net, x, "trainig")
    with pytest.raises(NescioError, match=r"nescio\.attacks\.Attack"):
        attack(net, x, 40)
    with pytest.raises(NescioError, match="scale"):
        attack(net, x, scale=torch.ones(3))
    with pytest.raises(NescioError, match="above 0"):
        attack(net, x, scale=torch.zeros(8))
    with pytest.raises(NescioError, match="empty"):
        attack(net, x[:0])


def test_a_gradient_that_is_no_number_is_reported(x):
    class Root(nn.Module):
        def forward(self, x):
            return torch.stack(
                [x[:, 0].sub(x[:, 0]).sqrt(), x[:, 1]], 1
            )  # √0, whose slope is infinite

    class Detached(nn.Module):
        def forward(self, x):
            return x[:, :3].detach()

    with pytest.raises(NescioError, match=r"NaN or infinite for \d+ of 60 inputs"):
        attack(Root(), x, Attack(random_start=False))
    with pytest.raises(NescioError, match="differentiated in its input"):
        attack(Detached(), x)
