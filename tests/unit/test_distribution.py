"""What `make dist` builds: its files, what it says of itself, and that it runs once installed."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import nescio

ROOT = Path(__file__).parents[2]
DETECTOR = """
import nescio, torch
detector = nescio.Threshold(torch.nn.Linear(2, 3), "energy").fit(torch.randn(99, 2), accept=0.9)
print(detector.predict(torch.randn(5, 2)).shape, nescio.__file__)
"""


def run(*command, **how):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the source archive and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    return dist / f"nescio-{nescio.__version__}-py3-none-any.whl"


def test_the_wheel_is_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    info = f"nescio-{nescio.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"nescio", info}
    source = ROOT / "src" / "nescio"
    files = {path.relative_to(source.parent).as_posix() for path in source.rglob("*.*")}
    expected = {name for name in files if "__pycache__" not in name}
    assert {name for name in names if name.startswith("nescio/")} == expected
    for name in ("py.typed", "report/page.css", "report/page.html", "report/page.js"):
        assert f"nescio/{name}" in names
    assert f"{info}/licenses/LICENSE" in names


def test_the_source_archive_is_the_repository(dist):
    with tarfile.open(dist / f"nescio-{nescio.__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"src/nescio/__init__.py", "papers/__main__.py", "tests/conftest.py"} <= names
    assert {"CHANGELOG.md", "LICENSE", "Makefile", "constraints.txt", "pyproject.toml"} <= names
    assert not {name for name in names if name.startswith((".venv/", "dist/", ".git/"))}


def test_what_the_wheel_says_of_itself(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"nescio-{nescio.__version__}.dist-info/METADATA").decode()
    said = message_from_string(text)
    assert said["License-Expression"] == "Apache-2.0"
    extras = {"all", "bench", "dev", "docs", "onnx", "ray", "serve", "test"}
    assert set(said.get_all("Provides-Extra")) == extras
    urls = dict(line.split(", ") for line in said.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == set(urls)
    page = said.get_payload()
    links = re.findall(r'\]\(([^)]+)\)|(?:src|srcset)="([^"]+)"', page)
    assert len(links) > 20
    assert all("".join(link).startswith("https://") for link in links)


def test_the_wheel_runs_in_a_fresh_environment(wheel, tmp_path):
    venv.create(tmp_path / "env", symlinks=True)
    home = {"base": str(tmp_path / "env"), "platbase": str(tmp_path / "env")}
    programs = Path(sysconfig.get_path("scripts", "venv", home))
    packages = Path(sysconfig.get_path("purelib", "venv", home))
    # the dependencies of this environment; a folder listed there is not listed once more
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    packages.joinpath("dependencies.pth").write_text("\n".join(sorted(here)))
    python = programs / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    how = {"cwd": tmp_path, "env": environment}
    install = ["-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet"]
    run(sys.executable, *install, wheel, **how)
    assert run(programs / "nescio", "--version", **how).split()[-1] == nescio.__version__
    assert "Usage" in run(programs / "nescio", "demo", "--help", **how)
    said = run(python, "-c", DETECTOR, **how)
    assert "torch.Size([5])" in said
    assert str(packages) in said
