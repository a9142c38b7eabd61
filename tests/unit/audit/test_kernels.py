"""After which t kernels are unsure: closed forms, the model itself, rays near a centroid."""

import math

import pytest
import torch
from torch import nn

import nescio
from nescio.audit import unknown_from
from nescio.errors import NescioError
from nescio.methods import DUQ, RBFNetwork, Softmax
from nescio.methods.kernel_method import last_at_least
from nescio.models import mlp

START, AHEAD = torch.zeros(1, 1), torch.ones(1, 1)  # a ray in one dimension


def certainty(model, x, d, t):
    """The confidence at t, one for each ray."""
    return model.confidence(nescio.predict(model, x + t[:, None] * d))


def duq(net, features, classes=2, **settings):
    """Return a DUQ with identity weights and centroids at 0 and 1: kernels known by hand."""
    model = DUQ(net, classes, features=features, **settings).double()
    model.weight.data[:] = torch.eye(features).double()
    model.centroids[:] = torch.arange(classes).double()[:, None]
    return model


def test_a_line_through_a_centroid_has_a_closed_form():
    """`K = exp(−(t − 1)² / 2σ²)` of the second centroid is ε last at 1 + σ√(−2 log ε)."""
    model = duq(nn.Identity(), 1, length_scale=0.5)
    for eps in (0.9, 0.1, 1e-3, 1e-12):
        result = unknown_from(model, torch.tensor([[-3.0]]), AHEAD, eps=eps)
        assert result.t.item() == pytest.approx(
            3 + 1 + 0.5 * math.sqrt(-2 * math.log(eps)), rel=1e-12
        )
        assert result.exact.item()
        assert result.limit.item() == 0


def test_a_length_scale_for_each_class():
    model = duq(nn.Identity(), 1, length_scale=0.5, learn_length_scale=True)
    model.log_length_scale.data[:] = torch.tensor([4.0, 0.5]).double().log()
    result = unknown_from(model, START, AHEAD, eps=0.01)
    assert result.t.item() == pytest.approx(4 * math.sqrt(-2 * math.log(0.01)), rel=1e-12)


