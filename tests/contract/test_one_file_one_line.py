"""A new score, detector or method is one file, as a skeleton of the docs, and one line.

The skeletons are put into a copy of the package, each with its line, and the contract tests and
those of `skeleton_checks.py` are run there, in a process of its own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = Path("tests/contract")
ITSELF = Path(__file__).name


class Skeleton(NamedTuple):
    """A file of `docs/skeletons`, the room and name it gets, what it defines, and its contract."""

    file: str
    room: str
    name: str
    thing: str
    contract: tuple[str, ...]


OF_DETECTORS = ("test_detectors", "test_damaged_detectors")
SKELETONS = [
    Skeleton("score", "scores", "gini", "gini", ("test_scores",)),
    Skeleton("detector", "detectors", "nearest_mean", "NearestMean", OF_DETECTORS),
    Skeleton("detector_with_learn", "detectors", "predicted_mean", "PredictedMean", OF_DETECTORS),
    Skeleton("method", "methods", "label_smoothing", "LabelSmoothing", ("test_methods",)),
]


def add(root, skeleton):
    """Copy a skeleton into its room, and import it there before all others: the hardest place."""
    room = root / "src" / "nescio" / skeleton.room
    shutil.copy(ROOT / "docs" / "skeletons" / f"{skeleton.file}.py", room / f"{skeleton.name}.py")
    line = (
        f"from nescio.{skeleton.room}.{skeleton.name} import {skeleton.thing} as {skeleton.thing}"
    )
    assert f"\n    {line}\n" in (room / f"{skeleton.name}.py").read_text("utf-8")  # as it says
    door = room / "__init__.py"
    before, first, after = door.read_text("utf-8").partition(f"from nescio.{skeleton.room}.")
    door.write_text(f"{before}{line}\n{first}{after}", encoding="utf-8")


def run(root, *words):
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A copy of the repository with the skeletons in their rooms."""
    root = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", ITSELF)
    for part in ("src", "docs", "tests", "papers"):
        shutil.copytree(ROOT / part, root / part, ignore=ignored)
    for part in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / part, root / part)
    (root / "results").symlink_to(ROOT / "results")
    for skeleton in SKELETONS:
        add(root, skeleton)
    return root


@pytest.fixture(scope="module")
def outcome(root):
    """What pytest prints there, once `make tables` was run, and the names of tests that passed."""
    tables = run(root, "-m", "docs.tables")
    assert tables.returncode == 0, tables.stderr
    names = [name for skeleton in SKELETONS for name in (skeleton.name, skeleton.thing)]
    names += ["skeleton_checks", "on_one_page", "on_a_page", "tables_are_generated"]
    paths = [str(CONTRACT), "tests/unit/test_readme.py"]
    paths += [f"src/nescio/{skeleton.room}/{skeleton.name}.py" for skeleton in SKELETONS]
    options = ["-q", "-p", "no:cacheprovider", "--junit-xml", "junit.xml"]
    options += ["-o", "python_files=test_*.py skeleton_checks.py"]
    tests = run(root, "-m", "pytest", *options, "-k", " or ".join(names), *paths)
    cases = ET.parse(root / "junit.xml").iter("testcase")
    passed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if not {child.tag for child in case} & {"failure", "error"}
    ]
    return tests, passed


def test_all_tests_of_the_copy_pass(outcome):
    tests, _ = outcome
    assert tests.returncode == 0, tests.stdout[-5000:]


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda skeleton: skeleton.name)
def test_every_contract_test_runs_on_it(skeleton, outcome):
    _, passed = outcome
    for module in skeleton.contract:
        text = (ROOT / CONTRACT / f"{module}.py").read_text("utf-8")
        expected = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
        pattern = rf"{module}\.(test_\w+)\[.*\b{skeleton.name}\b.*\]$"
        assert {found[1] for case in passed if (found := re.search(pattern, case))} == expected
    assert any(case.endswith(f"{skeleton.name}.{skeleton.thing}") for case in passed)  # its example


def test_own_checks_and_pages_run(outcome):
    _, passed = outcome
    assert sum("skeleton_checks" in case for case in passed) >= 7
    for test in ("public_name_is_on_one_page", "tables_are_generated"):
        assert any(test in case for case in passed)


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda skeleton: skeleton.name)
def test_tables_and_pages_have_it(skeleton, root, outcome):
    shown = rf"^::: nescio\.{skeleton.room}\.{skeleton.thing}$"
    page = (root / "docs" / "api" / f"{skeleton.room}.md").read_text("utf-8")
    assert len(re.findall(shown, page, re.MULTILINE)) == 1
    guide = "".join(path.read_text("utf-8") for path in (root / "docs" / "guide").glob("*.md"))
    assert guide.count(f"\n| `{skeleton.name}` | ") == 1
