"""Theorem 1 of *Know your limits*: far out along a monotone feature no model is unsure.

The lemmas speak of single functions p_θ, so a feature counts as monotone if it is so in every draw.
"""

import math

import pytest
import torch
from torch import nn

import nescio
from nescio.audit import asymptote, local_affine, monotone, scaling
from nescio.core.input_gradients import quantity_gradients
from nescio.core.logits import log_probs
from nescio.data import Normalise
from nescio.methods import METHODS
from nescio.models import mlp
from nescio.scores import SCORES, natural
from small_nets import linear

SETTINGS = {
    "softmax": {},
    "mc_dropout": {"samples": 5},
    "bayes_by_backprop": {"samples": 5},
    "ensemble": {"members": 5},
    "anchored": {"members": 5},
}
FOUR = ("max_prob", "variance", "entropy", "mutual_information")


class Draw(nn.Module):
    """One of the functions that a model draws."""

    def __init__(self, model, number):
        super().__init__()
        self.model, self.number = model, number

    def forward(self, x):
        logits = self.model(x)
        return logits if logits.dim() == 2 else logits[self.number]


@pytest.fixture(scope="module")
def patients():
    """Three measurements, each of which raises a risk or lowers it."""
    generator = torch.Generator().manual_seed(0)
    x = 0.5 + 2 * torch.rand(600, 3, generator=generator)
    risk = x @ torch.tensor([1.0, -0.7, 0.5]) + 0.15 * torch.randn(600, generator=generator)
    return x, (risk > 1.2).long()


@pytest.fixture(scope="module", params=SETTINGS)
def model(request, patients):
    x, y = patients
    name = request.param
    torch.manual_seed(0)
    model = METHODS[name].from_factory(
        lambda: mlp(3, 2, hidden=(16, 16), dropout=0.1 if name == "mc_dropout" else 0.0),
        Normalise(x.mean(0), x.std(0)),
        **SETTINGS[name],
    )
    nescio.train(model, (x, y), epochs=40, batch_size=64)
    return model.double()


@pytest.fixture(scope="module")
def features(model, patients):
    """Features in which every draw is strictly monotone, in a box open to infinity on one side."""
    x, _ = patients
    draws = len(nescio.predict(model, x[:1]))
    found = []
    for feature in range(3):
        high = x.amax(0)
        high[feature] = torch.inf
        how = {"features": [feature], "points": 2000, "batch_size": 2000}
        records = [monotone(Draw(model, number), x.amin(0), high, **how) for number in range(draws)]
        assert all(record.partially_unbounded for record in records)
        if all(record.monotone for record in records):
            found.append(feature)
    return found


@pytest.fixture(scope="module")
def record(model, patients, features):
    return scaling(model, patients[0][:100], features=features, rays=False, batch_size=2500)


def test_some_feature_is_monotone(features):
    assert features  # else what follows says nothing


def test_all_that_can_be_asked_of_the_model_is(model, record):
    assert {gauge.score for gauge in record.gauges} == set(
        FOUR if model.name != "softmax" else ("max_prob", "entropy")
    )


def test_gradients_of_all_metrics_die_away(record):
    """Lemmas 5 and 7 to 9, in the largest gradient of any input."""
    for direction in record.directions:
        for course in direction.scores:
            assert course.gradient_largest[0] > 0
            assert course.gradient_largest[-1] < 1e-6 * course.gradient_largest[0]


def test_so_do_those_of_each_input(model, patients, features, record):
    near = patients[0][:50].double()
    names = [gauge.score for gauge in record.gauges]
    for feature in features:
        far = near.clone()
        far[:, feature] *= 1e6
        steep, flat = (
            quantity_gradients(
                model,
                x,
                lambda logits: torch.stack([natural(name, SCORES[name](logits)) for name in names]),
                norms=True,
            )[1]
            for x in (near, far)
        )
        assert (flat < 1e-6 * steep).all()


def test_gradients_of_all_probabilities_die_away(model, patients, features):
    """Lemmas 4 and 6: of each draw's probabilities, and of their mean."""
    near = patients[0][:50].double()
    for feature in features:
        far = near.clone()
        far[:, feature] *= 1e6

        def probabilities(logits):
            p = logits.softmax(-1)  # (S, N, C)
            return torch.cat([p.permute(0, 2, 1).flatten(0, 1), p.mean(0).T])

        norms = [quantity_gradients(model, x, probabilities, norms=True)[1] for x in (near, far)]
        steep, flat = norms
        assert (flat.amax(1) < 1e-6 * steep.amax(1)).all()


