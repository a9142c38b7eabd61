"""Theorem 3.2 of Hein et al. (2019): an RBF network cannot be certain far away."""

import math

import pytest
import torch

import nescio
from nescio.core.logits import mean_log_probs
from nescio.methods import RBFNetwork

EPS = (0.3, 1e-2, 1e-7)
DATA = ("two_moons", "three_blobs", "wine", "digits")


@pytest.fixture(scope="module", params=DATA)
def trained(request):
    """Known data, and an RBF network that was trained on all of it, in float64."""
    known = nescio.data.load(request.param)
    centres = None if len(known.train) < 150 else 150
    model = RBFNetwork(centres, classes=len(known.classes), normalise=known.normalise).double()
    nescio.train(model, known.train)
    return known, model


def off_uniform(model, x):
    """How far the probability of any class is from 1/K, `(N,)`."""
    return (mean_log_probs(nescio.predict(model, x))[0].exp() - 1 / model.classes).abs().amax(1)


def around(known, model, reach, count=4000):
    """Raw inputs in random directions from random centres, from nothing to `reach` away."""
    generator = torch.Generator().manual_seed(0)
    start = model.centres[torch.randint(len(model.centres), (count,), generator=generator)]
    way = torch.randn(start.shape, dtype=torch.float64, generator=generator)
    length = reach * torch.rand(count, 1, dtype=torch.float64, generator=generator)
    rows = start + length * way / way.norm(dim=1, keepdim=True)
    return rows.view(-1, *known.shape) * model.normalise.std + model.normalise.mean


@pytest.mark.parametrize("eps", EPS)
def test_outside_the_radius_no_class_is_off_uniform_by_more_than_eps(trained, eps):
    known, model = trained
    radius = model.uniform_radius(eps)
    x = around(known, model, 4 * radius, count=6000)
    x = x[model.distance(x) >= radius]
    assert len(x) >= 2000
    assert model.distance(x).amin() < 1.05 * radius  # also next to it
    assert (off_uniform(model, x) <= eps).all()


@pytest.mark.parametrize("eps", EPS)
def test_inside_the_radius_is_what_was_learned(trained, eps):
    known, model = trained
    x = known.test.take(slice(None))[0]
    assert 0 < model.uniform_radius(eps) < math.inf
    inside = model.distance(x) < model.uniform_radius(eps)
    assert inside.double().mean() > 0.95
    assert (off_uniform(model, x[inside]) > eps).double().mean() > 0.85


@pytest.mark.parametrize("eps", EPS)
def test_no_much_smaller_radius_would_do(trained, eps):
    """The theorem assumes all centres to be as near as the nearest, and to pull one way."""
    known, model = trained
    radius = model.uniform_radius(eps)
    x = around(known, model, radius)
    assert model.distance(x)[off_uniform(model, x) > eps].amax() > 0.4 * radius


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_one_centre_that_speaks_for_one_class_comes_close_to_the_bound(eps, classes):
    """Logits differ by `log(1 + K·eps)` there, and `p₀ − 1/K = (1 − 1/K) · eps / (1 + eps)`."""
    model = RBFNetwork(torch.zeros(1, 2), 0.7, classes=classes).double()
    with torch.no_grad():
        model.weight[0] = 5000.0
    radius = model.uniform_radius(eps)
    off = off_uniform(model, radius * torch.tensor([[0.6, 0.8]], dtype=torch.float64)).item()
    assert off == pytest.approx((1 - 1 / classes) * eps / (1 + eps), rel=1e-6)
    nearer = off_uniform(
        model, 0.9 * radius * torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    ).item()
    assert nearer > min(eps, 0.99 * (1 - 1 / classes))


@pytest.mark.parametrize(("apart", "gamma"), [(3e3, None), (1e4, None), (1.0, 1e7)])
def test_the_bound_holds_in_float32_where_kernels_are_narrow_for_how_far_centres_lie_apart(
    apart, gamma
):
    """Distances from squares of coordinates would be off by more than a kernel's width."""
    generator = torch.Generator().manual_seed(0)
    x, y = nescio.data.load("two_moons").train.take(slice(600))
    x[:120] += apart
    model = RBFNetwork(classes=2, gamma=gamma)
    nescio.train(model, (x, y))
    radius = model.uniform_radius(0.01)
    way = torch.randn(8000, 2, generator=generator)
    way *= radius * (1 + torch.rand(8000, 1, generator=generator)) / way.norm(dim=1, keepdim=True)
    points = x[torch.randint(600, (8000,), generator=generator)] + way
    points = points[model.distance(points) >= radius]
    assert len(points) > 2000
    assert (off_uniform(model, points) <= 0.01).all()
    assert (nescio.predict(model, x)[0].argmax(1) == y).double().mean() > 0.99
