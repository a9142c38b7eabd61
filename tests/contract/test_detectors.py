"""What holds for every detector, by membership in DETECTORS."""

import copy
import math

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import nescio
from feature_data import in_disguise
from nescio.data import Samples, noise
from nescio.data.batches import halves
from nescio.detectors import DETECTORS
from nescio.detectors.feature_detector import FeatureDetector
from nescio.guarantees import CalibrationScores
from quality_bars import bar

BARS_ARE = "bars, also for weaker methods, are in tests/quality_bars.py"
pytestmark = pytest.mark.parametrize("name", DETECTORS)


def fitted(name, model, data, **how):
    """A detector as its users fit it: with unknown or training data, if it learns from them."""
    if name == "meta":
        how["unknown"] = {"uniform": noise.samples("uniform", data, 100)}
    if name == "combined" and "train" in how:  # so that all data given set its threshold
        how["train"], how["member_calibration"] = halves(how["train"])
    if issubclass(DETECTORS[name], FeatureDetector):
        how.setdefault("train", nescio.data.load("digits", unseen=[7, 8, 9]).train)
    detector = DETECTORS[name](model)
    assert detector.fit(data, **how) is detector
    return detector


@pytest.fixture(scope="module")
def ready(model, known):
    return {name: fitted(name, model, known.test) for name in DETECTORS}


@pytest.fixture
def detector(name, ready):
    return copy.deepcopy(ready[name])


def test_accepts_the_share_it_was_asked_for(name, model, known):
    """With n calibration inputs, as many of them as make that share of n + 1."""
    some, rest = (
        known.test.select(torch.arange(100)),
        known.test.select(torch.arange(100, len(known.test))),
    )
    for accept, accepted in (
        (1e-13, 1),
        (0.07, 8),
        (0.5, 51),
        (0.95, 96),
        (0.951, 97),
        (0.99, 100),
    ):
        answers = fitted(name, model, some, accept=accept, train=rest).predict(some)
        assert (answers != -1).sum() == accepted
    with pytest.raises(nescio.NescioError, match=r"too few .* takes at least 199"):
        fitted(name, model, some, accept=0.995, train=rest)


def test_learns_nothing_from_what_sets_its_threshold(name, model, known, monkeypatch):
    """Of data it has half to learn from, none is in both halves."""
    detector = DETECTORS[name](model)
    learned, calibrated = [], []
    if not detector.learns:
        pytest.skip("it learns nothing but a threshold")
    detector.learn = lambda data: learned.extend(x for x, _ in data)
    nothing = CalibrationScores(torch.arange(50.0), torch.zeros(50), None, 7), 3
    monkeypatch.setattr(
        "nescio.detectors.detector.calibration_scores",
        lambda _, data, *__: calibrated.extend(x for x, _ in data) or nothing,
    )
    detector.fit(known.test)
    rows = [
        {tuple(row) for row in torch.cat(part).flatten(1).tolist()}
        for part in (learned, calibrated)
    ]
    assert not rows[0] & rows[1]
    assert abs(len(torch.cat(learned)) - len(torch.cat(calibrated))) <= 1


def test_a_p_value_is_the_fraction_of_calibration_inputs_that_score_as_high(detector, known):
    scores, found = detector.score(known.unseen), detector.p_value(known.unseen)
    calibration = detector.calibration_
    expected = torch.tensor(
        [(1 + (calibration >= one).sum()) / (1 + len(calibration)) for one in scores],
        dtype=torch.float64,
    )
    torch.testing.assert_close(found, expected)
    assert torch.equal(found <= 0.05, detector.predict(known.unseen) == -1)


def test_of_each_class_the_share_is_accepted(name, model, known):
    detector = fitted(name, model, known.test, accept=0.8, per_class=True)
    predicted = nescio.predict(model, known.test)[0].argmax(1)
    answers = detector.predict(known.test)
    assert detector.threshold_.shape == (7,)
    for label in range(7):
        own = detector.calibration_class_ == label
        kept = detector.calibration_[own] <= detector.threshold_[label]
        assert kept.sum() == math.ceil(0.8 * (own.sum() + 1))
    assert set(answers.unique().tolist()) == {-1, *range(7)}
    assert torch.equal(answers[answers >= 0], predicted[answers >= 0])
    assert torch.equal(detector.p_value(known.test) <= 0.2 + 1e-12, answers == -1)


def test_bounds_the_risk_of_its_answers(name, model, known):
    noisy = Samples(
        known.test.inputs + 0.4 * torch.randn(known.test.inputs.shape), known.test.labels
    )
    risk = bar(name).risk
    detector = fitted(name, model, noisy, risk=risk, confidence_level=0.9)
    found = detector.controlled
    assert found.errors / found.accepted < risk
    assert (detector.calibration_ <= detector.threshold_).sum() == found.accepted
    with pytest.raises(nescio.NescioError, match="no threshold keeps"):
        fitted(name, model, noisy, risk=1e-6)


