"""Classes in the order in which people count."""

import random

import numpy as np
import pytest
import torch
from PIL import Image

from nescio import data
from nescio.data.class_order import in_order, plain_name


@pytest.mark.parametrize(
    "names",
    [
        [str(i) for i in range(12)],
        [f"k{i}" for i in range(12)],
        ["-10", "-2", "0", "3", "20"],
        ["7", "10", "a", "b2c", "b10a", "b10b"],
        ["0.5", "2", "10.25", "1e2"],
        ["<=50K", ">50K"],
        ["00", "01", "1", "02"],
    ],
)
def test_names_are_counted(names):
    shuffled = random.Random(0).sample(names, len(names))
    assert in_order(shuffled) == {name: plain_name(name) for name in names}
    assert list(in_order(shuffled)) == names


def test_whole_floats_become_whole_numbers():
    texts = [f"{value:.18e}" for value in (0, 2, 10)]
    assert list(in_order(texts).values()) == ["0", "2", "10"]
    assert plain_name("-0.0") == "0"
    for text in ("1e999999999", "1e-999999999", "1.5", "1e15", "x", "", "nan", "inf", "9" * 5000):
        assert plain_name(text) == text
    assert list(in_order(["9" * 5000, "1e999999999", "1e-999999999"])) == [
        "1e-999999999",
        "9" * 5000,
        "1e999999999",
    ]
    assert list(in_order(["1.0", "x"]).values()) == ["1.0", "x"]  # not all are numbers


def test_labels_of_a_table_are_counted_and_floats_are_the_whole_numbers_they_are(tmp_path):
    rows = [(i, f"{i}.0") for i in range(12)] * 2
    (tmp_path / "t.csv").write_text("x,label\n" + "".join(f"{x},{y}\n" for x, y in rows))
    known = data.load(tmp_path / "t.csv", unseen=["3.0"])
    assert known.classes == tuple(str(i) for i in range(12) if i != 3)
    assert set(known.unseen.inputs.flatten().tolist()) == {3.0}
    samples = data.read(tmp_path / "t.csv", "label", classes=known.classes)
    assert samples.labels.tolist()[:12] == [0, 1, 2, -1, 3, 4, 5, 6, 7, 8, 9, 10]
    stored = ["11.0", "3.0", "0.0"]
    labels = data.read(tmp_path / "t.csv", "label", classes=stored).labels[:12].tolist()
    assert labels == [2, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1, 0]


def test_folders_are_counted(tmp_path):
    for label in range(12):
        (tmp_path / str(label)).mkdir()
        for copy in "ab":
            Image.fromarray(np.full((4, 4), label, np.uint8)).save(
                tmp_path / str(label) / f"{copy}.png"
            )
    samples = data.read(tmp_path)
    assert torch.equal(samples.labels, samples._stored[:, 0, 0, 0].long())
    assert [
        name for names, *_ in data.Stream(tmp_path, (1, 4, 4), None, 5) for name in names
    ] == list(samples.columns["file"])
    assert data.load(tmp_path).classes == tuple(map(str, range(12)))
    known = data.load(tmp_path)
    assert [known.classes[label] for label in known.test.labels] == [
        str(int(x[0, 0, 0])) for x in known.test._stored
    ]
