"""Rows moved along one feature: against closed forms, and against grids."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.audit import per_feature
from nescio.errors import NescioError
from nescio.methods import DUQ, RBFNetwork
from nescio.models import mlp
from nescio.records import FeatureAudit
from small_nets import Draws, linear

ODDS = math.log(999)  # log-odds of 99.9 %
WEIGHT, BIAS = np.array([0.7, -2.0, 0.0]), 0.3  # of the log-odds of class 1


def logistic(weight=WEIGHT, bias=BIAS):
    """Return a network of two classes whose log-odds are `weight · x + bias`."""
    return linear(np.stack([np.zeros(len(weight)), weight]), [0.0, bias])


@pytest.fixture
def rows(seed):
    return torch.randn(10, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def wild(seed):
    """A network whose confidence goes up and down."""
    torch.manual_seed(seed)
    net = mlp(2, 3, hidden=(12, 12)).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(2.5)
    return net


def quartiles(distances):
    """Return the smallest distances that a quarter, half, three quarters of rows lie within."""
    ordered = sorted(distances)
    values = [ordered[math.ceil(level * len(ordered)) - 1] for level in (0.25, 0.5, 0.75)]
    return [value if math.isfinite(value) else None for value in values]


def quartiles_of(reach):
    return [reach.lower, reach.median, reach.upper]


def test_a_logistic_regression_does_what_is_known_by_hand(rows):
    audit = per_feature(logistic(), rows, names=["age", "weight", "idle"], classes=["well", "ill"])
    odds = rows.numpy() @ WEIGHT + BIAS
    assert (audit.rows, audit.draws, audit.classes, audit.eps) == (10, 1, ("well", "ill"), None)
    assert audit.already == np.mean(abs(odds) >= ODDS)
    for feature, weight, column in zip(audit.features, WEIGHT, rows.numpy().T, strict=True):
        assert (feature.low, feature.high) == (column.min(), column.max())
        assert feature.spread == pytest.approx(column.std())
        for side, sign in ((feature.lower, -1), (feature.higher, 1)):
            assert side.certain.proved == 1
            assert side.unknown is None
            if weight == 0:
                continue
            slope = sign * weight
            distances = np.where(abs(odds) >= ODDS, 0, (np.sign(slope) * ODDS - odds) / slope)
            assert quartiles_of(side.certain) == pytest.approx(quartiles(distances))
            assert side.certain.spreads == pytest.approx(side.certain.median / column.std())
            assert side.certain.rows == side.ends_certain == 1
            assert side.ends == ((0, 10) if slope > 0 else (10, 0))
            ill = int((odds + slope * distances > 0).sum())
            assert side.certain_of == (10 - ill, ill)


def test_distances_are_those_of_rows_that_are_not_certain_yet():
    """Of odds 0, 2 and twice 9, only the first two have a way to go."""
    odds = torch.tensor([0.0, 2.0, 9.0, 9.0])
    audit = per_feature(
        logistic(), torch.stack([odds / WEIGHT[0], 0 * odds, 0 * odds], 1), features=[0]
    )
    side = audit.features[0].higher
    ways = [(ODDS - BIAS - way) / WEIGHT[0] for way in (0, 2)]
    assert audit.already == 0.5
    assert quartiles_of(side.certain) == pytest.approx(quartiles(ways))
    assert side.certain.rows == 1


def test_a_feature_without_weight_never_gets_there(rows):
    audit = per_feature(logistic(), rows, features=[2])
    odds = rows.numpy() @ WEIGHT + BIAS
    sure = float(np.mean(abs(odds) >= ODDS))
    (idle,) = audit.features
    for side in (idle.lower, idle.higher):
        assert side.certain.rows == sure < 0.5
        assert (side.certain.median, side.certain.spreads, side.ends_certain) == (None, None, 0)
        assert side.certain_of == (int((odds <= -ODDS).sum()), int((odds >= ODDS).sum()))
        assert side.ends == (int((odds <= 0).sum()), int((odds > 0).sum()))
    assert idle.monotone is False


def test_certain_everywhere_is_not_tending_to_one():
    """A softmax of odds of 60 rounds to 1, but where nothing moves it tends nowhere."""
    audit = per_feature(logistic(bias=60.0), torch.zeros(2, 3), features=[0, 2])
    rising, idle = audit.features
    assert audit.already == idle.higher.certain.rows == 1
    assert quartiles_of(idle.higher.certain) == [0, 0, 0]
    assert (rising.higher.ends_certain, idle.higher.ends_certain) == (1, 0)


def test_a_unit_that_dies_leaves_the_model_unsure():
    """Odds of `10 relu(1 − x)`: certain of class 1 below, even above."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        for weight, value in zip(
            net.parameters(), ([[-1.0]], [1.0], [[0.0], [10.0]], [0.0, 0.0]), strict=True
        ):
            weight.copy_(torch.tensor(value))
    (feature,) = per_feature(net, torch.tensor([[0.5], [0.7]])).features
    lower, higher = feature.lower, feature.higher
    assert quartiles_of(lower.certain) == pytest.approx(
        [ODDS / 10 - 0.5, ODDS / 10 - 0.5, ODDS / 10 - 0.3]
    )
    assert (lower.ends, lower.ends_certain) == ((0, 2), 1)
    assert quartiles_of(higher.certain) == [None] * 3
    assert (higher.certain.rows, higher.certain.proved, higher.ends_certain) == (0, 1, 0)
    assert feature.monotone


