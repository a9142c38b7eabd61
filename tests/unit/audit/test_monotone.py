"""Strict monotonicity: linear models known by hand, folds, and slopes in fifty digits."""

import mpmath
import pytest
import torch
from torch import nn

import nescio
from nescio.audit import monotone
from nescio.core.logits import mean_log_probs
from nescio.errors import NescioError
from nescio.records import Monotonicity
from small_nets import Draws, linear

INF = torch.inf


class Fold(nn.Module):
    """Class 1 gains with |x₀ − 1|, and steadily with x₁."""

    def forward(self, x):
        return torch.stack([torch.zeros_like(x[:, 0]), (x[:, 0] - 1).abs() + x[:, 1]], 1)


class Ramp(nn.Module):
    """Class 1 gains with x₀ where that is above 0, and steadily with x₁."""

    def forward(self, x):
        return torch.stack([torch.zeros_like(x[:, 0]), x[:, 0].relu() + x[:, 1]], 1)


def slope_by_hand(model, point, feature, label):
    """∂ log-odds(p̄_c) / ∂x_d, by autograd on one input."""
    x = torch.tensor([point], dtype=torch.float64, requires_grad=True)
    logits = model(x)
    log_p, log_q = mean_log_probs(logits if logits.dim() == 3 else logits[None])
    return torch.autograd.grad((log_p - log_q)[0, label], x)[0][0, feature].item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("low", "high", "unbounded"),
    [
        ([-1, -1], [1, 1], False),
        ([0, -INF], [INF, 3], True),
        ([-INF, -INF], [INF, INF], True),
    ],
)
def test_a_logistic_regression_is_monotone_by_the_sign_of_its_weights(low, high, unbounded, dtype):
    record = monotone(linear([[1.0, -0.5], [0.2, 3.0]], dtype=dtype), low, high, points=500)
    assert record.signs == ((1, -1), (-1, 1))  # w₀ − w₁ = (0.8, −3.5)
    assert record.monotone
    assert record.monotone_features == record.features == (0, 1)
    assert record.counter_example is None
    assert record.partially_unbounded is unbounded


def test_the_class_in_the_middle_is_not_monotone():
    """Of classes with slopes 0, 1, 2 the first falls, the last rises, the second does both."""
    record = monotone(linear([[0.0], [1.0], [2.0]]), [-INF], [INF])
    assert record.signs == ((-1, 0, 1),)
    assert not record.monotone
    assert record.monotone_features == ()
    example = record.counter_example
    assert (example.feature, example.label) == (0, 1)
    # p₁ = 1 / (1 + 2 cosh x) rises left of 0 and falls right of it
    (rising,), (falling,) = example.points
    assert rising < 0 < falling
    assert example.slopes[0] > 0 > example.slopes[1]


def test_a_fold_is_found_and_its_example_holds():
    record = monotone(Fold(), [-5, -5], [5, 5])
    assert record.signs == ((0, 0), (-1, 1))
    assert record.monotone_features == (1,)
    example = record.counter_example
    assert example.feature == 0
    assert example.slopes[0] > 0 > example.slopes[1]
    assert all(-5 <= value <= 5 for point in example.points for value in point)
    for point, slope in zip(example.points, example.slopes, strict=True):
        assert slope_by_hand(Fold(), point, 0, example.label) == pytest.approx(slope)


def test_on_either_side_of_its_fold_a_model_is_monotone():
    assert monotone(Fold(), [1, 0], [INF, INF]).signs == ((-1, 1), (-1, 1))
    assert monotone(Fold(), [-INF, 0], [1, INF]).signs == ((1, -1), (-1, 1))


def test_a_flat_place_breaks_strictness():
    record = monotone(Ramp(), [-1, -1], [1, 1])
    assert record.signs == ((0, 0), (-1, 1))
    example = record.counter_example
    assert (example.feature, example.slopes, len(example.points)) == (0, (0.0,), 1)
    assert example.points[0][0] < 0
    assert slope_by_hand(Ramp(), example.points[0], 0, example.label) == 0