def test_a_ray_that_stops_at_a_centroid_stays_known():
    """A unit that dies leaves the feature at its bias: past a centroid at 1 it stops at 1.1."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    for layer, weight, bias in ((net[0], -1.0, 5.0), (net[2], -0.2, 1.1)):
        layer.weight.data.fill_(weight)
        layer.bias.data.fill_(bias)
    model = duq(net, 1, length_scale=0.5)
    left = math.exp(-(0.1**2) / 2 / 0.25)
    result = unknown_from(model, START, AHEAD, eps=0.5)
    assert result.t.item() == math.inf
    assert result.limit.item() == pytest.approx(left, rel=1e-12)
    above = unknown_from(
        model, START, AHEAD, eps=left + 1e-3
    )  # but so certain it is only near the centroid
    assert 4.5 < above.t.item() < 5.0
    assert above.exact.item()
    assert certainty(model, START, AHEAD, above.t).item() == pytest.approx(left + 1e-3, rel=1e-12)


def test_what_is_met_just_before_the_last_breakpoint_is_found():
    """Features bend at 9.2 and, last, at 10; the centroid at 9.8 is met in between, at 9.6."""
    net = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    for layer, weight, bias in (
        (net[0], [[1.0]] * 3, [0.0, -9.2, -10.0]),
        (net[2], [[1.0, 0.5, 100.0]], [0.0]),
    ):
        layer.weight.data[:], layer.bias.data[:] = torch.tensor(weight), torch.tensor(bias)
    model = duq(net, 1, length_scale=0.02)
    model.centroids[:] = 9.8
    result = unknown_from(model, START, AHEAD, eps=0.1)
    assert result.t.item() == pytest.approx(
        9.6 + 0.02 * math.sqrt(-2 * math.log(0.1)) / 1.5, abs=1e-5
    )
    assert result.exact.item()


@pytest.mark.parametrize("eps", [0.5, 1e-3])
def test_agrees_with_the_model(eps, seed):
    torch.manual_seed(seed)
    model = DUQ(mlp(3, hidden=(16, 16)), 3, length_scale=0.3).double()
    model.centroids[:] = (
        model.net(torch.randn(3, 3).double())[:, None].mul(model.weight).sum(2).detach()
    )
    x, d = torch.randn(2, 60, 3, dtype=torch.float64)
    result = unknown_from(model, x, d, eps=eps)
    assert result.exact.all()
    assert result.t.isfinite().all()
    crossed = result.t > 0
    assert crossed.sum() > 10  # else there would be nothing to see
    torch.testing.assert_close(
        certainty(model, x, d, result.t)[crossed], torch.full_like(result.t, eps)[crossed]
    )
    assert (certainty(model, x, d, result.t)[~crossed] < eps).all()
    for factor in torch.logspace(-7, 4, 150).tolist():
        assert (certainty(model, x, d, result.t * (1 + factor) + factor) < eps).all()


def test_without_following_t_is_late_enough(seed):
    torch.manual_seed(seed)
    model = DUQ(mlp(3, hidden=(16, 16)), 3, length_scale=0.3).double()
    x, d = torch.randn(2, 60, 3, dtype=torch.float64)
    exact, late = unknown_from(model, x, d), unknown_from(model, x, d, limit=0)
    assert (late.t >= exact.t).all()
    torch.testing.assert_close(late.t[late.exact], exact.t[late.exact])
    assert not late.exact.all()


def test_the_last_root_in_an_interval():
    """Of −(t − 2)² + 4, at least 3 on [1, 3]; of the constant 5; of a constant that is too low."""
    a, b, c = torch.tensor([[-1.0, 4.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, 2.0]]).T[:, :, None]

    def last(begin, end):
        ends = (torch.full((3,), float(value)) for value in (begin, end))
        return last_at_least(a, b, c, 3.0, *ends).tolist()

    assert last(0, 9) == [3.0, 9.0, -math.inf]
    assert last(0, 2) == [2.0, 2.0, -math.inf]  # the root is beyond the end
    assert last(0, 0.5)[0] == -math.inf  # it begins beyond the end
    assert last(3.5, 9)[0] == -math.inf  # and has ended before the beginning
    assert last(0, math.inf) == [3.0, math.inf, -math.inf]


def test_the_rbf_network_keeps_theorem_3_2(seed):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(40, 3, generator=generator)
    model = RBFNetwork(centres, 2.0, classes=4, normalise=nn.BatchNorm1d(3).eval()).double()
    model.weight.data[:] = 20 * torch.randn(4, 40, generator=generator).double()
    x, d = torch.randn(2, 50, 3, generator=generator, dtype=torch.float64)
    result = unknown_from(model, x, d, eps=0.01)
    radius = model.uniform_radius(0.01)
    at, before = (model.distance(x + (result.t * part)[:, None] * d) for part in (1.0, 1 - 1e-6))
    torch.testing.assert_close(at, torch.full_like(at, radius))
    assert (before < radius).all()  # it has just left the last ball
    for factor in torch.logspace(-6, 4, 60).tolist():
        t = result.t * (1 + factor)
        assert (model.distance(x + t[:, None] * d) >= radius * (1 - 1e-9)).all()
        assert (certainty(model, x, d, t) <= 0.25 + 0.01).all()
    assert (result.limit == 0.25).all()


def test_the_rbf_network_behind_a_bend(seed):
    """What goes through a ReLU first comes to rest until t = 5, and so stays at the centre."""
    model = RBFNetwork(torch.zeros(1, 1), 1.0, classes=2, normalise=nn.ReLU()).double()
    model.weight.data[:] = torch.tensor([[3.0], [0.0]])
    result = unknown_from(model, torch.tensor([[-5.0]]), AHEAD, eps=0.01)
    assert result.t.item() == pytest.approx(5 + model.uniform_radius(0.01))


def test_batches_of_any_size_give_the_same(seed):
    torch.manual_seed(seed)
    model = DUQ(mlp(3, hidden=(16,)), 3, length_scale=0.3)
    x, d = torch.randn(2, 20, 3)
    torch.testing.assert_close(
        unknown_from(model, x, d).t, unknown_from(model, x, d, batch_size=3).t
    )


def test_bad_input_raises(seed):
    torch.manual_seed(seed)
    model = DUQ(mlp(3, hidden=(16,)), 3)
    x = torch.ones(2, 3)
    with pytest.raises(NescioError, match=r"Softmax.*need not become uncertain"):
        unknown_from(Softmax(mlp(3, 2)), x, x)
    with pytest.raises(NescioError, match="eps"):
        unknown_from(model, x, x, eps=0)
    with pytest.raises(NescioError, match="leads nowhere"):
        unknown_from(model, x, 0 * x)
    with pytest.raises(NescioError, match="gelu"):
        unknown_from(DUQ(nn.Sequential(nn.Linear(3, 4), nn.GELU()), 2, features=4), x, x)
    with pytest.raises(NescioError, match=r"unknown_from"):
        nescio.audit.asymptote(model, x, x)
