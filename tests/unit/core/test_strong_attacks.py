"""The strongest attack: closed forms, dead features, and an attacker that shares no code."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio.core.attacks import ATTACKS, Attack, ascend, attack
from nescio.data import noise
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import adversarial_set
from nescio.methods import ACET, DUQ
from nescio.models import mlp

STRONG = ATTACKS["adversarial_noise"].strengthened()


def two_class(slope):
    """A linear model of two classes whose log-odds are `slope · x`."""
    net = nn.Linear(len(slope), 2, bias=False).double()
    net.weight.data = torch.stack([torch.zeros_like(slope), slope])
    return net


def mostly_dead(threshold=8.64, inputs=16):
    """Log-odds `10 relu(Σ x − threshold)`: with no gradient but where the sum is large."""
    net = nn.Sequential(nn.Linear(inputs, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.fill_(-threshold)
        net[2].weight.copy_(torch.tensor([[0.0], [10.0]]))
        net[2].bias.zero_()
    return net


@pytest.fixture
def x(seed):
    return torch.rand(40, 8, generator=torch.Generator().manual_seed(seed)).double()


@pytest.fixture
def slope(seed):
    return torch.randn(8, generator=torch.Generator().manual_seed(seed + 1)).double()


def test_the_corner_of_ball_and_box_is_reached_exactly(x, slope):
    how = replace(Attack("loss", eps=0.5).strengthened(), steps=5)
    found = attack(two_class(slope), (x, torch.zeros(40).long()), how)
    corner = torch.where(slope > 0, (x + 0.5).clamp(max=1), (x - 0.5).clamp(min=0))
    torch.testing.assert_close(found.inputs, corner, rtol=0, atol=1e-12)


def test_an_ascent_to_each_class_finds_the_higher_hill(x, slope):
    """From near the boundary a single ascent may climb the lower one."""
    how = Attack(eps=0.25, steps=30, step_size=0.5, adaptive=True)
    odds = (x @ slope).abs() + 0.25 * slope.abs().sum()
    most = -torch.nn.functional.softplus(-odds)
    one = attack(two_class(slope), x, how, box=None).objective
    assert (one < most - 1e-3).any()
    how = Attack(eps=0.25, steps=30, step_size=0.5, adaptive=True, targets=2)
    found = attack(two_class(slope), x, how, box=None).objective
    torch.testing.assert_close(found, most, rtol=0, atol=1e-9)


def test_confidence_that_rounds_to_one_is_raised_on(x):
    """At log-odds of 100 and above, neither log p nor its gradient differs from 0 in float32."""
    net, slope = two_class(torch.full((8,), 100.0).double()).float(), torch.full((8,), 100.0)
    far = (x.float() / 2 + 0.5) @ slope
    assert (far > 100).all()
    start = x.float() / 2 + 0.5
    how = Attack(eps=0.1, steps=20, step_size=0.2, adaptive=True, random_start=False)
    found = attack(net, start, how).inputs
    torch.testing.assert_close(found, (start + 0.1).clamp(max=1))
    assert torch.equal(attack(net, start, Attack(eps=0.1, steps=20)).inputs, start)


def test_a_known_start_wakes_dead_features():
    """Constant steps find nothing, for there is no gradient; the optimum is at the corner."""
    start, known = torch.full((5, 16), 0.3).double(), torch.ones(3, 16).double()
    net = mostly_dead()
    plain = attack(net, start, Attack(steps=200), known=known)
    assert torch.equal(plain.objective, plain.before)
    found = attack(net, start, replace(STRONG, steps=10), known=known)
    most = torch.sigmoid(torch.tensor(10 * (16 * 0.6 - 8.64)).double()).log()
    torch.testing.assert_close(found.objective, most.expand(5), rtol=0, atol=1e-9)
    torch.testing.assert_close(found.inputs, torch.full((5, 16), 0.6).double())


def test_an_input_without_gradient_moves_at_random_until_it_has_one():
    """Of one feature half of the ball is dead, and so is the start."""
    start, net = torch.full((6, 1), 0.3).double(), mostly_dead(0.45, 1)
    how = Attack(steps=40, step_size=0.6, random_start=False)
    plain = attack(net, start, how)
    assert torch.equal(plain.inputs, start)
    found = attack(net, start, Attack(steps=40, step_size=0.6, random_start=False, adaptive=True))
    torch.testing.assert_close(found.inputs, torch.full((6, 1), 0.6).double())


def test_which_known_inputs_are_tried_comes_from_the_seed(x, seed):
    """A ball of no size but around one known input: only that one is found."""
    chosen = []

    def seen(x, y):
        chosen.append(x[0].clone())
        return x.sum(1)

    known = torch.arange(20).double()[:, None].expand(20, 8) / 20
    how = Attack(eps=2.0, steps=0, random_start=False, known_starts=7)
    ascend(seen, x, None, how, known=known)
    tried = {float(row[0]) for row in chosen} & set(known[:, 0].tolist())
    assert len(tried) == 7


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("objective", ["confidence", "loss", "doubt"])
def test_within_ball_and_box_and_better_than_constant_steps(x, norm, objective, seed):
    torch.manual_seed(seed)
    net, y = mlp(8, 5, hidden=(30,)).double(), torch.arange(40) % 5
    how = replace(Attack(objective, norm=norm).strengthened(), steps=20, known_starts=5)
    found = attack(net, data := (x, y), how, known=x.flip(0), seed=seed)
    away = found.inputs - x
    lengths = away.abs().amax(1) if norm == "linf" else away.norm(dim=1)
    assert (lengths <= 0.3).all()
    assert 0 <= found.inputs.min() <= found.inputs.max() <= 1
    assert (found.objective >= found.before).all()
    plain = attack(net, data, Attack(objective, steps=20, step_size=0.02, norm=norm), seed=seed)
    assert objective == "doubt" or found.objective.mean() > plain.objective.mean()


def test_batches_of_any_size_have_the_same_starts_and_moves(x, seed):
    torch.manual_seed(seed)
    net = mlp(8, 5, hidden=(30,)).double()
    how = replace(STRONG, steps=3, known_starts=5)
    whole, pieces = (
        attack(net, x, how, known=x.flip(0), batch_size=size, seed=seed) for size in (40, 7)
    )
    torch.testing.assert_close(whole.inputs, pieces.inputs)


def test_a_kernel_method_is_led_to_its_centroids(x, seed):
    torch.manual_seed(seed)
    model = DUQ(mlp(8, hidden=(20,)), classes=3).double()
    how = replace(STRONG, steps=30, known_starts=5)
    found = attack(model, x, how, known=x.flip(0))
    after = model.confidence(nescio.predict(model, found.inputs))
    torch.testing.assert_close(found.objective.exp(), after, rtol=1e-6, atol=1e-9)
    plain = attack(model, x, Attack(steps=30, step_size=0.02))
    assert found.objective.mean() > plain.objective.mean()


def independent(model, x, known, eps, steps=150):
    """A simple attacker: to every class, from the five nearest known inputs, with momentum."""
    low, high = (x - eps).clamp(min=0), (x + eps).clamp(max=1)
    best = torch.full((len(x),), -math.inf, dtype=x.dtype)
    near = torch.cdist(x.flatten(1), known.flatten(1)).topk(5, 1, largest=False).indices
    for index in near.T:
        for target in range(10):
            point = known[index].clamp(low, high)
            velocity, size = torch.zeros_like(x), eps / 2
            for step in range(steps):
                point = point.detach().requires_grad_()
                logits = model(point)
                margin = logits[:, target] - logits.index_fill(
                    1, torch.tensor([target]), -math.inf
                ).logsumexp(1)
                top = logits.topk(2, 1).values
                confidence = logits.log_softmax(1).amax(1)
                best = torch.maximum(best, confidence.detach())
                assert (top[:, 0] >= top[:, 1]).all()
                (gradient,) = torch.autograd.grad(margin.sum(), point)
                scale = gradient.flatten(1).abs().mean(1).clamp(min=1e-30).view(-1, 1, 1, 1)
                velocity = 0.7 * velocity + gradient / scale
                point = (point + size * (1 - step / steps) * velocity.sign()).clamp(low, high)
    return best


@pytest.fixture(scope="module")
def acet():
    digits = nescio.data.load("digits")
    torch.manual_seed(0)
    model = ACET(mlp(64, 10, hidden=(50,)), steps=5, normalise=digits.normalise)
    nescio.train(model, digits.train, epochs=5, batch_size=64, seed=0)
    return model.eval(), digits


@pytest.mark.slow
def test_an_independent_attacker_finds_hardly_anything_more(acet, seed):
    model, digits = acet
    x = noise.samples("mixed", digits.test, seed=seed).inputs[:60]
    known = digits.train.take(slice(None))[0]
    ours = attack(model, x, STRONG, known=known, seed=seed).objective
    theirs = independent(model, x, known, 0.3)
    paper = attack(model, x, "adversarial_noise", seed=seed).objective
    assert (theirs - ours).mean() < 0.01
    assert (theirs - ours).max() < 0.3
    assert ours.mean() > paper.mean() + 0.05  # there is something to be found


def test_the_strongest_attack_is_usual_and_the_papers_at_hand(acet):
    model, digits = acet
    strong, paper = (
        adversarial_set(name, model, digits.test, 40)
        for name in ("adversarial_noise", "adversarial_noise_paper")
    )
    assert (strong.how, paper.how) == (STRONG, ATTACKS["adversarial_noise"])
    assert torch.equal(strong.started_from, paper.started_from)
    surer = [model.confidence(nescio.predict(model, one.samples)).mean() for one in (strong, paper)]
    assert surer[0] > surer[1] + 0.05


def test_acet_starts_its_search_from_the_batch(seed):
    """Where the network has no gradient around noise, known inputs lead to what is certain."""
    torch.manual_seed(seed)
    x = torch.cat([torch.full((4, 16), 0.1), torch.ones(4, 16)]).double()
    net, made = mostly_dead(), torch.full((8, 16), 0.3).double()
    searches = (ACET(net, lambda _: made, steps=5, known_starts=k) for k in (0, 8))
    without, with_known = (one.outliers(x) for one in searches)
    assert (net(without).softmax(1).amax(1) == 0.5).all()
    torch.testing.assert_close(with_known, torch.full((8, 16), 0.6).double())
    # as of a checkpoint from before there were known starts, which is resumed
    assert ACET(net).settings()["known_starts"] is None


def test_bad_input_is_reported(x):
    net = nn.Linear(8, 3).double()
    for how in ({"targets": -1}, {"known_starts": 1.5}):
        with pytest.raises(NescioError, match=next(iter(how))):
            Attack(**how)
    with pytest.raises(NescioError, match="no target"):
        Attack("doubt", targets=1)
    with pytest.raises(NescioError, match="known must be a tensor"):
        attack(net, x, STRONG, known=[1, 2])
    with pytest.raises(NescioError, match="known inputs have the shape"):
        attack(net, x, STRONG, known=x[:, :3])
    with pytest.raises(NescioError, match="known_starts must be an int ≥ 0"):
        ACET(net, known_starts=-1)