def test_certainty_rises_to_its_limit(model, patients, features):
    """An input may cross the boundary at first; then its confidence only rises, and saturates."""
    x = patients[0][:100].double()
    for feature in features:
        factors = torch.ones(13, 3, dtype=torch.float64)
        factors[:, feature] = torch.logspace(0, 6, 13)
        confidence = torch.stack(
            [model.confidence(nescio.predict(model, factor * x)) for factor in factors]
        )
        assert (confidence[6:].diff(dim=0) > -1e-12).all()
        assert (confidence[-1] - confidence[-2]).abs().max() < 1e-9
        draws = nescio.predict(model, factors[-1] * x).softmax(-1).amax(-1)
        assert (draws > 0.999).all()  # each function is certain; their mean is where they agree
        assert (confidence[-1] > confidence[0]).double().mean() > 0.9


def test_a_logistic_regression_ends_where_it_must():
    """By hand: p = σ(m), m = (w₁ − w₀)·x + b, so that the sign of (w₁ − w₀)_d decides."""
    weight = torch.tensor([[0.3, -0.2, 0.1], [0.8, -0.9, 0.1]], dtype=torch.float64)
    net = nn.Linear(3, 2).double()
    net.load_state_dict({"weight": weight, "bias": torch.tensor([0.5, -0.5], dtype=torch.float64)})
    x = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    found = monotone(net, [0.0] * 3, [torch.inf] * 3)
    assert found.signs == ((-1, 1), (1, -1), (0, 0))
    record = scaling(net, x, rays=False)
    slope, factors = (
        (weight[1] - weight[0]).numpy(),
        torch.tensor(record.factors, dtype=torch.float64),
    )
    for direction, change in zip(record.directions, slope, strict=True):
        moved = x.expand(len(factors), 3).clone()
        moved[:, direction.feature] *= factors
        margin = moved @ torch.from_numpy(slope) - 1.0
        largest = margin.abs().sigmoid()
        torch.testing.assert_close(torch.tensor(direction.confidence, dtype=torch.float64), largest)
        course = direction.scores[
            0
        ]  # 1 − max p = σ(−|m|), whose gradient is −σ(|m|) σ(−|m|) sign(m) (w₁ − w₀)
        torch.testing.assert_close(
            torch.tensor(course.mean, dtype=torch.float64), (-margin.abs()).sigmoid()
        )
        norm = largest * (-margin.abs()).sigmoid() * float((slope**2).sum() ** 0.5)
        torch.testing.assert_close(
            torch.tensor(course.gradient_mean, dtype=torch.float64), norm, rtol=1e-7, atol=0
        )
        if change:
            assert direction.confidence[-1] == 1.0
            ends_in = nescio.predict(net, moved[-1:])[0, 0].argmax()
            assert int(ends_in) == int(change > 0)
        else:
            assert direction.certain_from is None  # a feature without a weight moves nothing


def relu_network(first, offsets, last):
    """A network with one hidden layer and no bias after it."""
    net = nn.Sequential(linear(first, offsets), nn.ReLU(), linear(last))
    return net.requires_grad_(False)


def jacobian(logits):
    """`∂p_c / ∂f_c'`, (C, C), by automatic differentiation."""
    return torch.func.jacrev(lambda f: f.softmax(0))(logits)