def test_what_it_is_certain_of_first_need_not_be_where_it_ends():
    """Odds of `x` up to 10, and then down."""

    class Peak(nn.Module):
        def forward(self, x):
            odds = x - 3 * (x - 10).relu()
            return torch.cat([0 * odds, odds], 1)

    side = per_feature(Peak(), torch.tensor([[0.0]])).features[0].higher
    assert (side.certain_of, side.ends) == ((0, 1), (1, 0))
    assert side.certain.median == pytest.approx(ODDS)


def test_half_of_the_rows_are_enough_for_a_median():
    """Odds that rise to 10 for some rows and to 5 for others, and then stay."""

    class Ramp(nn.Module):
        def forward(self, x):
            odds = x[:, :1].relu() - (x[:, :1] - 5).relu() + x[:, 1:]
            return torch.cat([0 * odds, odds], 1)

    def reach(*others):
        rows = torch.tensor([[0.0, other] for other in others])
        return per_feature(Ramp(), rows, features=[0]).features[0].higher.certain

    even = reach(5.0, 0.0)
    assert (even.rows, even.median, even.upper) == (0.5, pytest.approx(ODDS - 5), None)
    less = reach(5.0, 0.0, 0.0)
    assert (less.rows, less.lower, less.median) == (
        pytest.approx(1 / 3),
        pytest.approx(ODDS - 5),
        None,
    )