@pytest.mark.parametrize("weight", [0.0, 0.1, 1e6 / 3])
def test_a_feature_that_both_classes_weigh_alike_has_no_slope(weight):
    """Also where rounding leaves something of the difference of equal weights."""
    record = monotone(linear([[1.3, weight], [0.4, weight], [-0.3, weight]]), [0, -INF], [1, INF])
    assert record.signs[1] == (0, 0, 0)
    assert record.signs[0][0] == 1
    assert record.signs[0][2] == -1
    assert monotone(
        linear([[1.3, weight], [0.4, weight]]), [0, 0], [1, INF]
    ).counter_example.slopes == (0.0,)


def test_a_fixed_feature_is_not_looked_at():
    record = monotone(Fold(), [3, 0], [3, INF])
    assert record.features == record.monotone_features == (1,)
    assert record.monotone
    assert monotone(Fold(), [-5, 0], [5, 1], features=[1]).monotone
    with pytest.raises(NescioError, match=r"features \[0\] are fixed"):
        monotone(Fold(), [3, 0], [3, INF], features=[0, 1])


def test_draws_that_agree_and_draws_that_do_not():
    up, down = linear([[0.0, 0.0], [2.0, 1.0]]), linear([[0.0, 0.0], [-1.0, 3.0]])
    record = monotone(Draws(up, down), [-INF, -INF], [INF, INF])
    assert record.draws == 2
    assert record.signs == ((0, 0), (-1, 1))
    assert record.counter_example.feature == 0
    assert monotone(Draws(up, up), [-INF, -INF], [INF, INF]).signs == ((-1, 1), (-1, 1))


def test_slopes_do_not_underflow_where_draws_contradict_each_other():
    """p̄ = ½ to a thousand digits, a slope of 0 in float64; yet its slower draw still rises."""
    slow, fast = linear([[1.0], [-1.0]]), linear([[-2.0], [2.0]])
    record = monotone(Draws(slow, fast), [3000], [4000])
    assert record.signs == ((1, -1),)
    assert slope_by_hand(Draws(slow, fast), [3000.0], 0, 0) == 0
    with mpmath.workdps(8000):
        p = lambda x: (1 / (1 + mpmath.exp(-2 * x)) + 1 / (1 + mpmath.exp(4 * x))) / 2  # noqa: E731
        assert p(mpmath.mpf(3001)) > p(mpmath.mpf(3000))


def test_slopes_are_exact_in_the_mixture_of_draws(seed):
    """Against the derivative of the mean probability in fifty digits, over mean p (1 − p)."""
    up, down = linear([[0.0], [2.0]]), linear([[0.5], [-1.0]])
    example = monotone(Draws(up, down), [-30], [30], seed=seed).counter_example
    with mpmath.workdps(80):
        for (point,), slope in zip(example.points, example.slopes, strict=True):
            ps = [1 / (1 + mpmath.exp(-k * mpmath.mpf(point))) for k in (2, -1.5)]
            exact = sum(k * p * (1 - p) for k, p in zip((2, -1.5), ps, strict=True)) / sum(
                p * (1 - p) for p in ps
            )
            assert slope == pytest.approx(
                float(exact) * (1 if example.label == 1 else -1), rel=1e-10
            )


def rising(draw):
    """A network of positive weights, whose second class gains with its input."""
    torch.manual_seed(draw)
    net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)).double()
    with torch.no_grad():
        net[0].weight.abs_()
        net[0].bias.abs_()
        net[3].weight[0].zero_()
        net[3].weight[1].abs_()
    return net


