"""Table 2's audit: closed forms, fractions counted by hand, every method, records."""

import math

import pytest
import torch
from torch import nn

import nescio
from nescio.audit import asymptote, certain_from, overconfidence, unknown_from
from nescio.audit.inputs import box_of
from nescio.data import load
from nescio.errors import NescioError
from nescio.methods import DUQ, METHODS, Ensemble, MCDropout, RBFNetwork, Softmax
from nescio.models import mlp
from nescio.records import Audit
from small_nets import linear


@pytest.fixture(scope="module")
def moons():
    """Two moons, and a small network that has learned them."""
    known = load("two_moons")
    model = Softmax(mlp(2, 2, hidden=(20, 20)), normalise=known.normalise)
    nescio.train(model, known.train, epochs=20, seed=0)
    return known, model


def test_a_linear_network_has_a_closed_form():
    """Log-odds are α x: an input is certain from log 999 / |x|, at once if that is below 1."""
    x = torch.tensor([[1.0], [-2.0], [4.0], [-10.0]])
    record = overconfidence(
        linear([[1.0], [0.0]], [0.0, 0.0]), x, (torch.tensor([-3.0]), torch.tensor([3.0]))
    )
    exact = sorted(max(1.0, math.log(999) / abs(value)) for value in x.flatten().tolist())
    assert [record.factors[0], record.factors[100]] == pytest.approx(
        [exact[0], exact[-1]], rel=1e-12
    )
    assert record.median_factor == pytest.approx(
        exact[1], rel=1e-12
    )  # of an even number the lower one
    assert (record.ends_certain, record.ends_in, record.end_confidence) == (1.0, (2, 2), (1.0,) * 5)
    assert (record.reached, record.at_once, record.proved) == (1.0, 0.25, 1.0)
    # all are scaled beyond 3, and put back there: the odds are e³ to 1, a confidence of 0.953
    assert record.overconfident == 1.0
    far = overconfidence(
        linear([[1.0], [0.0]], [0.0, 0.0]), x, (torch.tensor([-2.9]), torch.tensor([2.9]))
    )
    assert far.overconfident == 0.0
    assert (far.law, far.drawn, far.trials) == ("affine", False, 4)
    assert (*far.low, *far.high) == pytest.approx((-2.9, 2.9))


def test_projected_inputs_are_tried_at_many_factors():
    """Log-odds of 0, 4, 0 and 20 at 0, ½, 1 and 21: bold around ½, certain only beyond the box."""
    net = nn.Sequential(
        linear([[1.0]] * 3, [0.0, -0.5, -1.0]),
        nn.ReLU(),
        linear([[8.0, -16.0, 9.0], [0.0] * 3], [0.0, 0.0]),
    )
    unit = (torch.zeros(1), torch.ones(1))
    record = overconfidence(net, torch.tensor([[0.01], [0.1], [0.45], [0.7]]), unit)
    assert record.median_factor == pytest.approx((1 + math.log(999)) / 0.45)
    assert record.overconfident == 0.0  # at 1, where all are clipped to, the odds are even
    assert record.ever_overconfident == 0.75  # odds of 19 lie between 0.368 and 0.632
    assert overconfidence(net, torch.tensor([[0.7]])).ever_overconfident is None  # no box


def test_the_factor_of_certainty_is_one_of_those_tried():
    """Certain only of inputs within 1 % of 1e6, far beyond the factors tried."""
    net = nn.Sequential(
        linear([[1.0]] * 3, [-0.99e6, -1e6, -1.01e6]),
        nn.ReLU(),
        linear([[1.0, -2.0, 1.0], [0.0] * 3], [0.0, 0.0]),
    )
    box = (torch.zeros(1), torch.full((1,), 1e7))
    record = overconfidence(net, torch.tensor([[1.0]]), box)
    assert record.median_factor == pytest.approx(0.99e6, rel=1e-3)
    assert record.reached == record.overconfident == record.ever_overconfident == 1.0


def test_what_never_is_certain_raises():
    """A unit that dies for positive inputs leaves even odds."""
    net = nn.Sequential(linear([[-1.0]], [0.0]), nn.ReLU(), linear([[1.0], [0.0]], [0.0, 0.0]))
    record = overconfidence(net, torch.tensor([[1.0], [2.0], [-1.0]]))
    assert (record.ends_certain, record.ends_in) == (pytest.approx(1 / 3), (1, 0))
    assert (record.median_factor, record.reached) == (None, pytest.approx(1 / 3))
    assert record.factors[100] is None
    assert record.end_confidence[0] == 0.5
    assert record.overconfident is None  # there is no box


def test_slopes_that_only_rounding_tells_apart_prove_nothing():
    net = linear([[1.0], [1.0 + 2e-16]], [0.0, 0.0])
    record = overconfidence(net, torch.ones(1, 1).double())
    assert record.ends_certain == 0.0


