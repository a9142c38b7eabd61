"""The README is short, its tables are generated, and its links lead somewhere.

That its code runs is in test_pages.py.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_tables_are_generated():
    from docs.tables import PAGES, filled

    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for text in texts:
        assert filled(text) == text, "run `make tables`"
    for name in ("methods", "detectors", "scores"):
        assert any(f"<!-- table: {name} -->" in text for text in texts), name


def test_it_is_short():
    assert len(README.splitlines()) <= 110


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
