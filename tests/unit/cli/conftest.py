"""Runs that tests of several commands share."""

import csv
import shutil
import sys

import pytest
from matplotlib.figure import Figure

from nescio.cli import main
from nescio.data import load


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """A small run on digits without 8 and 9, and one on iris."""
    folder = tmp_path_factory.mktemp("runs")
    for name, more in (
        ("digits", ["--unseen", "8, 9", "--network", "mlp", "--epochs", "8"]),
        ("iris", ["--epochs", "20"]),
    ):
        sys.argv = ["nescio", "train", "softmax", "--data", name, "-o", str(folder / name), *more]
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    return folder


@pytest.fixture(scope="module")
def trained(trained_once, tmp_path_factory):
    """The same, for the tests of one file, which may write into the folders."""
    return shutil.copytree(trained_once, tmp_path_factory.mktemp("copies") / "runs")


@pytest.fixture(scope="module")
def empty_figures():
    """Write every figure empty: to draw takes a third of the time; `test_force` and others do."""
    savefig = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda _, *to, **how: savefig(Figure(), *to, **how))
        yield


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "inputs.csv"
    x = load("digits").test.inputs[:7].reshape(7, 64)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[f"pixel{i}" for i in range(64)], *x.tolist()])
    return path
