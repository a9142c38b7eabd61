"""What a detector promised is set beside what it did, and both are right."""

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import nescio
from nescio.data import Samples
from nescio.errors import NescioError
from nescio.records import Decision
from small_nets import small


class FixedLogits(nn.Module):
    """A model whose logits are its inputs."""

    def forward(self, x):
        return x


def known_and_test(seed, count=400):
    generator = torch.Generator().manual_seed(seed)
    x, labels = (
        3 * torch.randn(2 * count, 3, generator=generator),
        torch.randint(3, (2 * count,), generator=generator),
    )
    return Samples(x[:count], labels[:count], name="c"), Samples(
        x[count:], labels[count:], name="t"
    )


def test_counts_are_those_of_predict(seed):
    calibration, test = known_and_test(seed)
    other = torch.randn(100, 3)
    detector = nescio.Threshold(FixedLogits(), "entropy").fit(calibration, 0.9)
    found = nescio.decide(
        detector, test, {"u": other, "bad": torch.full((4, 3), torch.nan)}, batch_size=33
    )
    answers, truth = detector.predict(test).numpy(), test.labels.numpy()
    assert found.accepted == (answers >= 0).mean()
    assert found.accuracy == pytest.approx((test.inputs.argmax(1).numpy() == truth).mean())
    assert found.accepted_accuracy == pytest.approx((answers == truth)[answers >= 0].mean())
    assert found.unknown[0].refused == pytest.approx(
        (detector.predict(other) < 0).double().mean().item()
    )
    assert (found.unknown[1].inputs, found.unknown[1].refused) == (4, 1.0)
    assert found.thresholds == (detector.threshold_.item(),)
    assert (found.detector, found.known, found.inputs, found.calibrated) == (
        "entropy",
        "t",
        400,
        400,
    )
    assert (found.accept, found.bound) == (
        0.9,
        361 / 401,
    )  # the smallest k / 401 that is no less than 0.9
    assert "at least 90 %" in found.promise
    assert Decision.from_json(found.to_json()) == found


def test_the_usual_share_is_met_as_often_as_it_says():
    """Over many splits the accepted share lies in the interval in 95 % of cases or more, and not in
    nearly all.
    """
    inside, runs = 0, 200
    for seed in range(runs):
        calibration, test = known_and_test(seed, 60)
        found = nescio.decide(
            nescio.Threshold(FixedLogits(), "entropy").fit(calibration, 0.9), test
        )
        low, high = found.usual
        inside += low <= found.accepted <= high
    # the interval has at least 95 %, and by its discreteness at most some more
    assert binom.cdf(inside, runs, 0.95) > 1e-3
    assert inside < runs


def test_per_class_and_without_labels(seed):
    calibration, test = known_and_test(seed)
    detector = nescio.Threshold(FixedLogits(), "entropy").fit(calibration, 0.8, per_class=True)
    found = nescio.decide(detector, test.inputs)
    assert found.accuracy is found.accepted_accuracy is found.usual is None
    assert len(found.thresholds) == 3
    counts = np.bincount(calibration.inputs.argmax(1))
    assert found.bound == min(np.ceil(0.8 * (n + 1) - 1e-9) / (n + 1) for n in counts)
    assert "of each predicted class" in found.promise


def test_a_bounded_risk(blobs):
    data = nescio.data.load("three_blobs")
    model = small()
    nescio.train(model, blobs, epochs=20, progress=False)
    found = nescio.decide(
        nescio.Threshold(model).fit(data.train, risk=0.1),
        data.test,
        {"far": 100 * data.test.inputs},
    )
    assert (found.accept, found.bound, found.risk, found.confidence_level) == (
        None,
        None,
        0.1,
        0.95,
    )
    assert found.promise.startswith(
        "at most 10 % of accepted answers are wrong, with confidence level 0.95"
    )
    assert found.accepted_accuracy > 0.9 >= found.unknown[0].refused


def test_nothing_accepted_has_no_accuracy(seed):
    calibration, test = known_and_test(seed)
    detector = nescio.Threshold(FixedLogits(), "entropy").fit(calibration)
    detector.keep(threshold_=torch.tensor(-1.0, dtype=torch.float64))
    found = nescio.decide(detector, test)
    assert (found.accepted, found.accepted_accuracy) == (0.0, None)


def test_what_was_loaded_has_its_promise(tmp_path, blobs):
    detector = nescio.Threshold(nescio.methods.Softmax(small())).fit(blobs)
    nescio.save(detector, tmp_path / "d.safetensors")
    before = nescio.decide(detector, blobs)
    found = nescio.decide(nescio.load(tmp_path / "d.safetensors"), blobs)
    assert (found.accept, found.bound, found.usual) == (0.95, before.bound, before.usual)
    assert found.promise == before.promise == "at least 95 % of known inputs are accepted"


def test_balanced_promises_nothing(seed):
    calibration, test = known_and_test(seed)
    found = nescio.decide(
        nescio.Threshold(FixedLogits(), "entropy").fit(calibration, balanced=True), test
    )
    assert found.promise.startswith("none")
    assert found.bound is None


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda calibration: nescio.decide(FixedLogits(), calibration),
            "takes a fitted detector, not FixedLogits",
        ),
        (
            lambda calibration: nescio.decide(nescio.Threshold(FixedLogits()), calibration),
            "is not fitted",
        ),
        (
            lambda calibration: nescio.decide(
                nescio.Threshold(FixedLogits()).fit(calibration), calibration, ["far"]
            ),
            "'far' is a name",
        ),
    ],
)
def test_bad_input_is_reported(seed, act, message):
    with pytest.raises(NescioError, match=message):
        act(known_and_test(seed)[0])


def test_what_is_no_answer_is_never_right_and_labels_of_unknown_data_are_ignored(seed):
    known, test = known_and_test(seed)
    detector = nescio.Threshold(FixedLogits(), "max_prob").fit(known)
    x, y = (part.clone() for part in test.take(slice(None)))
    x[:5], y[:5] = torch.nan, -1
    found = nescio.decide(detector, Samples(x, y), {"other": (x[5:], torch.rand(len(x) - 5))})
    assert found.accuracy == pytest.approx(float((x[5:].argmax(1) == y[5:]).sum()) / len(x))
