"""What a fit promises holds for new data, over many draws of the data it was fitted on."""

import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.detectors import Threshold
from nescio.errors import NescioError
from nescio.guarantees import Accept, AcceptPerClass, Balanced, ControlRisk

FITS, NEW = 150, 400


@pytest.fixture(scope="module")
def model():
    """Two classes along the first of two axes, of which answers near 0 are often wrong."""
    net = nn.Linear(2, 2)
    net.load_state_dict({"weight": torch.tensor([[1.0, 0.2], [-1.0, 0.0]]), "bias": torch.zeros(2)})
    return net


def drawn(count, generator):
    x = torch.randn(count, 2, generator=generator)
    flipped = torch.rand(count, generator=generator) < torch.sigmoid(-4 * x[:, 0].abs())
    return Samples(x, (x[:, 0] < 0).long() ^ flipped.long())


@pytest.mark.parametrize("accept", [0.8, 0.95])
@pytest.mark.parametrize("score", ["max_prob", "energy"])
def test_known_inputs_are_accepted_as_often_as_promised(model, accept, score):
    """With probability k/(n + 1), k the smallest that is enough: neither less nor much more."""
    generator = torch.Generator().manual_seed(0)
    kept = []
    for _ in range(FITS):
        detector = Threshold(model, score).fit(drawn(39, generator), accept=accept)
        kept.append((detector.predict(drawn(NEW, generator)) != -1).double().mean())
    kept = torch.stack(kept)
    spread = 4 * kept.std() / FITS**0.5
    assert accept - spread <= kept.mean() <= accept + 1 / 40 + spread


def test_p_values_of_known_inputs_are_small_no_more_often_than_they_say(model):
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(FITS):
        detector = Threshold(model, "max_prob").fit(drawn(39, generator), accept=0.9)
        found.append(detector.p_value(drawn(NEW, generator)))
    found = torch.stack(found)
    for level in (0.05, 0.1, 0.25, 0.5, 0.9):
        share = (found <= level).double().mean(1)
        spread = 4 * share.std() / FITS**0.5
        assert level - 1 / 40 - spread <= share.mean() <= level + spread


@pytest.mark.parametrize("per_class", [False, True])
def test_each_class_is_accepted_as_often_as_promised(model, per_class):
    """One threshold for two classes fails the one that scores higher; one for each does not."""
    generator = torch.Generator().manual_seed(0)

    def lopsided(count):
        data = drawn(count, generator)
        return Samples(
            torch.where(data.inputs[:, :1] < 0, data.inputs / 8, data.inputs), data.labels
        )

    kept = []
    for _ in range(FITS):
        detector = Threshold(model, "max_prob").fit(lopsided(200), accept=0.9, per_class=per_class)
        new = lopsided(NEW)
        predicted = nescio.predict(model, new)[0].argmax(1)
        answers = detector.predict(new)
        kept.append(
            torch.stack([(answers[predicted == label] != -1).double().mean() for label in (0, 1)])
        )
    kept = torch.stack(kept).mean(0)
    if per_class:
        assert ((kept > 0.9 - 0.01) & (kept < 0.9 + 0.02)).all()
    else:
        assert kept[1] < 0.85


@pytest.mark.parametrize(("risk", "confidence"), [(0.1, 0.9), (0.07, 0.8)])
def test_the_risk_is_kept_with_the_confidence_that_was_asked_for(model, risk, confidence):
    generator = torch.Generator().manual_seed(0)
    new = drawn(200_000, generator)
    logits = nescio.predict(model, new)
    scores, wrong = nescio.scores.max_prob(logits), logits[0].argmax(1) != new.labels
    kept, covered = [], []
    for _ in range(FITS):
        detector = Threshold(model, "max_prob").fit(
            drawn(1000, generator), risk=risk, confidence_level=confidence
        )
        accepted = scores <= detector.threshold_.float()
        kept.append(wrong[accepted].double().mean() <= risk)
        covered.append(accepted.double().mean())
    share = torch.stack(kept).double().mean()
    assert share >= confidence - 3 * (confidence * (1 - confidence) / FITS) ** 0.5
    # at the risk itself the best threshold that exists accepts this many
    order = scores.argsort()
    running = wrong[order].double().cumsum(0) / torch.arange(1, len(order) + 1)
    best = (running <= risk).nonzero().max() / len(order)
    assert best - 0.25 < torch.stack(covered).mean() < best


def test_an_input_whose_score_is_no_number_is_unknown_and_has_the_p_value_0():
    class Overflows(nescio.Threshold):
        def score_batch(self, x, seen):
            return x[:, 0] ** 4 - x[:, 0] ** 4 + x[:, 0]

    torch.manual_seed(0)
    net = nn.Linear(2, 3)
    detector = Overflows(net).fit(torch.randn(100, 2))
    x = torch.tensor([[0.0, 0.0], [1e20, 0.0]])
    assert detector.predict(x)[1] == -1
    assert (detector.p_value(x) == 0).tolist() == [False, True]
    assert "nan" not in detector.explain(x)[1].verdict


def test_a_model_that_needs_more_than_one_input_is_reported():
    net = nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 3))
    with pytest.raises(NescioError, match="answers 8 inputs, but not one alone"):
        Threshold(net, "energy").fit(torch.randn(100, 2))


def test_a_verdict_by_class_speaks_of_known_inputs_of_that_class():
    torch.manual_seed(0)
    detector = Threshold(nn.Linear(2, 3), "energy").fit(torch.randn(400, 2), 0.5, per_class=True)
    for one in detector.explain(torch.randn(20, 2)):
        assert (
            f"of known inputs predicted as class {one.predicted} score at least as high"
            in one.verdict
        )


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"accept": 0.8}, Accept(0.8)),
        ({"accept": 0.6, "per_class": True}, AcceptPerClass(0.6)),
        ({"risk": 0.3, "confidence_level": 0.8}, ControlRisk(0.3, 0.8)),
        ({"balanced": True}, Balanced()),
    ],
)
def test_a_rule_may_take_the_place_of_arguments(arguments, rule):
    torch.manual_seed(0)
    net, x = nn.Linear(2, 3), torch.randn(600, 2)
    wrong = torch.rand(600) < 0.1
    data = Samples(x, (net(x).argmax(1) + wrong) % 3)
    named = Threshold(net, "max_prob").fit(data, **arguments)
    given = Threshold(net, "max_prob").fit(data, rule=rule)
    assert torch.equal(named.threshold_, given.threshold_)
    assert named.rule == given.rule == rule
    assert rule.promise(given.controlled) in repr(given)
    with pytest.raises(NescioError, match=r"two ways|per class"):
        Threshold(net).fit(data, **arguments, rule=rule)


def test_a_fit_that_is_refused_keeps_the_last_one():
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    detector = nescio.Threshold(torch.nn.Linear(3, 3), "energy").fit(x)
    before = float(detector.threshold_)
    with pytest.raises(nescio.NescioError, match="rule must be a rule"):
        detector.fit(x, rule="accept")
    assert float(detector.threshold_) == before