def test_lemma_1_holds_of_probabilities_and_not_of_logits():
    """f = (|x − 5|, |x − 5| + x) has p = (σ(−x), σ(x)): it may add anything to both."""
    net = relu_network(
        [[1.0], [-1.0], [1.0], [-1.0]], [-5.0, 5.0, 0.0, 0.0], [[1, 1, 0, 0], [1, 1, 1, -1]]
    )
    x = torch.linspace(-20, 20, 1001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        f = net(x)
    torch.testing.assert_close(f, torch.cat([(x - 5).abs(), (x - 5).abs() + x], 1))
    torch.testing.assert_close(f.softmax(1), torch.cat([-x, x], 1).sigmoid())
    found = monotone(net, [-torch.inf], [torch.inf])
    assert found.monotone
    assert found.partially_unbounded
    assert found.signs == ((-1, 1),)
    for logit in f.T:  # the first falls and rises, and the second stands still and rises
        assert (logit.diff() > 0.01).any()
        assert (logit.diff() < 1e-12).any()
    assert (f.log_softmax(1)[:, 1].diff() > 0).all()  # of these logits it holds
    assert (f.log_softmax(1)[:, 0].diff() < 0).all()
    assert ((f[:, 1] - f[:, 0]).diff() > 0).all()  # and of the difference of two


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_lemma_2_a_logit_far_from_the_others_ends_all_change(classes, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(classes, generator=generator, dtype=torch.float64)
    p = logits.softmax(0)
    closed = torch.diag(p) - torch.outer(p, p)  # p_c (1(c = c') − p_c')
    torch.testing.assert_close(jacobian(logits), closed)
    for sign in (1, -1):
        largest = []
        for t in (10.0, 20.0, 40.0, 80.0):
            logits[0] = sign * t
            largest.append(float(jacobian(logits)[0].abs().max()))
            # ahead or behind, at most e^(−gap) for each of the other classes
            nearest = logits[1:].max() - t if sign > 0 else -t - logits[1:].max()
            assert largest[-1] <= classes * math.exp(nearest) * 1.001
        assert largest == sorted(largest, reverse=True)
        assert largest[-1] < 1e-30
    both = torch.tensor([80.0, 80.0, *[0.0] * (classes - 2)], dtype=torch.float64)
    assert jacobian(both)[0, 0] == pytest.approx(0.25)  # not if two logits grow alike


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_lemma_3_goes_to_infinity_for_c_and_to_minus_infinity_for_another(classes, seed):
    """With the largest logit ahead by a gap that grows, and slopes that do not change any more."""
    torch.manual_seed(seed)
    net, x = mlp(3, classes, hidden=(16, 16)).double(), torch.randn(30, 3).double()
    way = torch.zeros_like(x)
    way[:, 0] = x[:, 0]  # scaling the first feature moves x along it
    law = asymptote(net, x, way, progress=False)
    steepest = law.slope.topk(2, 1).values
    apart = steepest[:, 0] - steepest[:, 1] > 1e-3
    assert apart.any()
    law, x, way, steepest = law.select(apart), x[apart], way[apart], steepest[apart]
    same = torch.eye(classes, dtype=torch.bool)
    before = None
    for gap in (40.0, 80.0, 160.0):
        t = torch.maximum((gap + 20) / (steepest[:, 0] - steepest[:, 1]), 1.01 * law.start + 1)
        z = law.at(t)
        log_p, log_q = log_probs(z[None])
        log_j = log_p[0][:, :, None] + log_p[0][:, None, :]  # of p_c p_c', c ≠ c'
        log_j = torch.where(same, (log_p + log_q)[0][:, :, None], log_j)
        slope = local_affine(net, x + t[:, None] * way)[0][:, None, :, 0]
        torch.testing.assert_close(slope[:, 0] * x[:, :1], law.slope, rtol=1e-8, atol=1e-10)
        value = torch.where(same, 1.0, -1.0) * (-log_j).exp() - slope  # ±∞ above 1e308
        assert (value[:, same] > math.exp(20)).all()
        assert (value[:, ~same] < -math.exp(20)).all()
        if before is not None:
            assert (log_j <= before).all()
        before = log_j


def test_lemma_4_needs_one_steepest_logit():
    """f = (x + y, x − y, 0) meets its premise for y > 0, but along x two logits grow alike."""
    net = linear([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])
    found = monotone(net, [0.0, 0.1], [torch.inf, 5.0])
    assert found.monotone
    assert found.partially_unbounded
    assert found.signs == ((1, 1, -1), (1, -1, -1))
    y = torch.tensor([0.2, 0.5, 2.0], dtype=torch.float64)
    far = torch.stack([torch.full_like(y, 1e6), y], 1)
    p, gradients = quantity_gradients(net, far, lambda logits: logits.softmax(-1)[0].T)
    limit = (2 * y).sigmoid()
    torch.testing.assert_close(p, torch.stack([limit, 1 - limit, 0 * y]))
    slope = 2 * limit * (1 - limit)
    expected = torch.stack([slope, -slope, 0 * y])
    torch.testing.assert_close(gradients, torch.stack([0 * expected, expected], -1))
    law = asymptote(net, far, torch.tensor([1.0, 0.0]), progress=False)
    assert not law.certain.any()
    torch.testing.assert_close(law.limit, p.T)


def test_lemmas_8_and_9_have_a_logarithm_without_bound_that_its_factor_outweighs():
    """`(1 + log p) ∇p`: the proofs pull the first factor out as a number, but it goes to −∞."""
    x = torch.tensor([[10.0], [100.0], [600.0]], dtype=torch.float64)
    net = linear([[0.0], [1.0]])
    log_p, norms = quantity_gradients(net, x, lambda logits: logits.log_softmax(-1)[0, :, :1].T)
    torch.testing.assert_close(log_p[0], -x[:, 0] - torch.log1p(torch.exp(-x[:, 0])))
    product = (1 + log_p[0]) * log_p[0].exp() * norms[0, :, 0]
    assert (product[1:].abs() < product[:-1].abs()).all()
    assert product[-1].abs() < 1e-250


def test_a_feature_that_is_zero_is_not_moved_by_scaling():
    """Lemmas 4 to 9 speak of α ⊙ x'; where x'_d = 0 nothing goes to infinity."""
    record = scaling(linear([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 1.0]]), rays=False)
    still, moved = record.directions
    assert still.confidence is None or still.confidence[-1] == still.confidence[0]
    assert moved.confidence[-1] == 1.0
