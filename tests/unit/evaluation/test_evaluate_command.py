"""`nescio evaluate` and `nescio contest` of a fitted detector, and of a network of one's own."""

import re
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import nescio
from nescio.cli import main
from nescio.data import load
from nescio.records import Contest, Decision, Evaluation
from nescio.report.decision import NO_TEST
from nescio.report.page import report_page
from nescio.store.detector_folder import open_fitted

CODE = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 7))

class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = make()
    def forward(self, x):
        return self.net(x) if x.sum() > -1e9 else self.net(-x)
"""
OWN = ["--model", "user_nets:make", "--weights", "w.safetensors"]


def saved(path, data, key="images", factor=1.0):
    x, y = data.take(slice(None))
    labels = {} if bool((y < 0).any()) else {"labels": y.numpy()}
    np.savez(path, **{key: factor * x.numpy()}, **labels)


@pytest.fixture(scope="module")
def known():
    return load("digits", unseen=[7, 8, 9])


@pytest.fixture(scope="module")
def place(known, tmp_path_factory):
    """A user's folder: code, weights, known data in three parts, unknown data; a run, and detectors
    over both.
    """
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "user_nets.py").write_text(CODE)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 7))
    nescio.train(net, known.train, epochs=8, learning_rate=0.01, progress=False)
    save_file(net.state_dict(), folder / "w.safetensors")
    save_file(
        {f"net.{key}": value for key, value in net.state_dict().items()},
        folder / "choosing.safetensors",
    )
    half = torch.arange(len(known.test)) % 2 == 0
    for name, data in (
        ("calibration", known.test.select(half)),
        ("test", known.test.select(~half)),
        ("train", known.train),
        ("other", known.unseen),
    ):
        saved(folder / f"{name}.npz", data)
        saved(folder / f"{name}-raw.npz", data, "inputs", 16.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        for words in (
            [
                "train",
                "softmax",
                "--data",
                "digits",
                "--unseen",
                "7,8,9",
                "--network",
                "mlp",
                "--epochs",
                "4",
                "-o",
                "run",
            ],
            ["fit", *OWN, "--data", "calibration.npz", "--train", "train.npz", "-o", "det"],
            ["fit", "run", "-o", "over_run"],
            ["fit", "run", "--data", "calibration.npz", "-o", "fresh"],
        ):
            patch.setattr(sys, "argv", ["nescio", *words])
            with pytest.raises(SystemExit) as stop:
                main()
            assert not stop.value.code
    return folder


@pytest.fixture
def there(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "user_nets", raising=False)
    yield place
    sys.modules.pop("user_nets", None)


def test_a_detector_is_evaluated_by_its_own_score_and_by_what_it_decides(
    command, there, known, tmp_path
):
    path = tmp_path / "e.json"
    code, out, err = command(
        "evaluate",
        "det",
        "--data",
        "test.npz",
        "--unknown",
        "other.npz",
        "noise",
        "far",
        "adversarial_noise",
        "--attacked",
        9,
        "-o",
        path,
    )
    assert code == 0, err
    assert "warning" not in err
    record, decided = Evaluation.load(path), Decision.load(tmp_path / "e-decision.json")
    assert (tmp_path / "e-examples.json").exists()
    assert (record.score, record.known.name) == ("combined", "test")
    detector, facts = open_fitted(there / "det", None, [])
    half = torch.arange(len(known.test)) % 2 == 1
    unknown = {"other.npz": known.unseen, "noise": "noise", "far": "far"}
    again = nescio.evaluate(detector, known.test.select(half), unknown)
    for ours, side in zip(record.unknown, again.unknown, strict=False):
        assert ours.separation[-1].auroc == pytest.approx(side.separation[-1].auroc)
        assert ours.separation[-1].fpr95 == pytest.approx(side.separation[-1].fpr95)
    straight = nescio.decide(detector, known.test.select(half), {"other.npz": known.unseen})
    assert (decided.accepted, decided.accuracy, decided.accepted_accuracy) == (
        straight.accepted,
        straight.accuracy,
        straight.accepted_accuracy,
    )
    assert decided.unknown[0].refused == straight.unknown[0].refused
    assert [one.name for one in decided.unknown] == ["other", "noise", "far", "adversarial_noise"]
    assert decided.promise == facts.promise
    assert decided.usual is not None
    said = " ".join(out.split())
    assert "known against unknown, by combined" in said
    assert (
        f"Measured: {100 * decided.accepted:.1f} % of {decided.inputs} known test inputs were "
        "accepted" in said
    )
    assert "Unknown inputs rejected (measured, not guaranteed): other " in said


def test_thresholds_per_class_decide_as_the_detector_does(command, there, known, tmp_path):
    fit = ["fit", "run", "--score", "energy", "--data", "train.npz", "--per-class", "--accept", 0.9]
    assert command(*fit, "-o", tmp_path / "det")[0] == 0
    code, _, err = command(
        "evaluate", tmp_path / "det", "--unknown", "other.npz", "-o", tmp_path / "e.json"
    )
    assert code == 0, err
    detector, _ = open_fitted(tmp_path / "det", None, [])
    decided = Decision.load(tmp_path / "e-decision.json")
    assert decided.accepted == pytest.approx(
        float((detector.predict(known.test) >= 0).double().mean())
    )
    assert decided.unknown[0].refused == pytest.approx(
        float((detector.predict(known.unseen) < 0).double().mean())
    )


@pytest.mark.parametrize(
    ("words", "stale"),
    [
        ("over_run", "digits, test part"),
        ("over_run --data test.npz", None),
        ("fresh", None),
        ("fresh --data ./calibration.npz", "calibration.npz"),
        ("det --data calibration.npz", "calibration.npz"),
        ("det --data ./calibration.npz", "calibration.npz"),
        ("det --data test.npz", None),
    ],
)
def test_calibration_data_as_test_data_are_reported(command, there, tmp_path, words, stale):
    code, out, err = command(
        "evaluate", *words.split(), "--unknown", "other.npz", "-o", tmp_path / "e.json"
    )
    assert code == 0, err
    assert ("warning" in err) == (stale is not None)
    assert ("These known inputs are the calibration inputs" in out) == (stale is not None)
    warning = f"these are the calibration inputs: {stale} set the threshold of this detector"
    assert stale is None or warning in err
    decision = Decision.load(tmp_path / "e-decision.json")
    assert decision.on_calibration_inputs == (stale is not None)
    page = report_page([("detector", decision)])
    assert (NO_TEST in page) == ("measured on calibration data" in page) == (stale is not None)
    assert ("are expected with that many inputs" in page) == (stale is None)


def test_a_detector_over_a_run_knows_its_unseen_classes(command, there, tmp_path):
    code, _, err = command("evaluate", "over_run", "--unknown", "unseen", "-o", tmp_path / "e.json")
    assert code == 0, err
    assert Evaluation.load(tmp_path / "e.json").unknown[0].inputs == len(
        load("digits", unseen=[7, 8, 9]).unseen
    )


def test_records_of_a_detector_stay_out_of_its_folder(command, there, tmp_path, monkeypatch):
    before = {path.name for path in (there / "det").iterdir()}
    code, out, err = command("evaluate", "det", "--data", "test.npz")
    assert code == 0, err
    assert "Saved: det-evaluation.json, det-examples.json, det-decision.json" in out
    assert {path.name for path in (there / "det").iterdir()} == before
    assert (
        command("fit", *OWN, "--data", "calibration.npz", "--train", "train.npz", "-o", "det")[0]
        == 0
    )


def test_a_network_of_ones_own_is_evaluated(command, there, known, tmp_path):
    path = tmp_path / "e.json"
    code, _, err = command(
        "evaluate", *OWN, "--data", "test.npz", "--unknown", "other.npz", "noise", "-o", path
    )
    assert code == 0, err
    record = Evaluation.load(path)
    assert (record.score, record.known.inputs) == ("max_prob", len(np.load("test.npz")["labels"]))
    assert [side.inputs for side in record.unknown] == [len(known.unseen), record.known.inputs]
    assert record.unknown[0].separation[0].auroc > 0.8
    assert not (tmp_path / "e-decision.json").exists()


def test_inputs_are_read_as_the_network_takes_them(command, there, tmp_path):
    """Values of any range stay as they are, and images, which come in [0, 1], are refused in their
    place.
    """
    evaluate = ["evaluate", *OWN, "--data", "test-raw.npz", "-o", tmp_path / "e.json", "--unknown"]
    code, _, err = command(*evaluate, "other-raw.npz", "far")
    assert code == 0, err
    for other, message in (
        ("other.npz", "both in the same way"),
        ("mnist", "takes `inputs` as they are"),
    ):
        code, _, err = command(*evaluate, other)
        assert (code, message in " ".join(err.split())) == (2, True), err


def test_a_network_whose_code_is_needed_is_named(command, there, tmp_path):
    fit = [
        "fit",
        "--model",
        "user_nets:Choosing",
        "--weights",
        "choosing.safetensors",
        "--data",
        "calibration.npz",
    ]
    code, out, err = command(*fit, "-o", tmp_path / "det")
    assert code == 0, err
    assert "--unknown PATH --model user_nets:Choosing" in " ".join(out.split())
    evaluate = ["evaluate", tmp_path / "det", "--data", "test.npz", "-o", tmp_path / "e.json"]
    code, _, err = command(*evaluate)
    assert code == 2
    assert re.search(r"nescio evaluate \S+det --model user_nets:Choosing", " ".join(err.split()))
    assert command(*evaluate, "--model", "user_nets:Choosing")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        [*OWN, "--data", "test.npz", "--train", "train.npz"],
        ["det", "--data", "test.npz"],
        ["over_run"],
        ["run"],
    ],
)
def test_detectors_are_held_against_each_other_over_any_network(command, there, tmp_path, words):
    code, out, err = command(
        "contest",
        *words,
        "--unknown",
        "other.npz",
        "--candidates",
        "energy",
        "knn",
        "-o",
        tmp_path / "found",
    )
    assert code == 0, err
    record = Contest.load(tmp_path / "found" / "contest.json")
    assert {one.name for one in record.contestants} == {"energy", "knn"}
    assert record.contestants[0].mean > 0.8
    assert "Detectors on softmax" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate", "expected either a run, a detector's folder, or --model"),
        ("evaluate run --model user_nets:make", "expected either a run"),
        ("evaluate det", "--data known_test.npz"),
        ("evaluate --model user_nets:make", "--data known_test.npz"),
        ("evaluate det --data test.npz --class-names a,b", "leave out --weights and --class-names"),
        ("evaluate det --data test-raw.npz", "both in the same way"),
        ("evaluate det --data other.npz --unknown noise", "known data must have labels"),
        ("evaluate det --data test.npz --unknown unseen", "no unseen classes"),
        ("evaluate det --data test.npz -o det/fitted.json", "belongs to the run or detector"),
        ("evaluate det --data test.npz -o test.npz", "is an input of this command"),
        ("contest run", "--unknown"),
    ],
)
def test_bad_input_ends_with_its_message(command, there, words, message):
    code, _, err = command(*words.split())
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split()), err
