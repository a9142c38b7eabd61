"""Theorem 1 of *Know your limits*: far out along a monotone feature no model is unsure.

The lemmas speak of single functions p_θ, so a feature counts as monotone if it is so in every draw.
"""

import pytest
import torch
from torch import nn

import nescio
from nescio.audit import monotone, scaling
from nescio.core.input_gradients import quantity_gradients
from nescio.data import Normalise
from nescio.methods import METHODS
from nescio.models import mlp
from nescio.scores import SCORES, natural

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
