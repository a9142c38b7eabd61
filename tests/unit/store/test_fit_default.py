"""`nescio fit` without further words: which detector, what it learns from, and what it says of the
unknown.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import nescio
from nescio.cli import main
from nescio.data import load
from nescio.data.noise import synthetic
from nescio.detectors import DETECTORS
from nescio.records import Fitted
from nescio.store.detector_folder import open_fitted

CODE = """
import torch
from torch import nn

def table():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))

def pictures():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(50, 8), nn.Linear(8, 4)
    def forward(self, x):
        return self.head(self.embed(x).mean(1))

class Headless(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 2, generator=torch.Generator().manual_seed(0)))
    def forward(self, x):
        return torch.log_softmax(x @ self.weights, 1)
"""


@pytest.fixture
def there(tmp_path, monkeypatch):
    """The current folder, with networks and data of several kinds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "some_nets.py").write_text(CODE)
    rng = np.random.default_rng(0)
    np.savez("table.npz", inputs=rng.normal(size=(80, 3)).astype(np.float32))
    np.savez("pictures.npz", images=rng.integers(0, 256, (60, 8, 8), dtype=np.uint8))
    np.savez("Words.npz", inputs=rng.integers(0, 50, (80, 7)))
    np.savez("Headless.npz", inputs=rng.normal(size=(80, 3)).astype(np.float32))
    np.savez("few.npz", inputs=rng.normal(size=(30, 3)).astype(np.float32))
    yield tmp_path
    sys.modules.pop("some_nets", None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of a plain network, and one of a method that draws."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("softmax", "mc_dropout"):
        sys.argv = [
            "nescio",
            "train",
            method,
            "--data",
            "digits",
            "--unseen",
            "7,8,9",
            "--network",
            "mlp",
            "--epochs",
            "3",
            "-o",
            str(folder / method),
        ]
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    return folder


@pytest.mark.parametrize(
    ("net", "members"),
    [
        ("table", "energy and mahalanobis"),
        ("pictures", "energy and mahalanobis"),
        ("Words", "energy and mahalanobis"),
        ("Headless", "max_prob and entropy"),
    ],
)
def test_combined_is_the_default_over_networks_of_every_kind(command, there, net, members):
    code, out, err = command(
        "fit", "--model", f"some_nets:{net}", "--data", f"{net}.npz", "-o", "det"
    )
    assert code == 0, err
    facts = Fitted.load(there / "det" / "fitted.json")
    assert (facts.detector, facts.network) == ("combined", "graph")
    assert f"combined (members: {members})" in out
    assert f"p-values of {members} from a part of {net}.npz" in out
    assert command("score", "det", f"{net}.npz")[0] == 0


def test_a_score_alone_asks_for_a_threshold(command, there):
    code, _, err = command(
        "fit",
        "--model",
        "some_nets:table",
        "--data",
        "table.npz",
        "--score",
        "entropy",
        "-o",
        "det",
    )
    assert code == 0, err
    facts = Fitted.load(there / "det" / "fitted.json")
    assert (facts.detector, facts.settings, facts.inputs) == ("threshold", {"score": "entropy"}, 80)
    assert facts.provenance.settings["detector"] == "threshold"


def test_too_few_inputs_end_with_a_way_out_that_works(command, there):
    words = ["fit", "--model", "some_nets:table", "-o", "det", "--data", "few.npz"]
    for more in ([], ["--train", "table.npz"]):
        code, _, err = command(*words, *more)
        assert code == 2
        said = " ".join(err.split())
        assert "15 calibration inputs (as many were set aside for its members' p-values" in said
        assert "--score max_prob needs none" in said
    assert command(*words, "--score", "max_prob")[0] == 0


def test_beside_the_promise_stands_what_it_does_not_cover(command, there):
    code, out, _ = command("fit", "--model", "some_nets:table", "--data", "table.npz", "-o", "det")
    assert code == 0
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Guarantee: "))
    assert lines[at + 1] == (
        "Unknown inputs: not guaranteed. Measure it: nescio evaluate det --data known_test.npz "
        "--unknown PATH"
    )
    assert any("--train" in line for line in lines)  # it learned from a quarter of the known inputs


def test_what_recommend_measured_is_said_and_kept(command, runs, tmp_path):
    code, out, err = command(
        "recommend", runs / "softmax", "--candidates", "energy", "-o", tmp_path / "found"
    )
    assert code == 0, err
    facts = Fitted.load(tmp_path / "found" / "recommended" / "fitted.json")
    assert len(facts.refused) > 3
    assert all(0 <= share <= 1 for share in facts.refused.values())
    detector, _ = open_fitted(tmp_path / "found" / "recommended", None, [])
    assert (
        facts.refused
        == nescio.recommend(
            detector.model,
            load("digits", unseen=[7, 8, 9]).test,
            candidates=["energy"],
            accept=0.95,
        )
        .record.ranking[0]
        .refused
    )
    said = " ".join(out.split())
    assert "Unknown inputs: not guaranteed; synthetic outliers rejected: " in said
    assert all(f"{name} " in said for name in facts.refused)


LEARNS = [name for name, kind in DETECTORS.items() if kind.learns and name != "meta"]


@pytest.mark.parametrize("name", LEARNS)
def test_what_learns_over_a_run_learns_from_its_training_data(command, runs, tmp_path, name):
    code, out, err = command("fit", runs / "softmax", "--detector", name, "-o", tmp_path / "det")
    assert code == 0, err
    assert "Learned from: digits, training part" in out
    known = load("digits", unseen=[7, 8, 9])
    detector, facts = open_fitted(tmp_path / "det", None, [])
    expected = DETECTORS[name](detector.model).fit(known.test, train=known.train)
    assert facts.thresholds == (float(expected.threshold_),)
    assert facts.inputs == len(expected.calibration_)


def test_what_must_be_new_to_the_model_does_not(command, runs, tmp_path):
    """Meta learns which answers are wrong, and of training data none are."""
    words = ["fit", runs / "softmax", "-o", tmp_path / "det"]
    for more in (
        ["--detector", "meta"],
        ["--detector", "combined", "--set", 'members=["energy", "meta"]'],
    ):
        code, out, err = command(*words, *more)
        assert code == 0, err
        assert "Learned from: a part of digits, test part" in out
        assert "--train" not in out


def test_other_data_to_learn_from_are_taken(command, runs, tmp_path):
    x, y = load("digits", unseen=[7, 8, 9]).train.take(slice(0, 300))
    np.savez(tmp_path / "own.npz", images=x.numpy(), labels=y.numpy())
    code, out, err = command(
        "fit", runs / "softmax", "--train", tmp_path / "own.npz", "-o", tmp_path / "det"
    )
    assert code == 0, err
    assert f"Learned from: {tmp_path / 'own.npz'}; p-values of energy and mahalanobis" in out


def test_a_method_that_draws_has_members_that_learn_nothing(command, runs, tmp_path):
    code, out, err = command("fit", runs / "mc_dropout", "-o", tmp_path / "det")
    assert code == 0, err
    assert re.search(r"combined \(members: \w+ and energy and mutual_information\)", out)
    assert "training part" not in out
    assert "mutual_information from a part of digits, test part" in out


def test_the_default_finds_what_the_old_one_could_not(command, tmp_path, monkeypatch):
    """Far away a softmax is certain, so that a threshold on its confidence refuses nothing
    there.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "one_net.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential("
        "nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 7))\n"
    )
    known = load("digits", unseen=[7, 8, 9])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 7))
    nescio.train(net, known.train, epochs=15, learning_rate=0.01, progress=False)
    save_file(net.state_dict(), "w.safetensors")
    for name, data in (
        ("calibration", known.test),
        ("train", known.train),
        ("other", known.unseen),
    ):
        x, y = data.take(slice(None))
        np.savez(f"{name}.npz", images=x.numpy(), labels=y.clamp(min=0).numpy())
    words = [
        "fit",
        "--model",
        "one_net:make",
        "--weights",
        "w.safetensors",
        "--data",
        "calibration.npz",
        "--train",
        "train.npz",
    ]
    for name, more in (("old", ["--detector", "threshold"]), ("new", [])):
        code, _, err = command(*words, *more, "-o", name)
        assert code == 0, err
    refused = {}
    for name in ("old", "new"):
        code, _, err = command(
            "evaluate", name, "--data", "calibration.npz", "--unknown", "other.npz", "noise", "far"
        )
        assert code == 0, err
        decided = json.loads((tmp_path / f"{name}-decision.json").read_text())
        refused[name] = [one["refused"] for one in decided["unknown"]]
    assert sum(refused["new"]) > sum(refused["old"]) + 1
    assert min(refused["new"]) > 0.5 > min(refused["old"])
    sys.modules.pop("one_net", None)


@pytest.mark.slow
def test_what_the_page_on_choosing_says_of_combined():
    """Its figures, from the experiment it tells of: calibration inputs drawn six times, with the
    training data or not.
    """
    page = " ".join(
        (Path(__file__).parents[3] / "docs" / "guide" / "choose-a-detector.md")
        .read_text(encoding="utf-8")
        .split()
    )
    known = load("digits", unseen=[7, 8, 9])
    torch.manual_seed(0)
    model = nescio.methods.Softmax(nescio.models.mlp(64, 7), normalise=known.normalise)
    nescio.train(model, known.train, epochs=15, progress=False)
    x, _ = known.test.take(slice(None))
    sets = [
        known.unseen.take(slice(0, 500))[0],
        synthetic("noise", known.test).inputs,
        synthetic("far", known.test).inputs,
    ]

    def refused(detector, count, **how):
        shares = []
        for seed in range(6):
            some = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:count]
            detector.fit(x[some], **how)
            shares.append([float((detector.predict(data) < 0).double().mean()) for data in sets])
        return [100 * sum(column) / 6 for column in zip(*shares, strict=True)]

    taught = refused(nescio.Combined(model), 200, train=known.train)
    plain = refused(nescio.Threshold(model, "max_prob"), 200)
    few, more = (refused(nescio.Combined(model), count)[0] for count in (60, 200))
    first = re.search(
        r"it rejects (\d+) % of 7s, 8s and 9s, all noise and everything far away", page
    )
    second = re.search(r"largest probability rejects (\d+) %, (\d+) % and nothing", page)
    third = re.search(
        r"with 60 of them it rejects (\d+) % of the 7s, 8s and 9s, and with 200 (\d+) %", page
    )
    printed = map(float, (*first.groups(), *second.groups(), *third.groups()))
    figures = [taught[0], plain[0], plain[1], few, more]
    assert max(abs(one - other) for one, other in zip(printed, figures, strict=True)) < 2
    assert min(taught[1:]) > 99.5
    assert plain[2] < 0.5
