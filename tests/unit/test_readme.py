"""The README is true: its tables are the library's. That its code runs is in test_pages.py."""

import re
from pathlib import Path

from nescio.detectors import DETECTORS
from nescio.methods import METHODS
from nescio.scores import SCORES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_tables_are_generated():
    from docs.tables import PAGES, filled

    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert filled(text) == text, "run `make tables`"
    rows = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert set(rows) == {*METHODS, *DETECTORS, *SCORES}


def test_no_command_loses_what_another_wrote():
    page = README.partition("## From the command line")[2].partition("## From Python")[0]
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
    ]
    judged = [
        line.split()[2]
        for line in commands
        if line.startswith("nescio evaluate ") and " -o " not in line
    ]
    assert len(judged) == len(set(judged)) > 0


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(
            r"\]\(([\w./-]+\.(?:md|cff)|LICENSE)\)", page.read_text(encoding="utf-8")
        ):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_exist():
    from nescio.cli import app, data_app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {"data"}
    used = set(re.findall(r"^nescio (\w+)", README, re.MULTILINE))
    assert used
    assert used <= known
    assert {command.name for command in data_app.registered_commands} == {"list", "get"}
