"""What `print` shows of records and detectors: the facts that matter, in a few lines."""

import pytest
import torch

import nescio
from nescio.detectors import DETECTORS
from nescio.guarantees import Rule
from nescio.records import Record


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits", unseen=[7, 8, 9])


@pytest.fixture(scope="module")
def model(known):
    torch.manual_seed(0)
    model = nescio.methods.Softmax(nescio.models.mlp(64, 7), normalise=known.normalise)
    nescio.train(model, known.train, epochs=5, progress=False)
    return model


def test_an_evaluation_is_printed_in_a_few_lines(model, known):
    record = nescio.evaluate(model, known.test, {"held out": known.unseen, "noise": "noise"})
    lines = repr(record).splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 120
    aurocs = [side.separation[0].auroc for side in record.unknown]
    accuracy = f"{100 * record.known.accuracy:.1f} %"
    assert f"Evaluation: accuracy {accuracy} on 379 inputs of digits test" in lines[0]
    assert f"AUROC by max_prob: held out {aurocs[0]:.3f}, noise {aurocs[1]:.3f}" in lines[0]
    assert "method='softmax'" in str(record)


def test_every_kind_of_record_has_it():
    kinds = Record.__subclasses__()
    assert len(kinds) > 10
    assert all(kind.__repr__ is Record.__repr__ for kind in kinds)


def test_a_decision_says_what_was_accepted_and_refused(model, known):
    detector = nescio.Threshold(model, "energy").fit(known.test)
    record = nescio.decide(detector, known.train, {"held out": known.unseen})
    refused = 100 * record.unknown[0].refused
    assert f"refused of unknown ones: held out {refused:.1f} %" in repr(record).splitlines()[0]


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_without_a_threshold_says_so(model, name):
    said = repr(DETECTORS[name](model))
    assert said.startswith(DETECTORS[name].__name__)
    assert "over Softmax\n  not fitted" in said
    assert "Linear" not in said  # the module tree is the model's to show


def test_a_fitted_detector_tells_its_threshold_and_what_is_promised_and_what_is_not(model, known):
    detector = nescio.Combined(model).fit(known.test, accept=0.9, train=known.train)
    first, cut, promise, uncovered = str(detector).splitlines()
    assert first == "Combined(members=['energy', 'mahalanobis']) over Softmax"
    assert (
        cut.strip() == f"threshold {float(detector.threshold_):g}, "
        f"set by {len(detector.calibration_)} calibration inputs"
    )
    assert promise.strip() == (
        "Guarantee (exchangeable inputs): at least 90 % of known inputs are accepted"
    )
    assert uncovered.strip().startswith(
        "Unknown inputs: not guaranteed. Measure it: nescio.decide("
    )


def test_thresholds_per_class_and_detectors_of_files(model, known, tmp_path):
    detector = nescio.Threshold(model, "energy").fit(known.train, per_class=True)
    assert "7 thresholds, one per class, set by" in repr(detector)
    nescio.save(detector, tmp_path / "one.nescio")
    assert repr(nescio.load(tmp_path / "one.nescio")) == repr(detector)


def test_a_rule_of_ones_own_is_not_stored_in_a_file(model, known, tmp_path):
    class Largest(Rule):
        def fit(self, calibration):
            return calibration.scores.max(), None

        def promise(self, controlled=None):
            return "none"

    detector = nescio.Threshold(model, "energy").fit(known.train, rule=Largest())
    nescio.save(detector, tmp_path / "one.nescio")
    again = repr(nescio.load(tmp_path / "one.nescio"))
    assert "Guarantee (exchangeable inputs): not stored in its file" in again
