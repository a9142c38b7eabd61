"""How far until a model is certain: closed forms, scans against proofs, draws, no law."""

import math

import pytest
import torch
from torch import nn

import nescio
from nescio.audit import certain_from, certainty, trace
from nescio.audit.affine.trace import least_breakpoints
from nescio.audit.budget import Budget
from nescio.audit.certainty import HALVINGS, MAX_PIECES, RaySearch
from nescio.errors import NescioError
from nescio.methods import DUQ, Ensemble, MCDropout, RBFNetwork, Softmax
from nescio.models import mlp
from small_nets import linear

START, AHEAD = torch.zeros(1, 1), torch.ones(1, 1)  # a ray in one dimension


def drawn(count, width, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, width, generator=generator, dtype=torch.float64)


def confidence(net, x, d, t):
    """Return that of the network at t, one for each ray."""
    return nescio.predict(net, x + t[:, None] * d)[0].softmax(1).amax(1)


@pytest.mark.parametrize("limit", [0, 400])
def test_two_classes_have_a_closed_form(limit):
    """The log-odds are 2 − 0.5 t: class 1 is certain when they are −log 999, class 0 never."""
    result = certain_from(linear([[-0.5], [0.0]], [2.0, 0.0]), START, AHEAD, limit=limit)
    assert result.t.item() == pytest.approx((2 + math.log(999)) / 0.5, rel=1e-12 if limit else 1e-5)
    assert result.proved.item() is bool(limit)
    other = certain_from(
        linear([[-0.5], [0.0]], [2.0, 0.0]), START, AHEAD, confidence=0.6, limit=limit
    )
    assert other.t.item() == 0.0  # e² to 1 is more than that already


def test_a_step_of_a_scan_is_halved_to_a_millionth():
    assert (math.sqrt(2) - 1) / 2**HALVINGS < 2e-6


def test_the_scan_agrees_with_following(seed):
    torch.manual_seed(seed)
    net = mlp(6, 4, hidden=(20, 20)).double()
    x, d = drawn(40, 6, seed)
    followed, scanned = certain_from(net, x, d), certain_from(net, x, d, limit=0)
    assert followed.proved.all()
    assert not scanned.proved.any()
    torch.testing.assert_close(followed.t, trace(net, x, d).first_certain(1e-3))
    torch.testing.assert_close(scanned.t, followed.t, rtol=1e-5, atol=1e-8)
    assert (confidence(net, x, d, scanned.t) >= 0.999 - 1e-12).all()


def test_rays_with_too_many_pieces_are_measured(seed):
    torch.manual_seed(seed)
    net = mlp(6, 4, hidden=(20, 20)).double()
    x, d = drawn(40, 6, seed)
    pieces = trace(net, x, d).ray.bincount()
    few = certain_from(net, x, d, limit=int(pieces.median()))
    assert 0 < few.proved.sum() < 40  # those that are certain early enough
    torch.testing.assert_close(few.t, certain_from(net, x, d).t, rtol=1e-5, atol=1e-8)


