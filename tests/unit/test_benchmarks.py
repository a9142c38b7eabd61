"""Every benchmark runs to its end at toy size; how fast, no test asks."""

import runpy
import sys
from pathlib import Path

import pytest

import detectors
import peers

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(
    path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "name",
    [
        "predict",
        *(pytest.param(name, marks=pytest.mark.slow) for name in SCRIPTS if name != "predict"),
    ],
)
def test_a_benchmark_runs_to_its_end(name, monkeypatch, capsys):
    if name == "detectors" and peers.pytorch_ood() is None:
        pytest.skip("pytorch-ood is not installed; it is in the extra bench")
    monkeypatch.setattr(sys, "argv", [name, "--toy"])
    assert not runpy.run_path(str(FOLDER / f"{name}.py"))[
        "main"
    ]()  # a code other than 0 says that it is too slow
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) >= 4
    assert any("nescio" in row or "ours" in row or "ratio" in row or "×" in row for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", detectors.PAIRS)
def test_our_side_of_detectors_runs_without_the_other(name):
    scores = detectors.PAIRS[name].ours(detectors.Data.of(detectors.TOY, 100))
    assert scores.isfinite().all()


def test_make_bench_knows_every_benchmark():
    made = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    assert [name for name in SCRIPTS if f"benchmarks/{name}.py" not in made] == []
