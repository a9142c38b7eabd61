"""The notebooks of the site run, what they print is true, and their outputs are of their code.

Cells are executed in this process, as a kernel would in one namespace; `make notebooks` runs them
in Jupyter and writes the outputs. Those that take longer than a few seconds are slow; of these, the
names are checked by default.
"""

import ast
import importlib
import json
import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import nescio
from docs.execute_notebooks import FOLDER, digest

NAMES = ("clinical-table", "duq-two-moons", "own-model", "pretrained-cifar10")
MOST_BYTES = 500_000
WEIGHTS = Path(os.environ.get("NESCIO_DATA", "")) / "networks" / "cifar10-resnet20.safetensors"


def notebook(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def code(name):
    return [cell for cell in notebook(name)["cells"] if cell["cell_type"] == "code"]


def trees(name):
    for number, cell in enumerate(code(name), 1):
        yield compile("".join(cell["source"]), f"{name} [{number}]", "exec", ast.PyCF_ONLY_AST)


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run a notebook in a folder of its own; what it printed."""
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")

    def run(name):
        scope = {"__name__": "__main__"}
        with plt.rc_context():
            for number, tree in enumerate(trees(name), 1):
                exec(compile(tree, f"{name} [{number}]", "exec"), scope)
                for figure in map(plt.figure, plt.get_fignums()):
                    figure.draw_without_rendering()
                plt.close("all")
        return capsys.readouterr().out

    return run


def percentages(pattern, text):
    """The numbers that a pattern's groups match, all of them in percent, as fractions."""
    (found,) = re.findall(pattern, text)
    return [float(one) / 100 for one in ([found] if isinstance(found, str) else found)]


def test_all_notebooks_are_tested():
    assert tuple(sorted(path.stem for path in FOLDER.glob("*.ipynb"))) == NAMES


def test_own_model(printed):
    text = printed("own-model")
    (accuracy,) = percentages(r"accuracy on known digits: ([\d.]+)%", text)
    assert accuracy > 0.95
    (certain,) = percentages(r"100 times too bright: more than 90 % confident of ([\d.]+)%", text)
    assert certain > 0.95  # before there is a detector
    unseen, noise, bright = percentages(
        r"digits 7, 8, 9 ([\d.]+) %, noise ([\d.]+) %, 100 times too bright ([\d.]+) %", text
    )
    assert unseen > 0.6
    assert min(noise, bright) > 0.95
    (mean,) = percentages(r"accepted on average: ([\d.]+)%", text)
    assert 0.945 < mean < 0.975  # of 100 splits; guaranteed is 0.95
    assert "the same answers after loading: True" in text


def test_clinical_table(printed):
    text = printed("clinical-table")
    (accuracy,) = percentages(r"accuracy on the other biopsies: ([\d.]+)%", text)
    assert accuracy > 0.94
    assert "Along 100.0 % of 500 directions" in text
    assert re.search(r"to reach 99\.9 % confidence, in the median row not yet certain", text)
    rows = re.findall(r"^(.+): ([\d.]+)% of rows .*, ([\d.]+)% × 10, ([\d.]+)% × 1000$", text, re.M)
    rejected = {name: [float(one) for one in numbers] for name, *numbers in rows}
    probability = rejected.pop("softmax, largest probability")
    assert probability[2] < probability[1] < 20  # the more absurd, the fewer
    assert len(rejected) == 3
    for as_they_are, ten_times, thousand_times in rejected.values():
        assert as_they_are < 15
        assert ten_times > 50
        assert thousand_times > 95
    (slipped,) = percentages(r"with a slipped comma: ([\d.]+)% unknown", text)
    assert slipped > 0.9


@pytest.mark.slow
def test_duq_on_two_moons(printed):
    text = printed("duq-two-moons")
    sure = {
        name: percentages(rf"{name}: more than 90 % confident of (\d+)% of far points", text)[0]
        for name in ("softmax", "ensemble of 5", "DUQ")
    }
    assert sure["DUQ"] < 0.1 < 0.6 < sure["ensemble of 5"] < sure["softmax"]
    (infinity,) = percentages(r"softmax: confidence → 1 along ([\d.]+)% of the rays", text)
    assert infinity > 0.99
    (unknown,) = percentages(r"DUQ: confidence → 0 along ([\d.]+)% of the rays", text)
    assert unknown > 0.99
    away = {
        weight: sorted(map(float, values.split(", ")))
        for weight, values in re.findall(
            r"λ = (\d): mean confidence far away ([\d., ]+)$", text, re.M
        )
    }
    assert away["1"][1] < away["0"][1] / 2  # a single seed may fail, and the text says so
    assert "[0, 1, -1, -1]" in text


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS.exists(), reason="needs networks and images in $NESCIO_DATA")
def test_a_pretrained_network(printed):
    text = printed("pretrained-cifar10")
    (accuracy,) = percentages(r"accuracy on 2000 known images: ([\d.]+)%", text)
    assert 0.89 < accuracy < 0.94  # 91.73 % on all test images
    (sure,) = percentages(r"house numbers: mean .*, more than 90 % confident of ([\d.]+)%", text)
    assert sure > 0.4
    rows = re.findall(r"^([\w ]+?) +accepts ([\d.]+)% .*; rejects ([\d.]+)% of house", text, re.M)
    accepted, rejected = ({name: float(row[i]) for name, *row in rows} for i in (0, 1))
    assert len(rows) == 6
    assert 92 < min(accepted.values()) < max(accepted.values()) < 98
    assert rejected["KNN"] > 2 * rejected["largest probability"] > 40
    assert "confidence provably → 1 for 100% of 20 images" in text
    assert "accepted at 1000 times the brightness: 0%" in text


def chains(tree):
    """What a notebook uses of nescio, as dotted names."""
    for node in ast.walk(tree):
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if names and isinstance(node, ast.Name) and node.id == "nescio":
            yield names[::-1]


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name):
    used = 0
    for tree in trees(name):
        for names in chains(tree):
            value = nescio
            for part in names:
                value = getattr(value, part)
            used += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)
    assert used > 5


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_of_the_code(name):
    found = notebook(name)
    assert found["metadata"]["nescio"]["executed"] == digest(found), "run `make notebooks`"
    assert [cell["execution_count"] for cell in code(name)] == [*range(1, len(code(name)) + 1)]
    outputs = [output for cell in code(name) for output in cell["outputs"]]
    assert {one["output_type"] for one in outputs} <= {"stream", "display_data", "execute_result"}
    assert {one["name"] for one in outputs if one["output_type"] == "stream"} == {"stdout"}
    assert sum("image/png" in one.get("data", {}) for one in outputs) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_files_are_small_and_of_no_machine(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert set(notebook(name)["metadata"]) == {"kernelspec", "language_info", "nescio"}
    assert all(not cell["metadata"] for cell in notebook(name)["cells"])
    words = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(r"/(home|tmp|var|work|root|Users)/| at 0x", words)