def test_what_would_take_too_long_is_measured_unless_asked_for(monkeypatch):
    torch.manual_seed(0)
    net = mlp(6, 4, hidden=(20, 20)).double()
    x, d = drawn(40, 6, 0)
    bends, units = least_breakpoints(net, x[:: 39 // 7], d[:: 39 // 7])
    assert 5 <= bends <= units == 40  # a choice for each unit
    monkeypatch.setattr(certainty, "MAX_WORK", 39 * bends * units // 3)
    assert not certain_from(net, x, d).proved.any()
    assert certain_from(net, x[:10], d[:10]).proved.all()
    assert certain_from(net, x, d, limit=400).proved.all()


def test_ten_thousand_rays_through_two_hundred_units_are_followed():
    torch.manual_seed(0)
    net, rays = mlp(10, 3, hidden=(100, 100)), torch.randn(2, 10_000, 10).double()
    assert RaySearch(net, *rays, None, Budget(None), 1).max_pieces() == MAX_PIECES


def test_one_that_never_is_certain_is_proved_so_to_infinity():
    """A unit that dies leaves the bias: log-odds of 1 from then on."""
    net = nn.Sequential(linear([[-1.0]], [5.0]), nn.ReLU(), linear([[0.2], [0.0]], [1.0, 0.0]))
    result = certain_from(net, START, AHEAD)
    assert result.t.item() == math.inf
    assert result.proved.item()
    assert certain_from(net, START, AHEAD, limit=0).t.item() == math.inf


def test_certain_only_on_the_way_is_found_by_following():
    """Log-odds rise to 8 at t = 8 and fall back to 0 at t = 16: the end knows nothing of it."""
    hat = nn.Sequential(
        linear([[1.0], [1.0], [1.0]], [0.0, -8.0, -16.0]),
        nn.ReLU(),
        linear([[1.0, -2.0, 1.0], [0.0] * 3]),
    )
    result = certain_from(hat, START, AHEAD)
    assert result.t.item() == pytest.approx(math.log(999), rel=1e-12)
    assert result.proved.item()


def test_an_ensemble_is_certain_when_the_mean_of_softmaxes_is(seed):
    """Members with log-odds t and 3t: the mean reaches the bar where ½σ(t) + ½σ(3t) does."""
    ensemble = Ensemble([linear([[1.0], [0.0]]), linear([[3.0], [0.0]])])
    result = certain_from(ensemble, START, AHEAD, seed=seed)
    t = result.t.item()
    assert (1 / (1 + math.exp(-t)) + 1 / (1 + math.exp(-3 * t))) / 2 == pytest.approx(
        0.999, abs=1e-7
    )
    assert not result.proved.item()


def test_draws_that_end_apart_never_agree():
    ensemble = Ensemble([linear([[1.0], [0.0]]), linear([[-1.0], [0.0]])])
    assert certain_from(ensemble, START, AHEAD).t.item() == math.inf


def test_draws_that_seem_constant_before_their_last_bend_are_not_given_up():
    """Members are unsure up to t = 5 and after 50; in between log-odds rise to 22 and fall."""

    def hat(height):
        three = linear([[1.0], [1.0], [1.0]], [-5.0, -27.5, -50.0])
        return nn.Sequential(three, nn.ReLU(), linear([[height, -2 * height, height], [0.0] * 3]))

    result = certain_from(Ensemble([hat(1.0), hat(2.0)], stacked=False), START, AHEAD)
    odds = result.t.item() - 5
    mean = (1 / (1 + math.exp(-odds)) + 1 / (1 + math.exp(-2 * odds))) / 2
    assert mean == pytest.approx(0.999, abs=1e-6)


def test_models_without_a_law_are_measured(seed):
    torch.manual_seed(seed)
    curved = nn.Sequential(linear([[4.0]]), nn.Tanh(), linear([[5.0], [-5.0]]))
    result = certain_from(curved, START, AHEAD)
    assert result.t.item() == pytest.approx(math.atanh(math.log(999) / 10) / 4, rel=1e-5)
    assert not result.proved.item()
    x, d = drawn(5, 2, seed)
    for model in (
        DUQ(mlp(2, hidden=(8,)), 2),
        RBFNetwork(torch.randn(9, 2), 1.0, classes=2),
        MCDropout(mlp(2, 2, dropout=0.3)),
    ):
        assert not certain_from(model, x, d).proved.any()


class Halved(Softmax):
    """A method that trusts itself only half as much."""

    def confidence(self, logits):
        return super().confidence(logits) / 2


def test_a_confidence_of_a_method_s_own_is_what_counts():
    method = Halved(linear([[1.0], [0.0]]))
    assert certain_from(method, START, AHEAD).t.item() == math.inf
    assert not certain_from(method, START, AHEAD).proved.item()


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_may_be_tiny_or_huge(unit):
    net = linear([[1.0 / unit], [0.0]])
    x, d = torch.full((1, 1), unit, dtype=torch.float64), AHEAD.double()
    assert certain_from(net, x, d).t.item() == pytest.approx((math.log(999) - 1) * unit, rel=1e-9)


def test_units_of_the_direction(seed):
    torch.manual_seed(seed)
    net = mlp(6, 4, hidden=(20,)).double()
    x, d = drawn(10, 6, seed)
    torch.testing.assert_close(certain_from(net, x, d).t, 1000 * certain_from(net, x, 1000 * d).t)


def test_batches_of_any_size_give_the_same(seed):
    torch.manual_seed(seed)
    model = Softmax(mlp(6, 4, hidden=(20,)))
    x, d = drawn(30, 6, seed)
    for limit in (0, 400):
        some, all_ = (certain_from(model, x, d, batch_size=size, limit=limit) for size in (7, None))
        torch.testing.assert_close(some.t, all_.t, rtol=1e-5, atol=1e-7)


def test_bad_input_raises():
    net = linear([[1.0], [0.0]])
    with pytest.raises(NescioError, match="confidence"):
        certain_from(net, START, AHEAD, confidence=1.0)
    with pytest.raises(NescioError, match="limit"):
        certain_from(net, START, AHEAD, limit=-1)
    with pytest.raises(NescioError, match="leads nowhere"):
        certain_from(net, START, START.clone())
    with pytest.raises(NescioError, match="NaN"):
        certain_from(net, torch.tensor([[math.nan]]), AHEAD)
    with pytest.raises(NescioError, match="batch_size"):
        certain_from(net, START, AHEAD, batch_size=0)
