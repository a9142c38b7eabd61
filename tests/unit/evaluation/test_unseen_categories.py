"""Rows of a table with a category that training never saw."""

import csv

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.data import load, read
from nescio.errors import NescioError

NEW = "age,colour,shape\n1,red,round\n2,violet,round\n3,blue,flat\n4,violet,oval\n5,,round\n"


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of two classes that age tells apart."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("table") / "people.csv"
    rows = [
        f"{age + 20 * (i % 2)},{rng.choice(['red', 'blue'])},"
        f"{rng.choice(['round', 'flat'])},{'ny'[i % 2]}"
        for i, age in enumerate(rng.normal(size=200))
    ]
    path.write_text("age,colour,shape,label\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def run(table):
    """A run on it, and a detector over that, as folders."""
    from typer.testing import CliRunner

    from nescio.cli import app

    folder = table.parent
    for words in (
        ["train", "softmax", "--data", str(table), "-o", str(folder / "run"), "--epochs", "2"],
        ["fit", str(folder / "run"), "-o", str(folder / "det"), "--detector", "threshold"],
    ):
        found = CliRunner().invoke(app, words)
        assert found.exit_code == 0, found.output
    return folder


@pytest.fixture
def new(tmp_path):
    (tmp_path / "new.csv").write_text(NEW.replace("5,,round\n", "5,red,round\n"))
    return tmp_path / "new.csv"


def test_a_detector_refuses_marks_and_counts_them(command, run, new, tmp_path):
    code, _, err = command(
        "score",
        run / "det",
        new,
        "-o",
        tmp_path / "a.csv",
        "--fail-on-unknown",
        "--unseen-category",
        "refuse",
    )
    assert code == 3, err
    assert "2 inputs with a category never seen in training, so unknown: 1: colour=violet, …" in err
    found = rows_of((tmp_path / "a.csv").read_text())
    assert [row["unseen_category"] for row in found] == [
        "",
        "colour=violet",
        "",
        "colour=violet; shape=oval",
        "",
    ]
    for row in (found[1], found[3]):
        assert list(row.values())[1:-1] == ["unknown", "", "", "0.0", ""]
    assert f"(5 inputs, {sum(row['class'] == 'unknown' for row in found)} unknown)" in err
    code, out, err = command("score", run / "det", new)
    assert code == 0, err
    assert "so answered as if there were none" in err
    warned = rows_of(out)
    assert [row["unseen_category"] for row in warned] == [row["unseen_category"] for row in found]
    assert all(row["model_class"] for row in warned)
    assert [warned[row] for row in (0, 2, 4)] == [found[row] for row in (0, 2, 4)]


def test_so_does_a_run(command, run, new):
    refuse = ["--unseen-category", "refuse"]
    code, out, err = command(
        "score", run / "run", new, "--scores", "entropy", "--batch-size", 2, *refuse
    )
    assert code == 0, err
    assert "2 inputs with a category never seen in training, so unknown: 1: colour=violet, …" in err
    found = rows_of(out)
    assert list(found[0]) == ["input", "class", "confidence", "entropy", "unseen_category"]
    assert found[1] == {
        "input": "1",
        "class": "unknown",
        "confidence": "",
        "entropy": "",
        "unseen_category": "colour=violet",
    }
    assert [row["class"] == "unknown" for row in found] == [False, True, False, True, False]
    code, out, err = command("score", run / "run", new, "--scores", "entropy")
    assert (code, "2 inputs with" in err) == (0, True)
    warned = rows_of(out)
    assert all(row["class"] != "unknown" and row["entropy"] for row in warned)
    assert [row["unseen_category"] for row in warned] == [
        "",
        "colour=violet",
        "",
        "colour=violet; shape=oval",
        "",
    ]
    code, _, err = command("score", run / "run", new, "--unseen-category", "ignore")
    assert (code, "unknown value of --unseen-category 'ignore'" in err) == (2, True)


def test_all_may_be_unseen_and_what_is_missing_is_no_category(command, run, tmp_path):
    (tmp_path / "odd.csv").write_text("age,colour,shape\n1,pink,round\n2,pink,round\n")
    for folder in ("run", "det"):
        code, out, err = command(
            "score", run / folder, tmp_path / "odd.csv", "--unseen-category", "refuse"
        )
        assert (code, [row["class"] for row in rows_of(out)]) == (0, ["unknown"] * 2), err
    (tmp_path / "gap.csv").write_text(NEW)
    code, out, err = command("score", run / "det", tmp_path / "gap.csv")
    assert (code, "2 inputs with" in err) == (0, True)
    last = rows_of(out)[-1]
    assert (last["class"], last["unseen_category"], last["p_value"]) == ("unknown", "", "0.0")


def test_a_table_of_numbers_has_no_such_column(command, tmp_path):
    code, _, err = command(
        "train", "softmax", "--data", "iris", "-o", tmp_path / "run", "--epochs", 1
    )
    assert code == 0, err
    known = load("iris")
    (tmp_path / "new.csv").write_text(",".join(known.features) + "\n1,2,3,4\n")
    code, out, err = command("score", tmp_path / "run", tmp_path / "new.csv", "--scores", "entropy")
    assert (code, list(rows_of(out)[0])) == (0, ["input", "class", "confidence", "entropy"]), err


def test_in_python_they_are_warned_of_or_unknown(table, new):
    known = load(table)
    rows = {
        "age": [1.0, 2.0, 3.0],
        "colour": ["red", "violet", "blue"],
        "shape": ["flat", "flat", "oval"],
    }
    with pytest.warns(UserWarning, match=r"2 of 3 rows .* the first in row 2: colour=violet"):
        x = known.encoding.encode(rows)
    assert torch.equal(x, known.encoding.encode(rows, unseen_category="zeros"))
    refused = known.encoding.encode(rows, unseen_category="refuse")
    assert refused.isnan().all(1).tolist() == [False, True, True]
    detector = nescio.Threshold(nn.Linear(len(known.features), 2)).fit(known.test)
    assert detector.predict(refused)[1:].tolist() == [-1, -1]
    assert detector.p_value(refused)[1:].tolist() == [0, 0]
    with pytest.warns(UserWarning, match="2 of 5 rows .* in line 3: colour=violet"):
        read(new, encoding=known.encoding)
    with pytest.raises(NescioError, match="unknown unseen_category 'nan'"):
        known.encoding.encode(rows, unseen_category="nan")
