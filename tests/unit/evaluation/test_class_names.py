"""Whether a network's outputs are called what they are."""

import csv
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from nescio.data import Samples
from nescio.evaluation.class_names import best_order, doubt

CODE = """
import torch
from torch import nn
net = nn.Sequential(nn.Flatten(), nn.Linear(12, 12, bias=False))
net[1].weight.data = 9 * torch.eye(12)
"""
TEXT = sorted(map(str, range(12)))


@pytest.fixture
def twelve(tmp_path, monkeypatch):
    """Where output i of a network stands for a bright pixel i, and data for each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "twelve_nets.py").write_text(CODE)
    rng = np.random.default_rng(0)
    labels = np.arange(12).repeat(20)
    yield tmp_path, np.clip(np.eye(12)[labels] + 0.1 * rng.random((240, 12)), 0, 1), labels
    sys.modules.pop("twelve_nets", None)


def fit_and_score(command, data, *words):
    """Names of the outputs, what `fit` said and warned of, and the rows."""
    code, out, err = command(
        "fit", "--model", "twelve_nets:net", "--data", data, "-o", "det", *words
    )
    assert code == 0, err
    classes = json.loads(Path("det/fitted.json").read_text())["classes"]
    assert command("score", "det", data, "-o", "a.csv")[0] == 0
    with open("a.csv", newline="") as file:
        return classes, out, err, list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["{}", "{}.0", "k{}", "{:.18e}"])
def test_labels_of_a_table(command, twelve, name):
    _, x, y = twelve
    header = ",".join(f"p{i}" for i in range(12)) + ",label\n"
    lines = [
        ",".join(map(str, row)) + f",{name.format(label)}\n"
        for row, label in zip(x, y, strict=True)
    ]
    Path("t.csv").write_text(header + "".join(lines))
    classes, out, err, rows = fit_and_score(command, "t.csv", "--label", "label")
    assert classes == [f"k{i}" if "k" in name else str(i) for i in range(12)]
    assert [row["model_class"] for row in rows] == [classes[label] for label in y]
    assert f"Outputs: 0 → {classes[0]}, 1 → {classes[1]}, 2 → {classes[2]}," in out
    assert "warning" not in err


def test_folders(command, twelve):
    folder, x, y = twelve
    for i, (pixels, label) in enumerate(zip(x, y, strict=True)):
        (folder / "images" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * pixels.reshape(3, 4)).astype(np.uint8)).save(
            folder / "images" / str(label) / f"{i}.png"
        )
    classes, _, err, rows = fit_and_score(command, "images")
    assert classes == [str(i) for i in range(12)]
    assert all(row["model_class"] == row["input"].split("/")[0] for row in rows)
    assert "warning" not in err
    classes, out, err, _ = fit_and_score(command, "images", "--class-names", ",".join(TEXT))
    assert "2 → 10" in out
    assert f"--class-names; the labels suggest {','.join(map(str, range(12)))}" in " ".join(
        err.split()
    )
    assert "right for 17 % of 240 labelled inputs" in err
    assert "in another order for 100 %" in err


def net_of(order):
    net = nn.Linear(len(order), len(order), bias=False)
    net.weight.data = 9 * torch.eye(len(order))[order]
    return net


def one_hot(count, copies, wrong=0.0, seed=0):
    """Inputs of labels in order, a share of them looking like another."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count).repeat_interleave(copies)
    seen = torch.where(
        torch.rand(len(labels), generator=generator) < wrong,
        torch.randint(count, labels.shape, generator=generator),
        labels,
    )
    return Samples(torch.eye(count)[seen], labels)


def test_two_outputs_of_a_hundred_that_were_exchanged_are_noticed():
    order = list(range(100))
    names = [str(i) for i in order]
    assert doubt(net_of(order), one_hot(100, 10), names) is None
    order[3], order[70] = 70, 3
    assert "--class-names" in doubt(net_of(order), one_hot(100, 10), names)


@pytest.mark.parametrize("seed", range(5))
def test_a_poor_network_in_the_right_order_is_not_suspected(seed):
    assert (
        doubt(net_of(list(range(10))), one_hot(10, 20, wrong=0.6, seed=seed), "abcdefghij") is None
    )


def test_answers_at_random_are_reported():
    said = doubt(net_of(list(range(10))), one_hot(10, 20, wrong=1.0), "abcdefghij")
    assert "no better than chance (10 %)" in said
    assert "suggest" not in said


def test_the_best_order_is_found_and_ties_stay():
    order = random.Random(0).sample(range(8), 8)
    found = np.zeros((8, 8), np.int64)
    found[range(8), order] = 5
    assert best_order(found) == order
    assert best_order(np.zeros((8, 8), np.int64)) == list(range(8))


def test_a_run_on_a_table_keeps_the_order_of_its_classes(command, twelve):
    folder, x, y = twelve
    lines = [",".join(map(str, row)) + f",{label}.0\n" for row, label in zip(x, y, strict=True)]
    (folder / "t.csv").write_text(
        ",".join(f"p{i}" for i in range(12)) + ",label\n" + "".join(lines)
    )
    words = ("--network", "mlp", "--epochs", 1, "--unseen", "10.0")
    assert command("train", "softmax", "--data", folder / "t.csv", *words, "-o", "run")[0] == 0
    code, _, err = command("fit", "run", "-o", "det")
    assert code == 0, err
    classes = json.loads(Path("det/fitted.json").read_text())["classes"]
    assert classes == [*map(str, range(10)), "11"]
    code, _, err = command("fit", "run", "--data", "t.csv", "--label", "label", "-o", "det")
    assert (code, "label '10'" in err) == (2, True), err
    (folder / "t.csv").write_text((folder / "t.csv").read_text().replace(",0.0\n", ",1.0\n"))
    code, _, err = command("fit", "run", "-o", "det")
    assert (code, "has changed since" in err) == (2, True), err