def test_a_draw_that_stands_still_hides_no_other():
    """Some masks drop every unit; the mean rises all the same, in its thousandth digit."""
    assert monotone(nescio.methods.MCDropout(rising(0), samples=50), [0.0], [INF]).signs == (
        (-1, 1),
    )
    still, moving = linear([[0.0], [0.0]]), linear([[0.0], [1.0]])
    assert monotone(Draws(still, moving), [0], [INF]).signs == ((-1, 1),)
    assert monotone(Draws(still, still), [0], [INF]).counter_example.slopes == (0.0,)


def test_a_slope_smaller_than_rounding_of_the_others_counts():
    """p₀ = 1 / (2 + e⁻ˣ) rises throughout, though two of three classes rise alike."""
    assert monotone(linear([[1.0], [1.0], [0.0]]), [0], [INF]).signs == ((1, 1, -1),)
    assert monotone(linear([[1e12], [1e12 + 0.1]]), [0], [1]).signs == ((-1, 1),)
    steep, gentle = linear([[0.0], [1e14]]), linear([[0.0], [1.0]])
    assert monotone(Draws(steep, gentle), [0], [1]).signs == ((-1, 1),)


def test_where_rounding_hides_the_sign_nothing_is_said():
    """Of slopes 0, 1, 2 the middle class falls right of 0; logits of 1e8 lack the digits."""
    net = linear([[0.0], [1.0], [2.0]])
    assert monotone(net, [1e-9], [1e-6]).signs == ((-1, -1, 1),)
    with torch.no_grad():
        net.bias.fill_(1e8)
    record = monotone(net, [1e-9], [1e-6])
    assert record.signs[0][0] == -1
    assert record.signs[0][2] == 1
    assert record.counter_example is None


@pytest.mark.parametrize("draw", range(4))
def test_rounding_within_a_network_is_no_counter_example(draw):
    """Without a bias LayerNorm undoes the size of x but for ε: the slope dies away as 1/x³."""
    torch.manual_seed(draw)
    layers = nn.Linear(1, 4, bias=False), nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 2)
    net = nn.Sequential(*layers).double()
    assert monotone(net, [0.0], [1e3]).monotone
    example = monotone(net, [0.0], [INF]).counter_example
    assert example is None or example.slopes == (0.0,)  # where float64 has no digits left


@pytest.mark.parametrize(("low", "high"), [(-INF, 3), (3, INF), (-INF, INF)])
def test_a_box_without_an_end_is_partially_unbounded(low, high):
    assert monotone(linear([[0.0], [1.0]]), [low], [high]).partially_unbounded


def test_an_unbounded_feature_is_met_near_and_far_on_both_sides():
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(x.detach().clone())
            return torch.cat([0 * x, x], 1)

    monotone(Spy(), [-INF], [INF], points=2000)
    x = torch.cat(seen).flatten()
    for side in (x[x > 0], -x[x < 0]):
        assert (side < 1e-3).double().mean().item() == pytest.approx(3 / 12, abs=0.05)
        assert (side > 1e3).double().mean().item() == pytest.approx(3 / 12, abs=0.05)


def test_a_half_precision_model_is_looked_at_in_double():
    assert monotone(nn.Linear(1, 2).half(), [0.0], [INF], seed=1).monotone


