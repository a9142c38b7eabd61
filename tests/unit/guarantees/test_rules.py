"""Rules set thresholds from scores alone, without any network."""

from dataclasses import replace

import pytest
import torch

from nescio.errors import NescioError
from nescio.guarantees import Accept, AcceptPerClass, Balanced, CalibrationScores, ControlRisk
from nescio.guarantees.conformal import conformal_threshold
from nescio.guarantees.risk import control_risk
from nescio.guarantees.rules import rule_for
from nescio.metrics import balanced_threshold


@pytest.fixture
def calibration(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(400, generator=generator, dtype=torch.float64)
    correct = torch.rand(400, generator=generator) > torch.special.ndtr(scores - 1)
    return CalibrationScores(scores, torch.arange(400) % 3, correct, 3, " (a note)", 1e-6)


def test_a_fraction_is_accepted(calibration):
    threshold, controlled = Accept(0.9).fit(calibration)
    assert threshold == conformal_threshold(calibration.rounded_up, 0.9)
    assert (calibration.rounded_up <= threshold).sum() == 361  # of 401 ranks
    assert controlled is None
    assert Accept(0.9).promise() == "at least 90 % of known inputs are accepted"


def test_of_each_class_a_fraction_is_accepted(calibration):
    thresholds, _ = AcceptPerClass(0.8).fit(calibration)
    for label, threshold in enumerate(thresholds):
        own = calibration.rounded_up[calibration.predicted == label]
        assert threshold == conformal_threshold(own, 0.8)
    assert "80 % of known inputs of each predicted class" in AcceptPerClass(0.8).promise()
    with pytest.raises(
        NescioError, match=r"0 calibration inputs .* class 3 \(a note\) are too few"
    ):
        AcceptPerClass(0.8).fit(replace(calibration, classes=4))


def test_the_risk_is_controlled(calibration):
    rule = ControlRisk(0.2, 0.9)
    threshold, controlled = rule.fit(calibration)
    scores, correct = calibration.scores, calibration.correct
    assert controlled == control_risk(scores, correct, 0.2, 0.9, 1e-6)
    assert threshold == controlled.threshold
    bound = "at most 20 % of accepted answers are wrong, with confidence level 0.9"
    assert rule.promise() == bound
    assert f"{controlled.errors} of those {controlled.accepted} wrongly" in rule.promise(controlled)


def test_correct_and_wrong_answers_are_balanced(calibration):
    scores, correct = calibration.scores, calibration.correct
    threshold, _ = Balanced().fit(calibration)
    assert threshold == balanced_threshold(scores[correct].numpy(), scores[~correct].numpy())
    assert Balanced().promise().startswith("none")


@pytest.mark.parametrize("rule", [ControlRisk(0.2), Balanced()])
def test_labels_are_asked_for_where_they_are_needed(rule):
    scores = torch.arange(50.0)
    assert rule.needs_labels
    assert not Accept().needs_labels
    with pytest.raises(NescioError, match="labelled data"):
        rule.fit(CalibrationScores(scores, torch.zeros(50), None, 1))
    if rule == Balanced():
        with pytest.raises(NescioError, match="50 of 50 are correct"):
            rule.fit(CalibrationScores(scores, torch.zeros(50), torch.ones(50).bool(), 1))


def test_arguments_ask_for_one_rule():
    assert rule_for() == rule_for(0.95) == Accept(0.95)
    assert rule_for(0.9, per_class=True) == AcceptPerClass(0.9)
    assert rule_for(balanced=True) == Balanced()
    assert rule_for(risk=0.1) == ControlRisk(0.1, 0.95)
    assert rule_for(risk=0.1, confidence_level=0.8) == rule_for(rule=ControlRisk(0.1, 0.8))
    for wrong, words in (
        ({"accept": 0.9, "risk": 0.1}, "accept 0.9 and risk 0.1 are two ways"),
        ({"accept": 0.9, "rule": Accept(0.8)}, "two ways"),
        ({"risk": 0.1, "per_class": True}, "per class need a fraction"),
        ({"rule": Balanced(), "per_class": True}, "per class need a fraction"),
        ({"confidence_level": 0.9}, "needs a risk, too"),
        ({"risk": 1.5}, "risk"),
        ({"risk": 0.1, "confidence_level": 1}, "confidence_level"),
        ({"accept": 1}, "strictly between 0 and 1, got 1"),
        ({"accept": "a"}, "accept"),
        ({"accept": True}, "accept"),
    ):
        with pytest.raises(NescioError, match=words):
            rule_for(**wrong)


@pytest.mark.parametrize("rule", ["accept", Accept])
def test_what_is_no_rule_is_an_error(rule):
    with pytest.raises(NescioError, match="rule must be a rule such as Accept"):
        rule_for(rule=rule)


def test_scores_alone_are_enough_to_accept_a_fraction():
    calibration = CalibrationScores(torch.arange(99.0, dtype=torch.float64))
    threshold, _ = Accept(0.9).fit(calibration)
    assert float(threshold) == float(calibration.rounded_up[89])  # the 90th of 100 ranks


@pytest.mark.parametrize("rule", [Accept(), AcceptPerClass(), ControlRisk(0.1), Balanced()])
def test_a_bare_tensor_is_refused(rule):
    with pytest.raises(NescioError, match=r"fitted to CalibrationScores\(scores, …\), not to a Te"):
        rule.fit(torch.arange(99.0))