def test_one_input_needs_no_axis_for_it(detector, known):
    """Of new inputs: a rank among others does not depend on the last digits, as one's own does."""
    x = known.unseen.take(slice(0, 5))[0].clone()
    for ask in (detector.predict, detector.score, detector.p_value):
        alone = ask(x[3])
        assert alone.shape == ()
        torch.testing.assert_close(alone, ask(x)[3], rtol=1e-5, atol=0)  # sums in another order
    assert detector.predict(x[3].numpy()) == detector.predict(x)[3]
    x[3, 0, 0, 0] = torch.nan
    assert detector.predict(x[3]).item() == -1


def test_explains_its_answers(detector, known):
    known_, other = (data.take(slice(0, 20))[0] for data in (known.test, known.unseen))
    x = torch.cat([known_, other, torch.full((1, 1, 8, 8), torch.nan)])
    found = detector.explain(x)
    assert [one.answer for one in found] == detector.predict(x).tolist()
    assert [one.p_value for one in found[:-1]] == detector.p_value(x)[:-1].tolist()
    torch.testing.assert_close([one.score for one in found[:-1]], detector.score(x[:-1]).tolist())
    confidence = nescio.predict(detector.model, x[:-1])[0].softmax(1).amax(1)
    torch.testing.assert_close([one.confidence for one in found[:-1]], confidence.tolist())
    for one in found:
        assert one.verdict.startswith(
            "I do not know" if one.answer == -1 else f"Class {one.answer}"
        )
    assert "not finite" in str(found[-1])
    names = ["zero", "one", "two", "three", "four", "five", "six"]
    for given in (names, tuple(names), np.array(names)):
        (one,) = detector.explain(x[0], classes=given)
        assert repr(names[one.predicted]) in one.verdict
    with pytest.raises(nescio.NescioError, match="got names for 1 classes"):
        detector.explain(known.test, classes=["zero"])


def test_answers_known_inputs_with_their_class_and_others_with_minus_one(name, detector, known):
    answers = detector.predict(known.test)
    sure = answers != -1
    assert (answers[sure] == known.test.labels[sure]).double().mean() > bar(name).accuracy, BARS_ARE
    assert (detector.predict(known.unseen) == -1).double().mean() > bar(name).rejected, BARS_ARE


def test_separates(name, detector, known):
    auroc = nescio.metrics.auroc(detector.score(known.test), detector.score(known.unseen))
    assert auroc > bar(name).auroc, BARS_ARE


def test_decision_is_score_against_threshold(detector, known):
    scores = detector.score(known.test).double()
    assert torch.equal(detector.predict(known.test) == -1, scores > detector.threshold_)


def test_a_row_that_is_not_finite_is_unknown_and_spoils_no_other(detector, known):
    x = known.test.take(slice(0, 6))[0].clone()
    clean = detector.predict(x)
    x[1, 0, 0, 0], x[4, 0, 2, 2] = torch.nan, torch.inf
    answers = detector.predict(x)
    assert answers[[1, 4]].tolist() == [-1, -1]
    assert torch.equal(answers[[0, 2, 3, 5]], clean[[0, 2, 3, 5]])
    with pytest.raises(nescio.NescioError, match="input 1 "):
        detector.score(x)
    with pytest.raises(nescio.NescioError, match="input 4 "):
        detector.score(x[[0, 0, 0, 0, 4]], batch_size=2)


def test_what_is_too_large_for_the_model_is_unknown_too(detector, known):
    x = known.test.take(slice(0, 4))[0].double()
    x[2] = 1e300  # infinite in float32
    clean = detector.predict(x.float()[[0, 1, 3]])
    answers = detector.predict(x)
    assert answers[2] == -1
    assert torch.equal(answers[[0, 1, 3]], clean)
    assert detector.explain(x)[2].answer == -1


def test_a_fit_that_fails_leaves_nothing_that_decides_or_is_saved(detector, name, known, tmp_path):
    with pytest.raises(nescio.NescioError, match=r"too few|at least"):
        detector.fit(
            known.test.select(torch.arange(4)),
            **({} if name in ("threshold", "odin") else {"train": known.train}),
        )
    with pytest.raises(nescio.NescioError, match="fit"):
        detector.predict(known.test)
    assert detector.rule is None
    try:
        nescio.save(detector, tmp_path / "failed")
    except nescio.NescioError as error:
        assert "did not finish" in str(error)  # noqa: PT017 - one or the other
    else:  # it had nothing to learn, and is as before any fit
        assert nescio.load(tmp_path / "failed").threshold_.isnan()


