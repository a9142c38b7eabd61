"""`nescio fit` and `nescio score` over a user's own network and over a run, as a user meets
them.
"""

import csv
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import nescio
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import Stream, adapt, load
from nescio.errors import NescioError
from nescio.evaluation.score_file import write_verdicts

CODE = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))

class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = make()
    def forward(self, x):
        return self.net(x) if x.sum() > -1e9 else self.net(-x)

class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)
    def forward(self, x):
        return self.head((torch.relu(self.norm(self.conv(x))) + x).mean((2, 3)))

class Series(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
    def forward(self, x):
        return self.head(torch.tanh(self.read(x)).mean(1))

class Together(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.net = nn.BatchNorm1d(2, track_running_stats=False), make()
    def forward(self, x):
        return self.net(self.norm(x))

def needs(classes):
    return make()

def fails():
    raise KeyError("no such thing")

def words():
    return "a network"

number = 3
ready = Pictures()
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A folder of a user's: code, weights of a trained network, held-out data with labels, and new
    data.
    """
    folder = tmp_path_factory.mktemp("own")
    (folder / "their_nets.py").write_text(CODE)
    blobs = load("three_blobs")
    x, y = blobs.train.take(slice(None))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    save_file(net.state_dict(), folder / "w.safetensors")
    save_file(
        {f"net.{name}": value for name, value in net.state_dict().items()},
        folder / "choosing.safetensors",
    )
    np.savez(
        folder / "calibration.npz",
        inputs=blobs.test.inputs.numpy(),
        labels=blobs.test.labels.numpy(),
    )
    new = np.concatenate([blobs.test.inputs.numpy()[:20], np.zeros((20, 2), np.float32)])
    new[5, 1], new[6, 0] = np.nan, np.inf
    np.savez(folder / "new.npz", inputs=new)
    return folder


@pytest.fixture
def there(own, monkeypatch):
    """That folder as the current one, with nothing imported from it yet."""
    monkeypatch.chdir(own)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "their_nets", raising=False)
    yield own
    sys.modules.pop("their_nets", None)


@pytest.fixture(scope="module")
def net(own):
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    net.load_state_dict(load_file(own / "w.safetensors"))
    return net.eval()


PLAIN = [
    "fit",
    "--model",
    "their_nets:make",
    "--weights",
    "w.safetensors",
    "--data",
    "calibration.npz",
]
FIT = [*PLAIN, "--detector", "threshold"]


@pytest.fixture
def det(command, there, tmp_path):
    """What `FIT` writes: fitted once, and copied."""
    fitted = there.parent / f"{there.name}-fitted"
    if not fitted.exists():
        assert command(*FIT, "-o", fitted)[0] == 0
    return shutil.copytree(fitted, tmp_path / "det")


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def check_explained(found, explanations, names):
    """Whether rows say what a detector explains, in all digits."""
    for row, one in zip(found, explanations, strict=True):
        assert row["class"] == ("unknown" if one.answer < 0 else names[one.answer])
        assert row["model_class"] == ("" if one.predicted < 0 else names[one.predicted])
        for column in ("confidence", "p_value", "score"):
            value = getattr(one, column)
            assert row[column] == "" if math.isnan(value) else float(row[column]) == value


def save_picture(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def test_rows_say_what_the_detector_explains_and_no_code_is_run(command, there, net, tmp_path):
    code, out, err = command(
        *FIT, "-o", tmp_path / "det", "--class-names", 'red, "green, dark", blue', "--accept", 0.9
    )
    assert code == 0, err
    assert "at least 90 % of known inputs are accepted" in out
    assert "scoring needs none of its code" in out
    assert {path.name for path in (tmp_path / "det").iterdir()} == {
        "detector.safetensors",
        "graph.safetensors",
        "fitted.json",
    }
    del sys.modules["their_nets"]
    (tmp_path / "their_nets.py").write_text("raise SystemError('run')")
    sys.path.insert(0, str(tmp_path))
    code, _, err = command(
        "score", tmp_path / "det", "new.npz", "-o", tmp_path / "a.csv", "--batch-size", 7
    )
    assert code == 0, err
    assert "their_nets" not in sys.modules
    detector = nescio.Threshold(net).fit(load("three_blobs").test, accept=0.9)
    explained = detector.explain(np.load("new.npz")["inputs"], batch_size=7)
    found = rows_of(tmp_path / "a.csv")
    check_explained(found, explained, ["red", "green, dark", "blue"])
    assert [row["input"] for row in found] == [str(number) for number in range(40)]
    assert [found[row]["class"] for row in (5, 6)] == ["unknown", "unknown"]
    assert f"40 inputs, {sum(one.answer < 0 for one in explained)} unknown" in err
    facts = json.loads((tmp_path / "det" / "fitted.json").read_text())
    assert facts["inputs"] == len(load("three_blobs").test)
    assert facts["thresholds"] == [detector.threshold_.item()]
    assert facts["provenance"]["versions"]["torch"] == version("torch")


def test_the_exit_code_says_if_any_were_unknown_when_asked(command, there, tmp_path, det):
    assert command("score", det, "new.npz", "--fail-on-unknown")[0] == 3
    code, out, _ = command("score", det, "new.npz")
    assert code == 0
    sure = [
        int(row["input"]) for row in csv.DictReader(out.splitlines()) if row["class"] != "unknown"
    ]
    np.savez(tmp_path / "sure.npz", inputs=np.load("new.npz")["inputs"][sure])
    assert command("score", det, tmp_path / "sure.npz", "--fail-on-unknown")[0] == 0


def test_a_network_that_cannot_be_kept_is_named_when_scoring(command, there, tmp_path):
    words = [
        "fit",
        "--model",
        "their_nets:Choosing",
        "--weights",
        "choosing.safetensors",
        "--data",
        "calibration.npz",
    ]
    code, out, err = command(*words, "--detector", "threshold", "-o", tmp_path / "det")
    assert code == 0, err
    assert "torch.export cannot read it" in out
    assert "--model their_nets:Choosing" in out
    assert (tmp_path / "det" / "weights.safetensors").exists()
    assert not (tmp_path / "det" / "graph.safetensors").exists()
    code, _, err = command("score", tmp_path / "det", "new.npz")
    assert code == 2
    assert f"nescio score {tmp_path / 'det'} new.npz --model their_nets:Choosing" in err
    code, out, err = command("score", tmp_path / "det", "new.npz", "--model", "their_nets:Choosing")
    assert code == 0, err
    assert command(*FIT, "-o", tmp_path / "plain")[0] == 0
    assert command("score", tmp_path / "plain", "new.npz")[1] == out
    weights = load_file(tmp_path / "det" / "weights.safetensors")
    save_file(
        {**weights, "net.0.bias": weights["net.0.bias"] + 1},
        tmp_path / "det" / "weights.safetensors",
    )
    code, _, err = command("score", tmp_path / "det", "new.npz", "--model", "their_nets:Choosing")
    assert code == 2
    assert "weights.safetensors' was changed;" in err
    code, _, err = command("score", tmp_path / "plain", "new.npz", "--model", "their_nets:make")
    assert (code, "leave out --model" in err) == (2, True)


def test_the_command_that_names_the_network_can_be_run_as_it_is_printed(command, there, tmp_path):
    words = [
        "fit",
        "--model",
        "their_nets:Choosing",
        "--weights",
        "choosing.safetensors",
        "--data",
        "calibration.npz",
    ]
    assert command(*words, "-o", tmp_path / "my det")[0] == 0
    (tmp_path / "my new.npz").write_bytes(Path("new.npz").read_bytes())
    code, _, err = command("score", tmp_path / "my det", tmp_path / "my new.npz")
    assert code == 2
    program, *again = shlex.split(err.partition("what makes it: ")[2])
    code, out, err = command(*again)
    assert (program, code, len(out.splitlines())) == ("nescio", 0, 41), err


def test_settings_of_a_detector_are_given_by_name(command, there, net, tmp_path):
    code, out, err = command(
        *FIT, "--detector", "knn", "--set", "k=3", "size=40", "-o", tmp_path / "det"
    )
    assert code == 0, err
    assert "k: 3, size: 40" in out
    code, out, err = command("score", tmp_path / "det", "new.npz")
    assert code == 0, err
    explained = (
        nescio.KNN(net, k=3, size=40)
        .fit(load("three_blobs").test)
        .explain(np.load("new.npz")["inputs"])
    )
    check_explained(list(csv.DictReader(out.splitlines())), explained, "012")


def test_a_detector_of_gradients_asks_for_the_network(command, there, net, tmp_path):
    code, out, err = command(*FIT, "--score", "gradient_l2:linear1", "-o", tmp_path / "det")
    assert code == 0, err
    assert "--model their_nets:make" in out
    assert "the network's own layers" in " ".join(out.split())
    assert command("score", tmp_path / "det", "new.npz")[0] == 2
    code, out, err = command("score", tmp_path / "det", "new.npz", "--model", "their_nets:make")
    assert code == 0, err
    explained = nescio.Threshold(net, score="gradient_l2:linear1").fit(load("three_blobs").test)
    check_explained(
        list(csv.DictReader(out.splitlines())),
        explained.explain(np.load("new.npz")["inputs"]),
        "012",
    )


def test_tables_go_by_column_name_and_gaps_are_unknown(command, there, net, tmp_path):
    blobs = load("three_blobs").test
    kinds = [("red", "green", "blue")[label] for label in blobs.labels]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        body = ([kind, *row] for kind, row in zip(kinds, blobs.inputs.tolist(), strict=True))
        csv.writer(file).writerows([["kind", "a", "b"], *body])
    words = [
        "fit",
        "--model",
        "their_nets:make",
        "--weights",
        "w.safetensors",
        "--data",
        tmp_path / "t.csv",
        "-o",
        tmp_path / "det",
        "--label",
        "kind",
        "--class-names",
        "red,green,blue",
        "--risk",
        0.2,
        "--detector",
        "threshold",
    ]
    code, out, err = command(*words)
    assert code == 0, err
    assert "at most 20 % of accepted answers are wrong" in out
    with (tmp_path / "new.csv").open("w", newline="") as file:
        body = [[b, "x", a] for a, b in blobs.inputs[:9].tolist()]
        csv.writer(file).writerows(
            [["b", "note", "a"], *body, ["", "x", 1], [1, "x", "inf"], ["nan", "x", 0]]
        )
    code, out, err = command("score", tmp_path / "det", tmp_path / "new.csv", "--batch-size", 4)
    assert code == 0, err
    found = list(csv.DictReader(out.splitlines()))
    detector = nescio.Threshold(net).fit(blobs, risk=0.2)
    gaps = torch.tensor([[1, torch.nan], [torch.inf, 1], [0, torch.nan]])
    check_explained(
        found,
        detector.explain(torch.cat([blobs.inputs[:9], gaps]), batch_size=4),
        ["red", "green", "blue"],
    )
    assert [row["class"] for row in found[9:]] == ["unknown"] * 3
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,four\n")
    code, _, err = command("score", tmp_path / "det", tmp_path / "bad.csv")
    assert (code, "line 3: 'four'" in err) == (2, True)


def test_folders_of_images_and_a_network_that_is_there(command, there, tmp_path):
    values = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (tmp_path / "calibration" / kind).mkdir(parents=True)
        for index in range(15):
            Image.fromarray(values.integers(256, size=(8, 8), dtype=np.uint8)).save(
                tmp_path / "calibration" / kind / f"{index:02}.png"
            )
    words = [
        "fit",
        "--model",
        "their_nets:ready",
        "--data",
        tmp_path / "calibration",
        "-o",
        tmp_path / "det",
        "--score",
        "energy",
    ]
    code, out, err = command(*words, "--accept", 0.8)
    assert code == 0, err
    assert "2 classes" in out
    code, out, err = command("score", tmp_path / "det", tmp_path / "calibration", "--batch-size", 4)
    assert code == 0, err
    found = list(csv.DictReader(out.splitlines()))
    assert [row["input"] for row in found[:2]] == ["cat/00.png", "cat/01.png"]
    assert {row["model_class"] for row in found} <= {"cat", "dog"}
    images = nescio.data.read(tmp_path / "calibration")
    net = sys.modules["their_nets"].ready
    check_explained(
        found,
        nescio.Threshold(net, score="energy").fit(images, accept=0.8).explain(images, 4),
        ["cat", "dog"],
    )


def test_inputs_of_any_shape_and_range_are_taken_as_they_are(command, there, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 5, 4)).astype(np.float32) * 3
    np.savez(tmp_path / "calibration.npz", inputs=x)
    code, out, err = command(
        "fit",
        "--model",
        "their_nets:Series",
        "--data",
        tmp_path / "calibration.npz",
        "-o",
        tmp_path / "d",
    )
    assert code == 0, err
    assert "3 classes" in out
    assert (
        command("score", tmp_path / "d", tmp_path / "calibration.npz", "-o", tmp_path / "a.csv")[0]
        == 0
    )
    assert len(rows_of(tmp_path / "a.csv")) == 60
    np.savez(tmp_path / "other.npz", inputs=x[:, :4])
    code, _, err = command("score", tmp_path / "d", tmp_path / "other.npz")
    assert (code, "must have shape (5, 4), got" in err) == (2, True)


def test_images_and_inputs_as_they_are_do_not_stand_for_each_other(command, there, tmp_path):
    pixels = np.random.default_rng(0).integers(256, size=(60, 8, 8), dtype=np.uint8)
    for index, one in enumerate(pixels):
        save_picture(tmp_path / "folder" / f"{index:02}.png", one)
    np.savez(tmp_path / "inputs.npz", inputs=pixels[:, None].astype(np.float32))
    np.savez(tmp_path / "images.npz", images=pixels)
    np.save(tmp_path / "images.npy", pixels)
    rows = [",".join(map(str, one)) for one in (range(64), *pixels.reshape(60, 64).tolist())]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    images, inputs = ["folder", "images.npz", "images.npy"], ["inputs.npz", "rows.csv"]
    for fitted_on, alike, others in (
        ("inputs.npz", inputs, images),
        ("folder", images, inputs),
        ("images.npz", images, inputs),
        ("images.npy", images, inputs),
    ):
        det = tmp_path / "det"
        fit = [
            "fit",
            "--model",
            "their_nets:ready",
            "--data",
            tmp_path / fitted_on,
            "-o",
            det,
            "--accept",
            0.8,
        ]
        code, _, err = command(*fit)
        assert code == 0, err
        answers = []
        for name in alike:
            code, out, err = command("score", det, tmp_path / name)
            assert code == 0, (fitted_on, name, err)
            answers.append([list(row.values())[1:] for row in csv.DictReader(out.splitlines())])
        assert all(one == answers[0] for one in answers)
        assert sum(row[0] == "unknown" for row in answers[0]) <= 12
        for name in others:
            code, out, err = command("score", det, tmp_path / name)
            assert (code, out) == (2, ""), (fitted_on, name)
            assert "fitted on" in err or "pixels must be in [0, 1]" in err
            code, out, err = command(*fit, "--detector", "knn", "--train", tmp_path / name)
            assert code == 2, (fitted_on, name)


def test_thresholds_per_class_are_shown(command, there, net, tmp_path):
    code, out, err = command(*FIT, "-o", tmp_path / "det", "--per-class", "--accept", 0.8)
    assert code == 0, err
    detector = nescio.Threshold(net).fit(load("three_blobs").test, accept=0.8, per_class=True)
    for label, threshold in enumerate(detector.threshold_.tolist()):
        count = int((detector.calibration_class_ == label).sum())
        assert [str(label), str(count), f"{threshold:g}"] in [
            line.split() for line in out.splitlines()
        ]


def test_a_run_is_fitted_on_its_test_data(command, tmp_path):
    run = tmp_path / "run"
    assert (
        command(
            "train",
            "softmax",
            "--data",
            "digits",
            "--network",
            "mlp",
            "--epochs",
            3,
            "--unseen",
            "8,9",
            "-o",
            run,
        )[0]
        == 0
    )
    code, out, err = command("fit", run, "--score", "energy", "-o", tmp_path / "det")
    assert code == 0, err
    assert "digits, test part" in out
    known = load("digits", unseen=(8, 9))
    np.savez(tmp_path / "new.npz", images=known.unseen.inputs[:30].numpy())
    code, out, err = command("score", tmp_path / "det", tmp_path / "new.npz")
    assert code == 0, err
    model = nescio.load(run / "model.safetensors")
    explained = (
        nescio.Threshold(model, score="energy").fit(known.test).explain(known.unseen.inputs[:30])
    )
    check_explained(list(csv.DictReader(out.splitlines())), explained, known.classes)
    code, _, err = command(
        "fit", run, "--detector", "meta", "-o", tmp_path / "meta", "--data", tmp_path / "new.npz"
    )
    assert (code, "labelled data" in err) == (2, True)
    assert not (tmp_path / "meta").exists()


MAKE = "fit --model their_nets:make --data calibration.npz "


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit --model no_such_nets:make --data calibration.npz", "no module 'no_such_nets'"),
        (
            "fit --model their_nets.deeper:make --data calibration.npz",
            "importing their_nets.deeper|no module",
        ),
        ("fit --model their_nets:mak --data calibration.npz", "did you mean 'make'"),
        ("fit --model their_nets --data calibration.npz", "expected package.module:callable"),
        (
            "fit --model their_nets:make() --data calibration.npz",
            "expected package.module:callable",
        ),
        ("fit --model their_nets:needs --data calibration.npz", "needs classes"),
        ("fit --model their_nets:fails --data calibration.npz", "raised KeyError"),
        ("fit --model their_nets:words --data calibration.npz", "returned a str"),
        ("fit --model their_nets:number --data calibration.npz", "is a int"),
        ("fit --model broken_nets:make --data calibration.npz", "raised ZeroDivisionError"),
        (MAKE + "--weights weights.pt", "safetensors.torch.save_file(net.state_dict()"),
        (MAKE + "--weights renamed.safetensors", "safetensors.torch.save_file(net.state_dict()"),
        (MAKE + "--weights calibration.npz", "is a NumPy archive; expected safetensors"),
        (MAKE + "--weights cut.safetensors", "not a whole safetensors file"),
        (MAKE + "--weights none.safetensors", "no such file"),
        (MAKE + "--weights choosing.safetensors", "it lacks 0.weight"),
        (MAKE + "--weights parallel.safetensors", "net.module.state_dict()"),
        (MAKE + "--weights wide.safetensors", "0.weight is (17, 2), not (16, 2)"),
        (MAKE + "--class-names a,b", "got 2 class names, but the network has 3 outputs"),
        (MAKE + "--class-names a,b,unknown", "must differ"),
        (MAKE + "--layer x", "combined has no setting 'layer'"),
        (MAKE + "--detector knn --set q=1", "knn has no setting 'q'; it has layer, k, size, seed"),
        (MAKE + "--detector knn --set model=1", "knn has no setting 'model'"),
        (MAKE + "--detector knn --set k=many", "k must be an int"),
        (MAKE + "--detector knn --set k=1e999", "k must be an int"),
        (MAKE + "--detector knn --set k", "'k' is no setting; expected name=value"),
        (MAKE + "--detector knn --set k=1 k=2", "k was given twice"),
        (MAKE + "--detector mahalanobis --set floor=NaN", "floor must be a number"),
        (MAKE + "--score energy --set score=entropy", "score was given twice"),
        (MAKE + "--detector threshold --set score=3", "unknown score 3"),
        (MAKE + "--detector threshhold", "did you mean 'threshold'"),
        (
            MAKE + "--detector mahalanobis --train calibration.npz",
            "calibrated on what it learned from",
        ),
        (
            MAKE + "--detector combined --train calibration.npz",
            "calibrated on what it learned from",
        ),
        (MAKE + "--accept 0.9 --risk 0.1", "two ways"),
        (MAKE + "--accept 0.99999", "too few"),
        (MAKE + "-o {tmp}/taken", "holds other things"),
        (
            "fit --model their_nets:Together --data calibration.npz",
            "answers 8 inputs, but not one alone",
        ),
        ("fit --model their_nets:make", "--data"),
        ("fit --data calibration.npz", "either a run or --model"),
        ("fit --model their_nets:make --data new.npz", "NaN"),
        ("fit --model their_nets:make --data nothing.npz", "no such file"),
        ("fit {tmp}/taken --data calibration.npz", "not a run"),
        ("score {tmp}/nope new.npz", "is not a folder of `nescio fit` or `nescio train`"),
        ("score {tmp}/taken new.npz", "is not a folder of `nescio fit` or `nescio train`"),
        ("score {tmp}/taken new.npz --fail-on-unknown", "not a folder of `nescio fit`"),
    ],
)
def test_bad_input_ends_with_its_message_and_leaves_nothing(
    command, there, tmp_path, words, message
):
    (there / "broken_nets.py").write_text("1 / 0")
    weights = load_file(there / "w.safetensors")
    torch.save(weights, there / "weights.pt")
    (there / "renamed.safetensors").write_bytes((there / "weights.pt").read_bytes())
    (there / "cut.safetensors").write_bytes((there / "w.safetensors").read_bytes()[:-9])
    save_file(
        {f"module.{name}": value for name, value in weights.items()}, there / "parallel.safetensors"
    )
    save_file({**weights, "0.weight": torch.ones(17, 2)}, there / "wide.safetensors")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("mine")
    given = words.format(tmp=tmp_path).split()
    given += ["-o", str(tmp_path / "det")] if "-o" not in given and given[0] == "fit" else []
    code, out, err = command(*given)
    shown = " ".join(err.replace("│", " ").split())
    assert code == 2, (code, out, err)
    assert any(part in shown for part in message.split("|")), shown
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["thesis.tex"]


def test_the_current_folder_counts_last_and_only_for_what_is_named(
    command, there, tmp_path, monkeypatch
):
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "nets_twin.py").write_text(
        "import torch\nfrom torch import nn\ndef other(): ..."
    )
    (there / "nets_twin.py").write_text("from their_nets import make")
    (there / "nets_lazy.py").write_text("raise AssertionError('nobody named it')")
    (there / "nets_beside.py").write_text(
        "import sys\nimport their_nets\nfrom torch import nn\n"
        "def ends():\n    sys.exit(7)\ndef make():\n"
        "    return their_nets.make()\n"
        "class Late(nn.Module):\n    def forward(self, x):\n        import nets_lazy"
    )
    monkeypatch.syspath_prepend(tmp_path / "installed")
    before = list(sys.path)
    fit = ["fit", "--data", "calibration.npz", "-o", tmp_path / "det", "--model"]
    code, _, err = command(*fit, "nets_beside:make")  # which imports its neighbour
    assert code == 0, err
    for name, said in [
        ("nets_beside:ends", "nets_beside:ends raised SystemExit: 7"),
        ("nets_beside:Late", "ModuleNotFoundError: No module named 'nets_lazy'"),
        (
            "nets_beside:mak",
            "did you mean 'make'? Known: Late, ends, make; nets_beside was imported from "
            f"{there / 'nets_beside.py'}\n",
        ),
        ("their_nets:number.more", "unknown name in their_nets:number 'more'"),
        (
            "nets_twin:make",
            f"Known: other; nets_twin was imported from {tmp_path / 'installed' / 'nets_twin.py'}; "
            "nets_twin.py in the current folder has the name of an installed module",
        ),
        (
            "nets_twin.deep:make",
            "nets_twin.py in the current folder has the name of an installed module",
        ),
    ]:
        code, _, err = command(*fit, name)
        assert (code, said in err) == (2, True), err
        assert sys.path == before
    assert "nets_lazy" not in sys.modules
    for name in ("nets_beside", "nets_twin"):
        del sys.modules[name]


def test_a_folder_that_was_tampered_with_is_refused(command, there, det):
    text = (det / "fitted.json").read_text()
    changes = [
        ('"graph"', '"pickle"'),
        ('"threshold"', '"meta"'),
        ('"2"\n ]', '"2", "3"\n ]'),
        ("{", "["),
        ('"0",\n  "1"', '"1",\n  "0"'),
        ('"0",', '"unknown",'),
        ('"score": null', '"score": "energy"'),
        ('"shape": [\n  2\n ]', '"shape": [\n  1,\n  2\n ]'),
        ('"kind": "inputs"', '"kind": "images"'),
        ('"calibration.npz"', '"other.npz"'),
    ]
    for old, new in changes:
        assert old in text, old
        (det / "fitted.json").write_text(text.replace(old, new, 1))
        code, out, err = command("score", det, "new.npz")
        assert (code, out, "Traceback" in err) == (2, "", False), (new, err)
        assert "was changed since it was fitted" in err or new == "["
    (det / "fitted.json").write_text(text)
    graph = (det / "graph.safetensors").read_bytes()
    tensors, about = read_tensors(det / "graph.safetensors", "graph")
    write_tensors(det / "graph.safetensors", "graph", {**tensors, "0": tensors["0"] + 1}, about)
    code, _, err = command("score", det, "new.npz")
    assert (code, "graph.safetensors' was changed;" in err) == (2, True)
    (det / "graph.safetensors").unlink()
    code, _, err = command("score", det, "new.npz")
    assert (code, "graph.safetensors' is missing" in err) == (2, True)
    (det / "graph.safetensors").write_bytes(graph)
    assert command("score", det, "new.npz")[0] == 0
    save_file({"0": torch.zeros(1)}, det / "weights.safetensors")
    code, _, err = command("score", det, "new.npz")
    assert (code, "weights.safetensors' was added" in err) == (2, True)
    assert command(*FIT, "-o", det)[0] == 0  # a detector's folder may be written anew
    assert command("score", det, "new.npz")[0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ("0", "1", "unknown")}, "must differ"),
        ({"classes": ("0", "1", "2", "3")}, "names 4 classes"),
        ({"network": "pickle"}, "'pickle'"),
        ({"kind": "sounds"}, "'sounds'"),
        ({"shape": ()}, "shape"),
        ({"detector": "meta"}, "'meta'"),
        ({"settings": {"score": "energy"}}, "other settings"),
    ],
)
def test_what_no_fit_would_say_is_refused_though_its_digest_is_right(
    command, there, det, change, message
):
    facts = nescio.records.Fitted.load(det / "fitted.json")
    replace(facts, **change).sealed(facts.files).save(det / "fitted.json")
    code, out, err = command("score", det, "new.npz")
    assert (code, out, message in err) == (2, "", True), err


def test_what_a_user_put_into_a_detectors_folder_stays(command, there, tmp_path, det):
    assert command("score", det, "new.npz", "-o", det / "answers.csv")[0] == 0
    before = {path.name: path.read_bytes() for path in det.iterdir()}
    code, _, err = command(*FIT, "-o", det)
    assert (code, "holds other things (answers.csv)" in err) == (2, True)
    assert {path.name: path.read_bytes() for path in det.iterdir()} == before
    assert os.listdir(tmp_path) == ["det"]


def test_answers_never_take_the_place_of_what_is_read(command, there, tmp_path):
    det, pictures = tmp_path / "det", tmp_path / "pictures"
    np.savez(
        tmp_path / "calibration.npz",
        images=np.random.default_rng(0).integers(256, size=(30, 8, 8), dtype=np.uint8),
    )
    words = [
        "fit",
        "--model",
        "their_nets:ready",
        "--accept",
        0.8,
        "--data",
        tmp_path / "calibration.npz",
        "-o",
        det,
    ]
    assert command(*words)[0] == 0
    (tmp_path / "rows.csv").write_text(
        ",".join(map(str, range(64))) + "\n" + ",".join(["0.5"] * 64) + "\n"
    )
    (tmp_path / "link.csv").symlink_to("rows.csv")
    for name in ("a.png", "deep/b.png"):
        save_picture(pictures / name, np.zeros((8, 8), np.uint8))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for inputs, output, why in [
        ("calibration.npz", "calibration.npz", "is an input of this command"),
        ("rows.csv", "rows.csv", "is an input of this command"),
        ("rows.csv", "link.csv", "is an input of this command"),
        ("link.csv", "rows.csv", "is an input of this command"),
        ("pictures", "pictures/deep/b.png", "is an input of this command"),
        ("pictures/a.png", "pictures/a.png", "is an input of this command"),
        ("rows.csv", "det/fitted.json", "belongs to"),
        ("rows.csv", "det/detector.safetensors", "belongs to"),
    ]:
        code, _, err = command("score", det, tmp_path / inputs, "-o", tmp_path / output)
        assert (code, why in err) == (2, True), (inputs, output, err)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    for _ in range(2):  # answers themselves are replaced
        assert command("score", det, pictures, "-o", pictures / "answers.csv")[0] == 0
        assert command("score", det, pictures, "-o", det / "answers.csv")[0] == 0


def test_pictures_of_any_size_and_colour_are_answered_each_as_if_alone(command, there, tmp_path):
    values, expected = np.random.default_rng(0), []
    for index in range(30):
        save_picture(
            tmp_path / "calibration" / f"{index:02}.png",
            values.integers(256, size=(8, 8), dtype=np.uint8),
        )
    for index, size in enumerate([(8, 8), (8, 8, 3), (12, 16), (12, 16, 3), (5, 9), (8, 8)]):
        pixels = values.integers(256, size=size, dtype=np.uint8)
        for place in ("new", f"alone{index}"):
            save_picture(tmp_path / place / f"{index}.png", pixels)
        expected.append(
            adapt(nescio.data.read(tmp_path / f"alone{index}"), (1, 8, 8)).take(slice(None))[0]
        )
    words = [
        "fit",
        "--model",
        "their_nets:ready",
        "--data",
        tmp_path / "calibration",
        "-o",
        tmp_path / "det",
    ]
    assert command(*words, "--accept", 0.8, "--detector", "threshold")[0] == 0
    detector = nescio.Threshold(sys.modules["their_nets"].ready).fit(
        nescio.data.read(tmp_path / "calibration"), accept=0.8
    )
    for size in (1, 2, 256):
        code, out, err = command("score", tmp_path / "det", tmp_path / "new", "--batch-size", size)
        assert code == 0, err
        found = list(csv.DictReader(out.splitlines()))
        assert [row["input"] for row in found] == [f"{index}.png" for index in range(6)]
        check_explained(found, detector.explain(torch.cat(expected), batch_size=size), "01")


def test_images_that_cannot_be_read_are_unknown_and_reported(command, there, tmp_path):
    values = np.random.default_rng(0)
    for index in range(30):
        save_picture(
            tmp_path / "calibration" / f"{index:02}.png",
            values.integers(256, size=(8, 8), dtype=np.uint8),
        )
    words = ["fit", "--model", "their_nets:ready", "--accept", 0.8, "--data"]
    assert command(*words, tmp_path / "calibration", "-o", tmp_path / "det")[0] == 0
    alone = ("--batch-size", 1)  # in both, since digits may depend on what else is in a batch
    whole = command("score", tmp_path / "det", tmp_path / "calibration", *alone)
    cut = (tmp_path / "calibration" / "03.png").read_bytes()[:60]
    (tmp_path / "calibration" / "03.png").write_bytes(cut)
    (tmp_path / "calibration" / "17.png").write_bytes(b"")
    code, out, err = command("score", tmp_path / "det", tmp_path / "calibration", *alone)
    assert code == 0
    lost = ["03.png,unknown,,,0.0,", "17.png,unknown,,,0.0,"]
    before = [line for line in whole[1].splitlines() if line[:6] not in ("03.png", "17.png")]
    assert sorted(out.splitlines()) == sorted(before + lost)
    assert out.splitlines()[4] == lost[0]
    assert "2 images could not be read" in err
    assert "03.png" in err
    assert command("score", tmp_path / "det", tmp_path / "calibration", "--fail-on-unknown")[0] == 3
    assert "could not be read" not in whole[2]
    code, _, err = command(
        *words, tmp_path / "calibration", "-o", tmp_path / "other"
    )  # known ones must be readable
    assert (code, "03.png: is not a readable" in err) == (2, True)
    with pytest.raises(NescioError, match=r"03\.png"):
        list(Stream(tmp_path / "calibration", (1, 8, 8), None, 5))


def test_images_of_other_kinds_are_skipped_and_reported(command, there, tmp_path):
    values = np.random.default_rng(0)
    for index in range(30):
        save_picture(
            tmp_path / "calibration" / f"{index:02}.png",
            values.integers(256, size=(8, 8), dtype=np.uint8),
        )
    words = [
        "fit",
        "--model",
        "their_nets:ready",
        "--accept",
        0.8,
        "--data",
        tmp_path / "calibration",
    ]
    assert command(*words, "-o", tmp_path / "det")[0] == 0
    (tmp_path / "calibration" / "none").mkdir()
    for name in ("more/scan.tif", "more/31.png", "more/moving.gif"):
        save_picture(tmp_path / "calibration" / name, np.zeros((8, 8), np.uint8))
    code, out, err = command("score", tmp_path / "det", tmp_path / "calibration")
    assert (code, len(out.splitlines())) == (0, 32)
    assert out.splitlines()[-1].startswith("more/31.png,")
    assert "2 images neither PNG nor JPEG, so skipped: " in err
    assert "moving.gif, …" in err


def test_one_image_is_answered_as_it_is_in_its_folder(command, there, tmp_path):
    values = np.random.default_rng(0)
    for index in range(30):
        save_picture(
            tmp_path / "calibration" / f"{index:02}.png",
            values.integers(256, size=(8, 8), dtype=np.uint8),
        )
    save_picture(
        tmp_path / "calibration" / "30.JPEG", values.integers(256, size=(9, 11, 3), dtype=np.uint8)
    )
    words = ["fit", "--model", "their_nets:ready", "--accept", 0.8, "--data"]
    np.savez(
        tmp_path / "calibration.npz", images=values.integers(256, size=(30, 8, 8), dtype=np.uint8)
    )
    assert command(*words, tmp_path / "calibration.npz", "-o", tmp_path / "det")[0] == 0
    lines = command("score", tmp_path / "det", tmp_path / "calibration", "--batch-size", 1)[
        1
    ].splitlines()
    for name, line in (("07.png", lines[8]), ("30.JPEG", lines[31])):
        code, out, err = command("score", tmp_path / "det", tmp_path / "calibration" / name)
        assert (code, out.splitlines()) == (0, [lines[0], line]), err
    (tmp_path / "calibration" / "07.png").write_bytes(b"")
    code, out, err = command(
        "score", tmp_path / "det", tmp_path / "calibration" / "07.png", "--fail-on-unknown"
    )
    assert (code, out.splitlines()[1]) == (3, "07.png,unknown,,,0.0,")
    assert "1 image could not be read, so unknown: " in err


def test_what_can_be_scored_is_listed_alike_everywhere(command, there, tmp_path, det):
    (tmp_path / "a.tif").write_bytes(b"II")
    code, _, error = command("score", det, tmp_path / "a.tif")
    assert (code, "of no known format" in error) == (2, True)
    page = (Path(__file__).parents[3] / "docs" / "guide" / "command-line.md").read_text(
        encoding="utf-8"
    )
    table = page.partition("| file | contents |")[2].partition("\n\n")[0]
    helped = command("score", "--help")[1]
    for kind in (".csv", ".csv.gz", ".csv.bz2", ".npz", ".npy", "idx", "PNG", "JPEG", "folder"):
        assert all(kind in text for text in (error, table, helped)), kind


def test_answers_are_written_as_they_come(own, net):
    written = io.StringIO()

    class Watched:
        batch_size, categorical, unseen_categories = 4, False, ()

        def __iter__(self):
            for batch in range(3):
                assert len(written.getvalue().splitlines()) == (0 if batch == 0 else 1 + 4 * batch)
                yield [str(4 * batch + i) for i in range(4)], 12, torch.zeros(4, 2)

    detector = nescio.Threshold(net).fit(load("three_blobs").test)
    assert write_verdicts(written, detector, "012", Watched()).count == 12
    assert len(written.getvalue().splitlines()) == 13


def test_files_are_read_as_they_are_needed(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 10_000 + "oops\n")
    stream = iter(Stream(tmp_path / "t.csv", (2,), None, 100))
    assert [len(next(stream)[2]) for _ in range(100)] == [100] * 100
    with pytest.raises(NescioError, match=r"line 10002: expected .* got 1"):
        next(stream)
    (tmp_path / "pictures").mkdir()
    for index in range(5):
        Image.fromarray(np.full((4, 4), index, np.uint8)).save(
            tmp_path / "pictures" / f"{index}.png"
        )
    (tmp_path / "pictures" / "4.png").write_bytes(b"no picture")
    names, count, x = next(iter(Stream(tmp_path / "pictures", (1, 4, 4), None, 3)))
    assert (names, count, tuple(x.shape)) == (["0.png", "1.png", "2.png"], 5, (3, 1, 4, 4))
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    for array, name in ((x, "c.npz"), (np.asfortranarray(x), "f.npz")):
        np.savez_compressed(tmp_path / name, inputs=array)
        parts = list(Stream(tmp_path / name, (4,), None, 4))
        assert [(names, count) for names, count, _ in parts] == [
            (["0", "1", "2", "3"], 6),
            (["4", "5"], 6),
        ]
        assert np.array_equal(torch.cat([part for *_, part in parts]).numpy(), x)


def test_an_error_in_the_middle_leaves_no_answers(command, there, tmp_path, det):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 50 + "oops\n")
    code, _, err = command(
        "score", det, tmp_path / "t.csv", "-o", tmp_path / "a.csv", "--batch-size", 10
    )
    assert (code, "line 52" in err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["det", "t.csv"]


def test_answers_have_the_columns_that_the_page_says(command, there, tmp_path, det):
    """That its commands run is in test_pages.py."""
    page = (Path(__file__).parents[3] / "docs" / "guide" / "command-line.md").read_text(
        encoding="utf-8"
    )
    assert command("score", det, "new.npz", "-o", tmp_path / "answers.csv")[0] == 0
    found = rows_of(tmp_path / "answers.csv")
    table = re.search(r"(?:^\| `\w+` \|.*\n)+", page, re.MULTILINE)[0]  # the first of the page
    assert list(found[0]) == re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert len(found) == 40


def test_the_detector_that_suits_a_users_network_answers_from_the_folder_it_is_left_in(
    command, there, net, tmp_path
):
    """With the record beside it, and no code of the user's."""
    generator = torch.Generator().manual_seed(0)
    for name, count in (("calibration", 300), ("train", 400), ("new", 50)):
        np.savez(
            tmp_path / f"{name}.npz", inputs=torch.randn(count, 2, generator=generator).numpy()
        )
    words = ["recommend", "--model", "their_nets:make", "--weights", there / "w.safetensors"]
    words += [
        "--data",
        tmp_path / "calibration.npz",
        "--train",
        tmp_path / "train.npz",
        "--candidates",
        "energy",
        "knn",
    ]
    code, out, _ = command(*words, "--accept", 0.9, "-o", tmp_path / "found")
    assert code == 0
    record = nescio.records.Recommendation.load(tmp_path / "found" / "recommendation.json")
    assert f"Recommended: {record.detector} " in out
    assert "Calibrated on 150 inputs" in out
    assert "nescio score" in out
    code, answers, _ = command("score", tmp_path / "found" / "recommended", tmp_path / "new.npz")
    assert code == 0
    assert len(answers.splitlines()) == 51
    code, _, err = command("recommend", "--model", "their_nets:make")
    assert code == 2
    assert "--data calibration.npz" in err


def test_a_detectors_folder_is_no_place_for_a_recommendation(command, there, tmp_path):
    assert command(*FIT, "-o", tmp_path / "det", "--accept", 0.9)[0] == 0
    code, _, err = command("recommend", *PLAIN[1:], "-o", tmp_path / "det")
    assert code == 2
    assert "contains a detector" in err
    assert {path.name for path in (tmp_path / "det").iterdir()} == {
        "detector.safetensors",
        "graph.safetensors",
        "fitted.json",
    }


@pytest.mark.parametrize("given", ["a\nb,c,d", '"a,c,d'])
def test_class_names_that_cannot_be_divided(command, there, tmp_path, given):
    code, _, err = command(*FIT, "-o", tmp_path / "det", "--class-names", given)
    assert code == 2
    assert "must be names separated by commas" in " ".join(err.split())


def test_a_network_on_the_meta_device_is_reported(command, there):
    (there / "hollow.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Linear(2, 3, device='meta')\n"
    )
    code, _, err = command(
        "fit", "--model", "hollow:make", "--data", "calibration.npz", "-o", "hollow_det"
    )
    sys.modules.pop("hollow", None)
    assert (code, "on the meta device" in err) == (2, True), err
