"""The examples run, and end with their numbers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(tmp_path, script, *arguments):
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_figure_1_of_paper_1(tmp_path):
    said = run(tmp_path, "paper1_figure1.py", "-o", "figure.svg", "--resolution", "40")
    assert "</svg>" in (tmp_path / "figure.svg").read_text()
    certain = {name: int(share) for name, share in re.findall(r"(\w+) +confidence above 99 % on +(\d+)%", said)}
    assert set(certain) == {"Softmax", "MCDropout", "BayesByBackprop", "Ensemble", "AnchoredEnsemble"}
    assert all(share > 50 for share in certain.values())  # open-ended regions of certainty, whatever the method
    assert certain["Softmax"] == max(certain.values())


def told(said, data):
    """The features of a table, those unnoticed by each method, and those unnoticed by all."""
    found = re.search(rf"{data}: of (\d+) features, .*? noticing: (.*); unnoticed by all five methods: (\d+)", said)
    each = dict(one.rsplit(" ", 1) for one in found[2].split(", "))
    return int(found[1]), {name: int(count) for name, count in each.items()}, int(found[3])


@pytest.mark.slow
def test_a_million_times_larger_and_nothing_noticed(tmp_path):
    said = run(tmp_path, "tabular_story.py", "--data", "breast_cancer", "--rows", "40")
    features, unnoticed, by_all = told(said, "breast_cancer")
    assert features == 30
    assert unnoticed["softmax"] >= 28
    assert all(5 < count <= 30 for count in unnoticed.values())
    assert 0 < by_all <= min(unnoticed.values())


@pytest.mark.slow
@pytest.mark.skipif("NESCIO_DATA" not in os.environ, reason="needs the tables in $NESCIO_DATA")
@pytest.mark.parametrize(("data", "count"), [("heart_disease", 6), ("pima_diabetes", 8), ("german_credit", 6)])
def test_the_same_on_tables_from_files(tmp_path, data, count):
    said = run(tmp_path, "tabular_story.py", "--data", data, "--rows", "40", "--epochs", "20")
    features, unnoticed, _ = told(said, data)
    assert features == count
    assert unnoticed["softmax"] >= count - 1


@pytest.mark.slow
def test_the_planes_of_paper_4(tmp_path):
    said = run(tmp_path, "paper4_planes.py", "-o", "figures", "--resolution", "40", "--seeds", "1")
    for number in (1, 3, 4):
        assert "</svg>" in (tmp_path / "figures" / f"paper4-figure{number}.svg").read_text()
    found = re.findall(r"^(deep ensemble|DUQ[\w, -]*?)  +([\d. ]+)%$", said, re.MULTILINE)
    rows = {name: list(map(float, numbers.split())) for name, numbers in found}
    assert list(rows) == ["deep ensemble", "DUQ", "DUQ, no penalty", "DUQ, one-sided penalty"]
    accuracy, on_data, far, sure = zip(*rows.values(), strict=True)
    assert min(accuracy) > 0.98
    assert min(on_data) > 0.8
    assert far[1] == min(far)
    assert far[0] == max(far) > 0.8
    assert sure[0] > 50
    between, beside = map(float, re.search(r"confidence ([\d.]+) where .*, ([\d.]+) where", said).groups())
    assert between < beside - 0.1


@pytest.mark.slow
def test_linear_regions(tmp_path):
    said = run(tmp_path, "linear_regions.py", "-o", "regions.svg")
    assert "</svg>" in (tmp_path / "regions.svg").read_text()
    accuracy, count, unbounded, certain = map(
        float, re.search(r"accuracy ([\d.]+); (\d+) .*, (\d+) of them .* along ([\d.]+)%", said).groups()
    )
    assert accuracy > 0.9
    assert 6 < unbounded < count
    assert certain > 95  # theorem 3.1; the rest would be regions where all units are dead
