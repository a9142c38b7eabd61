"""Scaled inputs: against closed forms of a logistic regression, and one input at a time."""

import math

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.audit import scaling
from nescio.core.logits import softmax_confidence
from nescio.errors import NescioError
from nescio.records import Scaling
from nescio.scores import OF_LOGITS, natural
from small_nets import Draws, linear

WEIGHTS = np.array([[0.3, -1.0, 0.0], [-0.2, 0.4, 0.0]])
DIFFERENCE = WEIGHTS[0] - WEIGHTS[1]  # of the log-odds of class 0


def logistic(weights=WEIGHTS, dtype=torch.float64):
    return linear(weights, dtype=dtype)


@pytest.fixture
def ensemble(seed):
    torch.manual_seed(seed)
    return Draws(*(nescio.models.mlp(3, 4, hidden=(8,)) for _ in range(3))).double()


@pytest.fixture
def inputs(seed):
    x = torch.randn(21, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x[:5, 1] = 0
    return x


def exact(z):
    """Return confidence, 1 − confidence, entropy and both slopes at log-odds z, in 50 digits."""
    with mpmath.workdps(50 + int(abs(z))):
        p, q = 1 / (1 + mpmath.exp(-abs(z))), 1 / (1 + mpmath.exp(abs(z)))
        h = -p * mpmath.log(p) - q * mpmath.log(q)
        return [float(v) for v in (p, q, h, p * q, p * q * abs(z))]


def test_a_logistic_regression_does_what_is_known_by_hand():
    x = np.array([0.7, -0.4, 2.0])
    record = scaling(logistic(), torch.tensor(x)[None], alphas=[1, 3, 30, 300])
    slope = np.linalg.norm(DIFFERENCE)
    for direction, moved in zip(record.directions, (*np.eye(3), np.ones(3)), strict=True):
        for i, factor in enumerate(record.factors):
            z = DIFFERENCE @ (x * np.where(moved, factor, 1))
            p, q, h, dq, dh = exact(z)
            max_prob, entropy = direction.scores
            assert direction.confidence[i] == pytest.approx(p, rel=1e-12, abs=0)
            assert max_prob.mean[i] == pytest.approx(q, rel=1e-10, abs=0)
            assert entropy.mean[i] == pytest.approx(h, rel=1e-10, abs=0)
            assert max_prob.gradient_mean[i] == pytest.approx(dq * slope, rel=1e-10, abs=0)
            assert entropy.gradient_mean[i] == pytest.approx(dh * slope, rel=1e-10, abs=0)
            assert entropy.gradient_largest[i] == entropy.gradient_mean[i]


@pytest.mark.parametrize("position", [0, 1])
def test_certain_from_the_first_factor_beyond_the_one_known_by_hand(position):
    x, factors = np.array([0.7, -0.4, 2.0]), np.geomspace(1, 1e3, 200)
    rest = DIFFERENCE @ x - DIFFERENCE[position] * x[position]
    crossing = max(
        (s * math.log(999) - rest) / (DIFFERENCE[position] * x[position]) for s in (1, -1)
    )
    record = scaling(
        logistic(), torch.tensor(x)[None], features=position, rays=False, alphas=factors
    )
    assert record.directions[0].certain_from == factors[factors > crossing][0]
    below = factors[factors < crossing]
    assert (
        scaling(logistic(), torch.tensor(x)[None], features=position, alphas=below)
        .directions[0]
        .certain_from
        is None
    )


class Gap(nn.Module):
    """Certain of class 1 up to about 4, of class 0 from about 6 on, and unsure between."""

    def forward(self, x):
        return torch.cat([20 * (x - 5).relu(), 50 * (4 - x).relu()], 1)


def test_certainty_must_last():
    one = scaling(Gap(), torch.ones(3, 1), alphas=[1, 2, 5, 6, 7], rays=False).directions[0]
    assert [p > 0.999 for p in one.median_confidence] == [True, True, False, True, True]
    assert one.certain_from == 6


def test_by_default_the_scores_of_the_theorem_that_the_draws_allow(ensemble, inputs):
    many, one = scaling(ensemble, inputs, alphas=[1]), scaling(ensemble.nets[0], inputs, alphas=[1])
    assert [gauge.score for gauge in many.gauges] == [
        "max_prob",
        "variance",
        "entropy",
        "mutual_information",
    ]
    assert [gauge.score for gauge in one.gauges] == ["max_prob", "entropy"]
    assert [gauge.label for gauge in one.gauges] == ["1 − max p", "entropy"]


@pytest.mark.slow
def test_agrees_with_one_input_at_a_time(ensemble, inputs):
    """Every figure of the record, by a loop and plain autograd."""
    alphas, names = [0.5, 20, 400], list(OF_LOGITS)
    record = scaling(ensemble, inputs, alphas=alphas, scores=names, batch_size=29)
    kept = {
        name: sorted(natural(name, OF_LOGITS[name](ensemble(inputs))).tolist())[
            math.ceil(0.95 * 21) - 1
        ]
        for name in names
    }
    assert {gauge.score: gauge.threshold for gauge in record.gauges} == pytest.approx(
        kept, rel=1e-9
    )
    assert [one.moved for one in record.directions] == [21, 16, 21, 21]
    for direction in record.directions:
        rows = [x for x in inputs if direction.feature is None or x[direction.feature] != 0]
        for i, factor in enumerate(alphas):
            confidence, values, norms = (
                [],
                {name: [] for name in names},
                {name: [] for name in names},
            )
            for row in rows:
                x = row.clone()
                x[slice(None) if direction.feature is None else direction.feature] *= factor
                x = x[None].requires_grad_()
                logits = ensemble(x)
                confidence.append(softmax_confidence(logits).item())
                for name in names:
                    value = natural(name, OF_LOGITS[name](logits))
                    values[name].append(value.item())
                    norms[name].append(
                        torch.autograd.grad(value.sum(), x, retain_graph=True)[0].norm().item()
                    )
            assert direction.confidence[i] == pytest.approx(np.mean(confidence))
            assert direction.median_confidence[i] == pytest.approx(
                sorted(confidence)[(len(rows) - 1) // 2]
            )
            for course in direction.scores:
                cut = kept[course.score] + 1e-9 * abs(kept[course.score])
                near = {"rel": 1e-6, "abs": 0}
                assert course.mean[i] == pytest.approx(np.mean(values[course.score]), **near)
                assert course.gradient_mean[i] == pytest.approx(
                    np.mean(norms[course.score]), **near
                )
                assert course.gradient_largest[i] == pytest.approx(
                    np.max(norms[course.score]), **near
                )
                assert course.flagged[i] == pytest.approx(
                    np.mean(np.array(values[course.score]) > cut)
                )
                assert course.notices == (course.flagged[-1] >= 0.5)


def test_draws_that_contradict_each_other_are_noticed_and_a_single_one_is_not():
    one, other = (
        logistic(np.array([[1.0, 0.1], [0.0, 0.0]])),
        logistic(np.array([[-1.0, 0.1], [0.0, 0.0]])),
    )
    x = 0.5 + torch.rand(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = scaling(Draws(one, other), x).directions[0]
    assert all(course.notices for course in direction.scores)
    assert direction.certain_from is None
    assert direction.confidence[-1] == pytest.approx(0.5)
    assert not any(course.notices for course in scaling(one, x).directions[0].scores)


def test_a_score_of_the_users_own(inputs):
    def spread(logits):
        return logits.std(-1).mean(0)

    record = scaling(logistic(), inputs, alphas=[1, 10], scores=[spread, "entropy"])
    assert sorted(gauge.score for gauge in record.gauges) == ["entropy", "spread"]
    course = next(one for one in record.directions[-1].scores if one.score == "spread")
    x = 10 * inputs.numpy()
    assert course.mean[1] == pytest.approx((abs(x @ DIFFERENCE) / math.sqrt(2)).mean())
    assert course.gradient_mean[1] == pytest.approx(np.linalg.norm(DIFFERENCE) / math.sqrt(2))
    with pytest.raises(NescioError, match=r"<lambda> must return \(21,\) .* got \(1, 21\)"):
        scaling(
            logistic(), inputs, alphas=[1], scores=[lambda logits: logits.sum(-1)], batch_size=100
        )


def test_scores_by_function_are_those_by_name_and_others_keep_apart(inputs):
    how = {"alphas": [1, 10], "rays": False}
    named, given = (
        scaling(logistic(), inputs, scores=[score], **how)
        for score in ("max_prob", OF_LOGITS["max_prob"])
    )
    assert named.gauges == given.gauges
    assert named.directions == given.directions

    def entropy(logits):
        return logits.square().sum((0, 2))

    record = scaling(
        logistic(),
        inputs,
        scores=["entropy", entropy, lambda v: v.mean((0, 2)), lambda v: v.amax((0, 2))],
        **how,
    )
    assert [gauge.score for gauge in record.gauges] == [
        "entropy",
        "entropy (function)",
        "<lambda>",
        "<lambda> 4",
    ]
    assert len({gauge.threshold for gauge in record.gauges}) == 4
    with pytest.raises(NescioError, match=r"the score len must return .* real numbers, got int"):
        scaling(logistic(), inputs, scores=[len], **how)


def test_a_negative_threshold_flags_what_lies_above_it(seed):
    """Energy is −logsumexp: of logits that fall with x it rises from below 0: all is flagged."""
    net = nn.Linear(1, 2).double()
    with torch.no_grad():
        net.weight.fill_(-1.0)
        net.bias.fill_(100.0)
    x = torch.linspace(1, 2, 40, dtype=torch.float64)[:, None]
    record = scaling(net, x, alphas=[1, 1.5, 10], scores=["energy"], rays=False)
    assert record.gauges[0].threshold == pytest.approx(
        x[37].item() - 100 - math.log(2)
    )  # the 38th of 40 accepts 95 %
    flagged = record.directions[0].scores[0].flagged
    assert flagged[0] == pytest.approx(2 / 40)
    assert flagged[1] == pytest.approx((1.5 * x > x[37]).double().mean().item())
    assert flagged[2] == 1


def test_half_flagged_is_noticed():
    net = logistic(np.array([[1.0], [0.0]]))
    x = torch.tensor(
        [[-1.0], [1.0]], dtype=torch.float64
    )  # class 0 falls for one and rises for the other
    record = scaling(net, x, alphas=[1, 2], scores=[lambda logits: -logits[0, :, 0]], rays=False)
    assert record.directions[0].scores[0].flagged[-1] == 0.5
    assert record.directions[0].scores[0].notices


def test_the_confidence_is_the_methods_own(inputs):
    class Humble(nescio.methods.Softmax):
        def confidence(self, logits):
            return 0.5 * super().confidence(logits)

    mine, plain = (
        scaling(kind(logistic()), inputs, alphas=[1, 1e6])
        for kind in (Humble, nescio.methods.Softmax)
    )
    for one, other in zip(mine.directions, plain.directions, strict=True):
        assert one.confidence == pytest.approx([value / 2 for value in other.confidence])
        assert one.certain_from is None


def test_a_feature_the_model_does_not_use_raises_no_flag(inputs):
    """Not even by a last bit: a moved input keeps its score, also at the threshold itself."""
    for batch_size in (1, 7, 256):
        for x in (inputs, inputs[:1]):
            idle = scaling(
                logistic(), x, features=[2], rays=False, alphas=[1, 10, 1e6], batch_size=batch_size
            ).directions[0]
            for course in idle.scores:
                assert len(set(course.flagged)) == 1
                assert course.flagged[0] <= 0.05


def test_inputs_that_are_zero_cannot_be_moved():
    x = torch.tensor([[0.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    record = scaling(logistic(), x)
    assert [one.moved for one in record.directions] == [0, 1, 1, 2]
    still = record.directions[0]
    assert (still.certain_from, still.confidence, still.median_confidence, still.scores) == (
        None,
    ) * 4
    assert Scaling.from_json(record.to_json()) == record


def test_features_by_name_or_position_in_the_order_given(inputs):
    names = ["height", "weight", "age"]
    record = scaling(logistic(), inputs, names=names, features=["age", 0, "age"], alphas=[1, 2])
    assert [(one.name, one.feature) for one in record.directions] == [
        ("age", 2),
        ("height", 0),
        ("ray", None),
    ]
    assert (
        scaling(logistic(), inputs, names=names, features="weight", rays=False)
        .directions[0]
        .feature
        == 1
    )
    assert [
        one.name for one in scaling(logistic(), inputs, features=(), alphas=[1]).directions
    ] == ["ray"]


def test_images_move_along_rays_unless_asked(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
    x = torch.rand(6, 1, 4, 4)
    assert [(one.name, one.moved) for one in scaling(net, x).directions] == [("ray", 6)]
    pixel = scaling(net, x, features=[7], rays=False, alphas=[1000.0]).directions[0]
    moved = x.double().clone()
    moved[:, 0, 1, 3] *= 1000
    by_hand = softmax_confidence(net.double()(moved)[None]).mean().item()
    assert pixel.confidence[0] == pytest.approx(by_hand)


def test_a_float32_model_is_looked_at_in_float64():
    x = torch.tensor([[0.7, -0.4, 2.0]])
    net = logistic(dtype=torch.float32)
    record = scaling(net, x, alphas=[300], features=[1]).directions[0]
    odds = (net.weight[0].double() - net.weight[1].double()) @ (
        x[0].double() * torch.tensor([1.0, 300.0, 1.0])
    )
    assert record.scores[0].mean[0] == pytest.approx(exact(odds.item())[1], rel=1e-10, abs=0)
    assert record.scores[0].mean[0] < 1e-70


def test_model_inputs_and_randomness_are_left_alone(inputs):
    net = nn.Sequential(
        nn.ReLU(inplace=True), nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
    ).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    kept, random = inputs.clone(), torch.random.get_rng_state()
    first = scaling(net, inputs, alphas=[1, 10])
    assert torch.equal(random, torch.random.get_rng_state())
    assert torch.equal(inputs, kept)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    assert scaling(net, inputs, alphas=[1, 10]).directions == first.directions


def test_data_of_other_makes(inputs):
    record = scaling(logistic(), inputs, alphas=[1, 5])
    for data in (inputs.numpy(), (inputs, torch.zeros(21).long()), [inputs[:15], inputs[15:]]):
        assert scaling(logistic(), data, alphas=[1, 5]).directions == record.directions


def test_record_goes_through_json(ensemble, inputs, tmp_path):
    record = scaling(ensemble, inputs, alphas=[1, 1e3], seed=5)
    record.save(tmp_path / "scaling.json")
    assert Scaling.load(tmp_path / "scaling.json") == record
    assert (record.inputs, record.classes, record.draws, record.method) == (21, 4, 3, "softmax")
    assert record.provenance.seed == 5
    assert record.factors == (1.0, 1e3)


def test_by_default_from_one_to_a_million(inputs):
    factors = scaling(logistic(), inputs, features=[0], rays=False).factors
    assert (factors[0], factors[-1], len(factors)) == (1.0, 1e6, 25)


class Rooted(nn.Linear):
    """Finite logits whose gradient is not, where a feature is 0."""

    def forward(self, x):
        return super().forward(x.abs().sqrt())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.tensor([[0.0, torch.nan, 1.0]])}, "input 0 holds NaN"),
        ({"x": torch.tensor([[0.0, 1.0, 1.0], [torch.inf, 1.0, 1.0]])}, "input 1 holds"),
        ({"x": torch.zeros(0, 3)}, "empty"),
        ({"x": torch.ones(3)}, "batch axis"),
        ({"x": torch.ones(2, 5)}, "cannot be run"),
        ({"x": torch.ones(2, 3).long()}, "floating point"),
        (
            {"x": torch.full((2, 3), 1e305, dtype=torch.float64)},
            "1e.06 makes inputs of up to 1e.305 infinite",
        ),
        ({"model": "softmax"}, "must be a torch.nn.Module"),
        (
            {"model": Rooted(3, 2), "x": torch.tensor([[0.0, 1.0, 1.0]])},
            "NaN or infinite for 1 of 1",
        ),
        ({"alphas": []}, "shape"),
        ({"alphas": 3.0}, "shape"),
        ({"alphas": ["a"]}, "expected a sequence"),
        ({"alphas": [1, 3, 3]}, "each larger"),
        ({"alphas": [3, 1]}, "each larger"),
        ({"alphas": [0, 1]}, "above 0"),
        ({"alphas": [1, torch.inf]}, "finite"),
        ({"alphas": [torch.nan]}, "finite"),
        (
            {"features": [3]},
            "feature's position must be an int ≥ 0 and < 3, got 3",
        ),
        ({"features": [-1]}, "position"),
        ({"features": [True]}, "position"),
        ({"features": 0.5}, "position"),
        ({"features": ["wieght"], "names": ["height", "weight", "age"]}, "did you mean 'weight'"),
        ({"names": ["a", "b"]}, "2 names"),
        ({"names": ["a", "b", "a"]}, "1 of them repeated"),
        ({"names": "abc"}, "expected a name for each"),
        ({"features": [], "rays": False}, "nothing to move"),
        ({"scores": ["entropi"]}, "did you mean 'entropy'"),
        ({"scores": ["variance"]}, "compares draws"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_raises(change, message):
    given = {"model": logistic(), "x": torch.ones(2, 3)} | change
    with pytest.raises(NescioError, match=message):
        scaling(given.pop("model"), given.pop("x"), **given)