@pytest.mark.slow
def test_the_figures_are_those_of_the_parts(moons, seed):
    known, model = moons
    low, high = box_of(known)
    record = overconfidence(model, box=(low, high), trials=300, seed=seed)
    assert record == Audit.from_json(record.to_json())
    assert (record.trials, record.drawn, record.classes, record.draws) == (300, True, 2, 1)
    x = nescio.audit.inputs.uniform_in((low, high), 300, seed)
    assert ((x >= low) & (x <= high)).all()
    assert (x.amin(0) - low).abs().max() < 0.1 * (high - low).max()  # all over the box
    law, first = asymptote(model, x, x), certain_from(model, x, x)
    assert record.ends_certain == (law.limit.amax(1) == 1).double().mean()
    assert list(record.ends_in) == torch.bincount(law.winner, minlength=2).tolist()
    assert record.median_factor == 1 + first.t.median()
    assert record.proved == 1.0
    factor = (1 + first.t)[:, None]
    back = (
        nescio.predict(model, torch.minimum(torch.maximum(factor * x, low), high))[0]
        .softmax(1)
        .amax(1)
    )
    assert record.overconfident == pytest.approx((back > 0.95).double().mean().item())
    again = overconfidence(model, box=(low, high), trials=300, seed=seed)
    assert again.factors == record.factors
    assert (
        overconfidence(model, box=(low, high), trials=300, seed=seed + 1).factors != record.factors
    )


def test_rays_are_drawn_as_the_network_is(moons, seed):
    known, model = moons
    record = overconfidence(model, known.test, trials=200, seed=seed)
    assert len(record.rays) == 5
    firsts = [ray.certain_from for ray in record.rays]
    assert firsts == sorted(firsts)
    for ray in record.rays:
        assert ray.factors[0] == 1.0
        assert ray.limit == 1.0
        assert all(1 <= bend <= ray.start + 1e-9 for bend in ray.breakpoints)
        assert ray.start == pytest.approx(ray.breakpoints[-1])
        late = [
            (a, b)
            for t, a, b in zip(ray.factors, ray.confidence, ray.asymptote, strict=True)
            if t > ray.start
        ]
        assert late
        assert all(a == pytest.approx(b, abs=1e-6) for a, b in late)


def test_draws_end_where_the_mean_of_their_softmaxes_does():
    """Two of three members agree on the right, and all on the left."""
    absolute = nn.Sequential(
        linear([[-1.0], [1.0]], [0.0, 0.0]), nn.ReLU(), linear([[0.0] * 2, [1.0] * 2], [0.0, 0.0])
    )
    members = [linear([[1.0], [0.0]], [0.0, 0.0]), linear([[2.0], [0.0]], [0.0, 0.0]), absolute]
    record = overconfidence(Ensemble(members, stacked=False), torch.tensor([[1.0], [-1.0]]))
    assert record.draws == 3
    assert record.ends_certain == 0.5
    assert record.ends_in == (0, 1)
    assert record.end_confidence[0] == pytest.approx(2 / 3)
    assert record.proved == 0.0
    assert record.rays[0].breakpoints is None


@pytest.mark.parametrize("stacked", [True, False])
def test_the_law_of_an_ensemble_is_that_of_its_members(stacked, seed):
    torch.manual_seed(seed)
    model = Ensemble(lambda: mlp(3, 3, hidden=(16,)), 4, stacked=stacked)
    x, d = torch.randn(2, 10, 3)
    law, members = asymptote(model, x, d), [asymptote(model.member(i), x, d) for i in range(4)]
    torch.testing.assert_close(law.slope, torch.stack([one.slope for one in members]))
    torch.testing.assert_close(law.start, torch.stack([one.start for one in members]).amax(0))
    torch.testing.assert_close(law.limit, torch.stack([one.limit for one in members]).mean(0))


@pytest.mark.parametrize("hidden", [(16,), (16, 12, 8)])
def test_dropout_has_a_law_for_each_mask(hidden, seed):
    torch.manual_seed(seed)
    model = MCDropout(mlp(3, 3, hidden=hidden, dropout=0.4), samples=20).double()
    x = torch.randn(10, 3).double()
    law = asymptote(model, x, x, seed=seed)
    assert law.slope.shape == (20, 10, 3)
    t = 10 * law.start.max() + 1
    torch.testing.assert_close(
        nescio.predict(model, x + t * x, seed=seed), law.at(t), rtol=1e-9, atol=1e-9
    )
    assert (law.slope[0] != law.slope[1]).any()
    record = overconfidence(model, x, seed=seed)
    sure = (law.limit.amax(1) > 1 - 1e-12).double().mean()
    assert record.ends_certain == sure


