"""The README is true: its code runs, and its tables are those of the library."""

import re
from pathlib import Path

import pytest

from nescio.detectors import DETECTORS
from nescio.methods import METHODS
from nescio.scores import SCORES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [METHODS, DETECTORS, SCORES], ids=["methods", "detectors", "scores"])
def test_tables_are_generated(table):
    for name, thing in table.items():
        row = f"| `{name}` | {(thing.__doc__ or '').strip().splitlines()[0]} |"
        assert row in README, f"the README should have the row\n{row}"
    rows = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert set(rows) == {*METHODS, *DETECTORS, *SCORES}


def test_no_command_loses_what_another_wrote():
    commands = re.search(r"## From the command line\n\n```sh\n(.*?)```", README, re.DOTALL).group(1).splitlines()
    judged = [line.split()[2] for line in commands if line.startswith("nescio evaluate ") and " -o " not in line]
    assert len(judged) == len(set(judged)) > 0


def test_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(compile(first, "README.md", "exec"), names)
    accuracy, auroc = map(float, re.findall(r"0\.\d+", capsys.readouterr().out))
    assert accuracy > 0.95
    assert auroc > 0.9
    exec(compile(second, "README.md", "exec"), names)
    assert re.match(r"(I do not know: |Class \d, with).* of known inputs look at least as odd", capsys.readouterr().out)
    assert (tmp_path / "mine.nescio").exists()


def test_python_of_the_page_on_deciding_runs(capsys):
    page = (ROOT / "docs" / "deciding.md").read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "deciding.md", "exec"), names)
    assert "of known inputs look at least as odd" in capsys.readouterr().out


def test_python_of_the_page_on_gradients_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "gradients.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    exec(compile(code, "gradients.md", "exec"), {})
    assert "features count; learned from" in capsys.readouterr().out
    assert (tmp_path / "weights.svg").exists()


@pytest.mark.slow
def test_python_of_the_page_on_overconfidence_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "relu-overconfidence.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(first, "relu-overconfidence.md", "exec"), {})
    noise, worst = map(float, re.findall(r"0\.\d+", capsys.readouterr().out))
    assert 1 / 7 - 0.01 < noise <= worst < 0.7
    exec(compile(second, "relu-overconfidence.md", "exec"), {})
    said = capsys.readouterr().out
    assert "100% of the rays end at confidence 1" in said
    assert "is proved to end certain" in said
    assert (tmp_path / "far.svg").exists()


@pytest.mark.slow
def test_python_of_the_page_on_scikit_learn_runs(capsys):
    page = (ROOT / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    exec(compile(code, "scikit-learn.md", "exec"), {})
    accuracy, auroc, known, unknown = map(float, re.findall(r"0\.\d+", capsys.readouterr().out))
    assert accuracy > 0.97
    assert auroc > 0.93
    assert known > 0.9
    assert unknown < 0.4


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([\w./-]+\.(?:md|cff)|LICENSE)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_exist():
    from nescio.cli import app, data_app

    known = {command.name or command.callback.__name__ for command in app.registered_commands} | {"data", "reproduce"}
    used = set(re.findall(r"^nescio (\w+)", README, re.MULTILINE))
    assert used
    assert used <= known
    assert {command.name for command in data_app.registered_commands} == {"list", "get"}
