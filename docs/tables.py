"""Write the tables of methods, detectors and scores into the pages: `python docs/tables.py`.

A table stands between `<!-- table: methods -->` and `<!-- end of table -->`; a row is a name and
the first sentence of its docstring.
"""

import inspect
import re
from pathlib import Path
from typing import Any

from nescio.detectors import DETECTORS
from nescio.methods import METHODS
from nescio.scores import SCORES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TABLES = {
    "methods": ("| method | |", METHODS),
    "detectors": ("| detector | |", DETECTORS),
    "scores": ("| score | higher = more likely unknown |", SCORES),
}
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def table(name: str) -> str:
    """Return one of our tables in Markdown."""
    head, entries = TABLES[name]
    return "\n".join([head, "|---|---|", *(_row(*entry) for entry in entries.items()), ""])


def _row(name: str, thing: Any) -> str:
    documented = getattr(thing, "function", thing)  # of a score's spec
    first = inspect.cleandoc(documented.__doc__ or "").split("\n\n")[0]
    return f"| `{name}` | {' '.join(first.split())} |"


def filled(page: str) -> str:
    """Return a page with its tables as they are now."""
    return PLACE.sub(lambda found: f"{found[1]}{table(found[2])}{found[3]}", page)


if __name__ == "__main__":
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if filled(text) != text:
            path.write_text(filled(text), encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