def test_kernels_end_not_knowing(moons, seed):
    known, _ = moons
    torch.manual_seed(seed)
    duq = DUQ(mlp(2, hidden=(20,)), 2, length_scale=0.3, normalise=known.normalise)
    nescio.train(duq, known.train, epochs=5, seed=seed)
    record = overconfidence(duq, known.test, trials=100, seed=seed)
    assert (record.law, record.ends_in, record.ends_certain) == ("kernels", None, 0.0)
    x = nescio.audit.overconfidence.__globals__["_starts"](duq, known.test, None, 100, seed)
    after = unknown_from(duq, x, x)
    assert record.unknown_factor == 1 + after.t.median()
    assert record.ends_unknown == after.t.isfinite().double().mean()
    rbf = RBFNetwork(30, classes=2, normalise=known.normalise)
    nescio.train(rbf, known.train, epochs=1, seed=seed)
    record = overconfidence(rbf, known.test, trials=100, seed=seed)
    assert (record.ends_unknown, record.unknown_exact, record.end_confidence) == (
        1.0,
        0.0,
        (0.5,) * 5,
    )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_audited(name, seed):
    torch.manual_seed(seed)
    method = METHODS[name]
    settings = {"classes": 2} if method.on_features else {}
    if not method.on_network:
        settings |= {"centres": torch.randn(5, 2), "gamma": 1.0}
    model = method.from_factory(
        lambda: mlp(2, None if method.on_features else 2, hidden=(8,), dropout=0.3), **settings
    )
    record = overconfidence(model, torch.randn(20, 2), seed=seed)
    assert record.method == name
    assert record.law == ("kernels" if method.on_features else "affine")
    assert record == Audit.from_json(record.to_json())


def test_a_network_without_a_law_is_measured(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    record = overconfidence(net, torch.randn(20, 2))
    assert (record.law, record.ends_certain, record.ends_in, record.proved) == (
        "unknown",
        None,
        None,
        0.0,
    )
    assert all(ray.asymptote is None and ray.limit is None for ray in record.rays)


def test_boxes_are_those_of_the_data():
    low, high = box_of(load("digits"))
    assert (low == 0).all()
    assert (high == 1).all()
    assert low.shape == (1, 8, 8)
    iris = load("iris")
    low, high = box_of(iris)
    inputs = iris.train.take(slice(None))[0].double()
    assert torch.equal(low, inputs.amin(0))
    assert torch.equal(high, inputs.amax(0))


def test_a_box_may_be_one_tensor(seed):
    torch.manual_seed(seed)
    net, box = mlp(2, 2, hidden=(4,)), torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    record = overconfidence(net, box=box, trials=10)
    for other in ((box[0], box[1]), box.numpy()):
        assert overconfidence(net, box=other, trials=10).factors == record.factors


def test_batchnorm_in_train_mode_warns_once(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    for ask in (overconfidence, lambda net, x: certain_from(net, x, x), nescio.audit.per_feature):
        with pytest.warns(UserWarning, match="audited in eval mode") as warned:
            ask(net, torch.ones(3, 2) + torch.arange(3)[:, None])
        assert len(warned) == 1
        assert warned[0].filename == __file__
        assert net.training
    with pytest.warns(UserWarning, match="audited in eval mode") as warned:
        unknown_from(DUQ(net[:3], 2, features=4), torch.ones(3, 2), torch.ones(2))
    assert len(warned) == 1


def test_a_duq_over_a_network_without_a_law_is_measured(seed):
    torch.manual_seed(seed)
    model = DUQ(nn.Sequential(nn.Linear(2, 4), nn.GELU()), 2, features=4)
    assert overconfidence(model, torch.ones(3, 2)).law == "unknown"


def test_bad_input_raises():
    net = mlp(2, 2)
    ones = torch.ones(2)
    with pytest.raises(NescioError, match="eps"):
        overconfidence(net, ones[None], eps=0)
    with pytest.raises(NescioError, match="nothing to scale"):
        overconfidence(net)
    with pytest.raises(NescioError, match="all inputs are zeros"):
        overconfidence(net, torch.zeros(3, 2))
    with pytest.raises(NescioError, match="expected a pair"):
        overconfidence(net, box=torch.ones(3))
    for box in ((ones, 0 * ones), (ones, ones), (0 * ones, ones / 0)):
        with pytest.raises(NescioError, match="a box must be finite"):
            overconfidence(net, box=box)
    with pytest.raises(NescioError, match="shaped as one input"):
        overconfidence(net, box=(0 * ones, torch.ones(3)))
    with pytest.raises(NescioError, match=r"a box of shape \(3,\)"):
        overconfidence(net, torch.ones(4, 2), (torch.zeros(3), torch.ones(3)))
    with pytest.raises(NescioError, match="cannot be run"):
        overconfidence(net, box=(torch.zeros(3), torch.ones(3)))
    with pytest.raises(NescioError, match="trials"):
        overconfidence(net, box=(0 * ones, ones), trials=0)
    with pytest.raises(NescioError, match="NaN"):
        overconfidence(net, torch.full((2, 2), torch.nan))
    assert (
        overconfidence(net, torch.tensor([[0.0, 0.0], [1.0, 1.0]])).trials == 1
    )  # zeros are passed over