def test_far_away_the_sign_stays():
    """Confidence is one to thousands of digits nearly everywhere in this box."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)).double()
    with torch.no_grad():
        net[0].weight.abs_()
        net[0].bias.abs_()
        net[2].weight.copy_(torch.stack([torch.zeros(16), net[2].weight[1].abs()]))
    record = monotone(net, [0, 0, 0], [INF, INF, INF], reach=1e12)
    assert record.signs == ((-1, 1),) * 3


def test_points_stay_within_reach():
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(x.detach().clone())
            return torch.cat([x[:, :1], x[:, 1:].sum(1, keepdim=True)], 1)

    monotone(Spy(), [2, -INF, -INF, -1], [INF, 3, INF, 1], reach=1e4, points=2000)
    x = torch.cat(seen).T
    assert x[0].min() >= 2
    assert 1e3 < x[0].max() <= 2 + 1e4
    assert x[1].max() <= 3
    assert 3 - 1e4 <= x[1].min() < -1e3
    assert (x[2] > 0).double().mean().item() == pytest.approx(0.5, abs=0.05)
    assert (x[2].abs() > 1).double().mean().item() == pytest.approx(
        4 / 12, abs=0.05
    )  # the outer 4 of 12 decades
    assert x[3].min() >= -1
    assert x[3].max() <= 1
    assert x[3].mean().item() == pytest.approx(0, abs=0.05)


def test_image_boxes_and_records(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten(), nn.Linear(4, 2)).double()
    low, high = torch.zeros(1, 3, 3), torch.ones(1, 3, 3)
    high[0, 2, 1] = INF
    record = monotone(net, low, high, features=[7, 0], points=50)
    weights = torch.autograd.functional.jacobian(
        lambda x: net(x)[0], torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    )
    slopes = (weights[1] - weights[0]).flatten()[[7, 0]]
    assert record.signs == tuple((-int(s), int(s)) for s in slopes.sign())
    assert record.high[7] is None
    assert record.low == (0.0,) * 9
    record.save(tmp_path / "m.json")
    assert Monotonicity.load(tmp_path / "m.json") == record
    folded = monotone(Fold(), [-5, -5], [5, 5])
    assert Monotonicity.from_json(folded.to_json()) == folded


def test_model_and_randomness_are_left_alone_and_the_seed_decides():
    net = nn.Sequential(
        nn.ReLU(inplace=True), nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)
    ).train()
    before, random = (
        {key: value.clone() for key, value in net.state_dict().items()},
        torch.random.get_rng_state(),
    )
    first = monotone(net, [-1, -1], [1, 1], points=64)
    assert torch.equal(random, torch.random.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    again = monotone(net, [-1, -1], [1, 1], points=64, batch_size=7)
    assert again.counter_example == first.counter_example
    assert (
        monotone(net, [-1, -1], [1, 1], points=64, seed=1).counter_example != first.counter_example
    )


def test_it_is_reached_from_the_package():
    assert nescio.audit.monotone is monotone


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": [0, 2]}, "feature 1 runs from 2 to 1"),
        ({"low": [INF, 0]}, "feature 0 runs from inf"),
        ({"low": [-INF, 0], "high": [-INF, 1]}, "feature 0 runs from -inf to -inf"),
        ({"low": [0, torch.nan]}, "low has NaN"),
        ({"high": [1]}, r"low has shape \(2,\) and high \(1,\)"),
        ({"high": 1.0}, "high has shape"),
        ({"high": []}, "high has shape"),
        ({"high": "far"}, "high='far'"),
        ({"high": [[1, 2], [3]]}, "expected a number for each"),
        ({"low": [1, 1]}, "low equals high everywhere"),
        ({"low": [0, 0, 0], "high": [1, 1, 1]}, "cannot be run on a batch of shape"),
        ({"features": [2]}, "≥ 0 and < 2, got 2"),
        ({"features": []}, "no features"),
        ({"points": 1}, "points must be"),
        ({"reach": 0}, "reach must be"),
        ({"reach": INF}, "reach must be"),
        ({"reach": "far"}, "reach must be"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"model": torch.sin}, "must be a torch.nn.Module"),
    ],
)
def test_bad_input_raises(change, message):
    given = {"model": linear([[1.0, 2.0], [0.0, 0.0]]), "low": [0, 0], "high": [1, 1]} | change
    with pytest.raises(NescioError, match=message):
        monotone(given.pop("model"), given.pop("low"), given.pop("high"), **given)


class Rooted(nn.Module):
    """No slope that is a number."""

    def forward(self, x):
        return torch.cat([(0 * x).sqrt(), x], 1)


def test_a_slope_that_is_not_finite_raises():
    with pytest.raises(NescioError, match="NaN or infinite at 256 of 256 points"):
        monotone(Rooted(), [-1], [1], points=256)
