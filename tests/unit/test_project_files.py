"""The files around the code agree: workflows and make, versions in pyproject, pins and docs."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import nescio

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff", *ROOT.glob(".github/**/*.yml")]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def read(path):
    return yaml.safe_load(path.read_text("utf-8"))


def pins(name):
    """The versions of a file of constraints, by name in its usual form."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {usual(package): version for package, version in pairs}


def usual(package):
    return re.sub(r"[-_.]+", "-", package).lower()


def requirements(*extras):
    """The names of what the package and its extras need, without those of extras of its own."""
    found = [] if extras else PROJECT["dependencies"]
    for extra in extras:
        found = [*found, *PROJECT["optional-dependencies"][extra]]
    names = [re.match(r"[\w.-]+", one)[0] for one in found]
    return {usual(name) for name in names} - {"nescio"}


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_files_can_be_read(path):
    assert isinstance(read(path), dict)


def test_there_are_workflows_for_checks_docs_and_releases():
    assert [path.stem for path in WORKFLOWS] == ["checks", "docs", "release"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_ask_for_little_and_call_what_exists(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^(\w+):", MAKEFILE, re.M))
    for job in workflow["jobs"].values():
        writes = {name for name, right in job.get("permissions", {}).items() if right == "write"}
        assert writes <= {"pages", "id-token"}
        for step in job.get("steps", []):
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step.get("uses", "a/b@v1"))
            command = step.get("run", "").split()
            if command[:1] == ["make"]:
                named = [word for word in command[1:] if "=" not in word]
                assert set(named) <= targets
                settings = [word.split("=")[0] for word in command[1:] if "=" in word]
                assert all(f"\n{name} ?= " in MAKEFILE for name in settings)


def test_the_supported_pythons_are_the_tested_ones():
    named = [one for one in PROJECT["classifiers"] if re.search(r":: 3\.\d", one)]
    assert [one.split(":: ")[-1] for one in named] == PYTHONS
    job = read(ROOT / ".github" / "workflows" / "checks.yml")["jobs"]["check"]
    assert job["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert sys.version_info >= tuple(map(int, PYTHONS[0].split(".")))


def test_the_lowest_versions_are_those_that_are_tested():
    lowest = pins("constraints-lowest.txt")
    for requirement in PROJECT["dependencies"]:
        name, version = requirement.split(">=")
        tested = lowest[usual(name)]
        assert f"{tested}.".startswith(f"{version}."), f"{requirement}, tested with {tested}"


def test_the_docs_name_the_versions_that_are_pinned():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = page.partition("### Tested with")[2]
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \|$", section, re.M)
    lowest, newest = pins("constraints-lowest.txt"), pins("constraints.txt")
    assert [row[0] for row in rows] == ["torch", "numpy", "scipy", "scikit-learn"]
    for name, low, new in rows:
        assert (low, new) == (lowest[name], newest[name])


def test_everything_that_developers_install_is_pinned():
    wanted = requirements() | requirements("test", "dev", "docs", "bench")
    assert wanted <= set(pins("constraints.txt"))


def test_extras_do_not_install_what_is_there_already():
    names = ("onnx", "serve", "ray")
    assert PROJECT["optional-dependencies"]["all"] == [f"nescio[{','.join(names)}]"]
    assert not requirements(*names) & requirements()


def test_the_version_is_the_same_everywhere():
    version, _, dev = nescio.__version__.partition(".dev")
    assert read(ROOT / "CITATION.cff")["version"] == nescio.__version__
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## (.+)$", changes, re.M)[1]
    date = r"unreleased" if dev else r"\d{4}-\d{2}-\d{2}"
    assert re.fullmatch(rf"{re.escape(version)} \({date}\)", newest)