def test_agrees_with_a_grid(wild, seed):
    def within(distance):
        return 40 if distance is None else min(distance, 40)

    rows = torch.randn(9, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    audit = per_feature(wild, rows)
    grid = torch.linspace(0, 40, 8001, dtype=torch.float64)
    for feature in audit.features:
        for side, sign in ((feature.lower, -1.0), (feature.higher, 1.0)):
            moved = rows[:, None].repeat(1, len(grid), 1)
            moved[:, :, feature.position] += sign * grid
            with torch.no_grad():
                confidence = wild(moved.flatten(0, 1)).softmax(1).amax(1).view(len(rows), -1)
                far = rows.clone()
                far[:, feature.position] += sign * 1e7
                end = wild(far).softmax(1)
            sure = confidence >= 0.999
            first = torch.where(sure.any(1), grid[sure.int().argmax(1)], torch.inf)
            for mine, theirs in zip(
                quartiles_of(side.certain), quartiles(first.tolist()), strict=True
            ):
                assert within(mine) == pytest.approx(within(theirs), abs=0.005)
            assert side.ends == tuple(end.argmax(1).bincount(minlength=3).tolist())
            assert side.ends_certain == (end.amax(1) == 1).double().mean()
    assert (
        sum(side.certain.proved for one in audit.features for side in (one.lower, one.higher)) == 4
    )


def test_members_of_an_ensemble_are_measured(rows):
    steep, flat = logistic([1.0, 1.0, 0.0], 0.0), logistic([2.0, -1.0, 0.0], 0.0)
    audit = per_feature(Draws(steep, flat), torch.zeros(1, 3))
    agreed, torn, _ = audit.features
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        sure = (1 / (1 + math.exp(-middle)) + 1 / (1 + math.exp(-2 * middle))) / 2 >= 0.999
        low, high = (low, middle) if sure else (middle, high)
    for side, ends in ((agreed.lower, (1, 0)), (agreed.higher, (0, 1))):
        assert side.certain.median == pytest.approx(high, rel=1e-4)
        assert (side.certain.proved, side.ends, side.ends_certain) == (0, ends, 1)
        assert audit.draws == 2
    for side in (torn.lower, torn.higher):
        assert (side.certain.median, side.ends_certain) == (None, 0)


def test_what_is_not_affine_is_measured(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(1, 8), nn.GELU(), nn.Linear(8, 2)).double()
    rows = torch.tensor([[-1.0], [0.2], [0.9]], dtype=torch.float64)
    (feature,) = per_feature(net, rows).features
    for side, sign in ((feature.lower, -1), (feature.higher, 1)):
        assert (side.ends, side.ends_certain, side.certain.proved) == (None, None, 0)
        assert side.certain.rows == 1
        with torch.no_grad():
            grid = torch.linspace(0, 1, 4001, dtype=torch.float64) * 1.5 * side.certain.upper
            confidence = torch.stack(
                [net(row + sign * grid[:, None]).softmax(1).amax(1) for row in rows]
            )
        first = grid[(confidence >= 0.999).int().argmax(1)]
        assert quartiles_of(side.certain) == pytest.approx(
            quartiles(first.tolist()), abs=grid[1].item()
        )


@pytest.fixture
def kernels():
    """DUQ around 0 and 2 on the line."""
    duq = DUQ(nn.Linear(1, 1), 2, centroid_size=1, length_scale=1.0).double()
    with torch.no_grad():
        duq.net.weight.fill_(1.0)
        duq.net.bias.fill_(0.0)
        duq.weight.fill_(1.0)
        duq.centroids.copy_(torch.tensor([[0.0], [2.0]]))
    return duq


def test_duq_knows_nothing_beyond_a_root(kernels):
    audit = per_feature(kernels, torch.tensor([[0.5], [1.5]]), eps=1e-3)
    (feature,) = audit.features
    width = math.sqrt(2 * math.log(1000))
    assert quartiles_of(feature.lower.unknown) == pytest.approx(
        [width + 0.5, width + 0.5, width + 1.5]
    )
    assert quartiles_of(feature.higher.unknown) == pytest.approx(
        [width + 0.5, width + 0.5, width + 1.5]
    )
    assert feature.lower.certain.proved == 0
    assert feature.lower.unknown.spreads == pytest.approx((width + 0.5) / 0.5)
    assert (feature.lower.unknown.rows, feature.lower.unknown.proved) == (1, 1)
    assert (feature.lower.ends, feature.lower.ends_certain, feature.monotone) == (None, None, None)
    assert audit.eps == 1e-3
    wider = per_feature(kernels, torch.tensor([[0.5], [1.5]]), eps=1e-6).features[0].lower.unknown
    assert wider.median == pytest.approx(math.sqrt(2 * math.log(1e6)) + 0.5)


def test_an_rbf_network_knows_nothing_far_away():
    model = RBFNetwork(torch.tensor([[0.0, 0.0], [2.0, 1.0]]), gamma=1.0, classes=2)
    nescio.train(
        model,
        (torch.tensor([[0.0, 0.0], [2.0, 1.0]]), torch.tensor([0, 1])),
        epochs=1,
        progress=False,
    )
    for feature in per_feature(model, torch.tensor([[0.0, 0.5], [1.0, 0.5]])).features:
        for sign, side in ((-1, feature.lower), (1, feature.higher)):
            assert (side.unknown.rows, side.unknown.proved, side.ends) == (1, 0, None)
            far = torch.tensor([[0.0, 0.5], [1.0, 0.5]])
            far[:, feature.position] += sign * side.unknown.upper
            assert nescio.predict(model, far).softmax(2).amax() < 0.501


def test_a_duq_over_what_is_not_affine_is_measured():
    torch.manual_seed(0)
    duq = DUQ(nn.Sequential(nn.Linear(1, 4), nn.Tanh()), 2, features=4)
    side = per_feature(duq, torch.zeros(1, 1)).features[0].higher
    assert (side.unknown, side.ends, side.certain.proved) == (None, None, 0)


def test_distances_are_in_the_units_of_the_feature(wild, seed):
    rows = torch.randn(5, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    metres = per_feature(wild, rows, features=[0]).features[0]
    scale = torch.tensor([1024.0, 1.0], dtype=torch.float64)  # a power of two, which rounds nothing

    class Smaller(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = wild

        def forward(self, x):
            return self.net(x / scale)

    less = per_feature(Smaller(), rows * scale, features=[0]).features[0]
    assert less.spread == pytest.approx(1024 * metres.spread)
    assert less.monotone == metres.monotone
    for one, other in ((metres.lower, less.lower), (metres.higher, less.higher)):
        far = [None if value is None else 1024 * value for value in quartiles_of(one.certain)]
        assert quartiles_of(other.certain) == [
            None if value is None else pytest.approx(value) for value in far
        ]
        assert other.certain.spreads == (
            None if one.certain.spreads is None else pytest.approx(one.certain.spreads)
        )
        assert (other.ends, other.ends_certain) == (one.ends, one.ends_certain)


def test_lower_and_higher_change_places_in_a_mirror(rows):
    one, other = per_feature(logistic(), rows), per_feature(logistic(-WEIGHT), -rows)
    for mine, theirs in zip(one.features, other.features, strict=True):
        assert mine.lower == theirs.higher
        assert mine.higher == theirs.lower
        assert (mine.low, mine.spread) == (-theirs.high, theirs.spread)
    assert one.features[0].lower != one.features[0].higher


def test_one_row_has_distances_but_no_spread(rows):
    audit = per_feature(logistic(), rows[:1], features=[0])
    (feature,) = audit.features
    assert (feature.spread, feature.monotone, feature.higher.certain.spreads) == (None, None, None)
    odds = float(rows[0].numpy() @ WEIGHT + BIAS)
    assert feature.higher.certain.median == pytest.approx((ODDS - odds) / 0.7)
    assert feature.low == feature.high == rows[0, 0]
    assert FeatureAudit.from_json(audit.to_json()) == audit


def test_a_column_that_is_the_same_in_all_rows(rows):
    rows[:, 0] = 0.1  # whose mean over ten is not 0.1
    still, moves, _ = per_feature(logistic(), rows).features
    assert (still.spread, still.monotone, still.higher.certain.spreads) == (None, None, None)
    assert still.higher.certain.median > 0
    assert moves.monotone
    assert moves.higher.certain.spreads > 0


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_spreads_of_tiny_and_of_huge_units(unit):
    x = torch.tensor([[1.0], [3.0]], dtype=torch.float64) * unit
    (feature,) = per_feature(logistic([0.0], 0.0), x).features
    assert feature.spread == pytest.approx(unit, rel=1e-12, abs=0)


def test_a_hill_is_not_monotone():
    class Hill(nn.Module):
        def forward(self, x):
            odds = x[:, :1].abs() + x[:, 1:]
            return torch.cat([0 * odds, odds], 1)

    x = torch.tensor([[-1.0, 0.0], [1.0, 2.0]])
    assert [one.monotone for one in per_feature(Hill(), x).features] == [False, True]
    beyond = torch.tensor([[0.5, 0.0], [1.0, 2.0]])  # between these rows it only rises
    assert [one.monotone for one in per_feature(Hill(), beyond).features] == [True, True]


def test_features_by_name_in_the_order_given(rows):
    audit = per_feature(logistic(), rows, names=["a", "b", "c"], features=["c", 0])
    assert [(one.name, one.position) for one in audit.features] == [("c", 2), ("a", 0)]
    assert audit.provenance.settings["features"] == ["c", "a"]
    bare = per_feature(logistic(), (rows, torch.zeros(10).long()), features=1)
    assert [one.name for one in bare.features] == ["feature 1"]
    assert bare.classes == ("class 0", "class 1")


def test_another_bar(rows):
    audit = per_feature(logistic(), rows[:1], features=[0], confidence=0.9)
    odds = float(rows[0].numpy() @ WEIGHT + BIAS)
    distance = 0.0 if abs(odds) >= math.log(9) else (math.log(9) - odds) / 0.7
    assert (audit.confidence, audit.features[0].higher.certain.median) == (
        0.9,
        pytest.approx(distance),
    )


def test_without_following_rays_nothing_is_proved_first(wild):
    rows = torch.zeros(2, 2, dtype=torch.float64)
    followed, scanned = (
        per_feature(wild, rows, limit=limit).features[0].higher for limit in (1000, 0)
    )
    assert (followed.certain.proved, scanned.certain.proved) == (1, 0)
    assert (scanned.ends, scanned.ends_certain) == (followed.ends, followed.ends_certain)


def test_record_goes_through_json(wild, kernels, tmp_path):
    for number, audit in enumerate(
        (
            per_feature(wild, torch.tensor([[0.0, 1.0], [1.0, 1.0]]), seed=3),
            per_feature(kernels, torch.tensor([[0.5]])),
        )
    ):
        audit.save(tmp_path / f"{number}.json")
        assert FeatureAudit.load(tmp_path / f"{number}.json") == audit
    assert per_feature(wild, torch.zeros(1, 2), seed=3).provenance.seed == 3


def test_model_and_rows_are_left_alone_and_batchnorm_warns_once(rows):
    net = (
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
        .double()
        .train()
    )
    before = {key: value.clone() for key, value in net.state_dict().items()}
    kept, random = rows.clone(), torch.random.get_rng_state()
    with pytest.warns(UserWarning, match="eval mode") as warned:
        per_feature(net, rows[:2])
    assert len(warned) == 1
    assert torch.equal(rows, kept)
    assert torch.equal(random, torch.random.get_rng_state())
    assert all(module.training for module in net.modules())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.ones(2, 1, 4, 4)}, r"shape \(1, 4, 4\); expected rows \(N, D\) of a table"),
        ({"x": torch.tensor([[0.0, torch.nan, 1.0]])}, "input 0 holds NaN"),
        ({"x": torch.ones(2, 3).long()}, "floating point"),
        ({"x": torch.zeros(0, 3)}, "empty"),
        ({"x": torch.ones(2, 5)}, "cannot be run"),
        ({"model": "softmax"}, "must be a torch.nn.Module"),
        ({"features": []}, "no features"),
        ({"features": [3]}, "position"),
        ({"features": ["wieght"], "names": ["height", "weight", "age"]}, "did you mean 'weight'"),
        ({"names": ["a", "b"]}, "2 names"),
        ({"classes": ["ill"]}, "each of 2 classes"),
        ({"classes": "il"}, "each of 2 classes"),
        ({"confidence": 0.4}, "confidence must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"eps": 0.0}, "eps must be"),
        ({"limit": -1}, "limit must be"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_raises(change, message):
    given = {"model": logistic(), "x": torch.ones(2, 3, dtype=torch.float64)} | change
    with pytest.raises(NescioError, match=message):
        per_feature(given.pop("model"), given.pop("x"), **given)