def test_labels_do_not_matter_where_none_are_needed(name, model, known):
    if name == "meta":
        pytest.skip("it learns from labels")
    unlabelled = Samples(known.test.inputs, torch.full_like(known.test.labels, -1))
    detector = fitted(name, model, unlabelled, train=known.train)
    again = fitted(name, model, known.test, train=known.train)
    assert torch.equal(detector.threshold_, again.threshold_)


def test_will_not_judge_itself_by_what_it_learned_from(name, model, known):
    if not DETECTORS[name].learns:
        pytest.skip("it learns nothing but a threshold")
    inputs, labels = known.test.inputs, known.test.labels
    for again in (
        known.test,
        (inputs.clone(), labels),
        DataLoader(Samples(inputs.clone(), labels), 32),
    ):
        with pytest.raises(nescio.NescioError, match="calibrated on what it learned from"):
            DETECTORS[name](model).fit(known.test, train=again)


def test_says_when_it_is_not_fitted(name, model, known):
    with pytest.raises(nescio.NescioError, match="fit"):
        DETECTORS[name](model).predict(known.test)


@pytest.mark.parametrize("accept", [0, 1, 1.01, -0.1, 95, "a", True])
def test_refuses_an_impossible_share(name, model, known, accept):
    with pytest.raises(nescio.NescioError, match="accept"):
        DETECTORS[name](model).fit(known.test, accept=accept)


def test_survives_saving(detector, known, tmp_path):
    nescio.save(detector, tmp_path / "d.nescio")
    again = nescio.load(tmp_path / "d.nescio")
    assert torch.equal(again.score(known.unseen), detector.score(known.unseen))
    assert torch.equal(again.predict(known.unseen), detector.predict(known.unseen))


def test_forward_is_score(detector, known):
    assert torch.equal(detector(known.test), detector.score(known.test))


def test_casting_the_model_keeps_the_threshold(detector):
    before = detector.threshold_.item()
    assert detector.half().threshold_.item() == before
    kinds = {key: value.dtype for key, value in detector.named_buffers(recurse=False)}
    assert {
        key: value.dtype for key, value in detector.half().named_buffers(recurse=False)
    } == kinds


def test_a_model_whose_output_is_not_finite_has_no_score_but_an_answer(name, seed):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.where(x[:, :1] > 0, self.layer(x), torch.nan)

    torch.manual_seed(seed)
    x = torch.rand(400, 2)
    model = Broken()
    labels = model(x).argmax(1) ^ (torch.arange(400) % 4 == 0)  # a quarter of the answers are wrong
    data = Samples(x, labels)
    detector = DETECTORS[name](model).fit(in_disguise(data), accept=0.99, train=data)
    clean = detector.predict(x[:5])
    x[3] = -1.0
    answers = detector.predict(x[:5])
    assert answers[3] == -1
    assert torch.equal(answers[[0, 1, 2, 4]], clean[[0, 1, 2, 4]])
    with pytest.raises(nescio.NescioError, match="no score"):
        detector.score(x)


def test_can_balance_right_answers_against_wrong_ones(name, model, known):
    noisy = Samples(
        known.test.inputs + 0.4 * torch.randn(known.test.inputs.shape), known.test.labels
    )
    detector = fitted(name, model, noisy, balanced=True)
    wrong = nescio.predict(model, noisy)[0].argmax(1) != noisy.labels
    calibration = noisy
    if detector.learns and not isinstance(detector, FeatureDetector):
        x, y = zip(*halves(noisy)[1], strict=True)
        calibration = Samples(torch.cat(x), torch.cat(y))
        wrong = nescio.predict(model, calibration)[0].argmax(1) != calibration.labels
    scores = detector.score(calibration)

    def rate(threshold):
        return (scores[~wrong] <= threshold).double().mean() + (
            scores[wrong] > threshold
        ).double().mean()

    assert all(rate(detector.threshold_) >= rate(other) for other in scores)
    with pytest.raises(nescio.NescioError, match="two ways"):
        fitted(name, model, noisy, accept=0.9, balanced=True)


def test_random_data_follow_one_seed_and_leave_the_generator_alone(detector):
    class Noise(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return torch.rand(1, 8, 8)

    before = torch.random.get_rng_state()
    answers, scores = detector.predict(Noise()), detector.score(Noise())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(answers == -1, scores.double() > detector.threshold_)


def test_needs_a_model(name):
    with pytest.raises(nescio.NescioError, match="Module, got a str"):
        DETECTORS[name]("digits")


def test_fits_anew_after_inference_mode(name, model, known):
    """What is made there cannot be written on outside of it."""
    if name in ("odin", "meta"):
        pytest.skip("it needs gradients")
    with torch.inference_mode():
        detector = DETECTORS[name](model).fit(known.test, train=known.train)
    again = DETECTORS[name](model).fit(known.test, train=known.train)
    assert torch.equal(detector.fit(known.test, train=known.train).threshold_, again.threshold_)
