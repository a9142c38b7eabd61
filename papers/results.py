"""Folders of results: their records, and the pages that are made from these."""

import os
from collections.abc import Collection
from pathlib import Path

from nescio import NescioError
from nescio.report import save_markdown
from nescio.store import PAGE, check_replaceable
from papers.experiment import RECORD
from papers.experiments import EXPERIMENTS, not_made
from papers.pages import escaped, reproduction_markdown, results_markdown
from papers.reproduction import Reproduction

README = "README.md"


def read_results(folder: Path) -> dict[str, Reproduction]:
    """Return the records of all experiments that were run, by the name of the folder of each."""
    return {
        path.parent.name: Reproduction.load(path) for path in sorted(folder.glob(f"*/{RECORD}"))
    }


def check_page(folder: Path) -> None:
    """Raise if the page beside a record would replace a file that is none."""
    check_replaceable(folder / README, PAGE)


def write_page(folder: Path, record: Reproduction) -> None:
    """Write the page beside a record."""
    save_markdown(reproduction_markdown(record), folder / README)


def write_results(folder: Path, output: Path, command: str) -> int:
    """Write the page of all results, and the one beside each record; return how many there are."""
    records = read_results(folder)
    if not records:
        raise NescioError(
            f"there are no results in {str(folder)!r}: no folder in it has a {RECORD}"
        )
    for path in (output, *(folder / name / README for name in records)):
        check_replaceable(path, PAGE)  # all before any is written
    for name, record in records.items():
        write_page(folder / name, record)
    there = Path(os.path.relpath(folder, output.parent)).as_posix()
    page = results_markdown(
        {f"{there}/{name}": record for name, record in records.items()}, command
    )
    save_markdown(page + _not_run({record.name for record in records.values()}), output)
    return len(records)


def _not_run(names: Collection[str]) -> str:
    """A line on experiments that have no record, if any, and one on what is no experiment."""
    left = [
        f"`{one.name}`, {one.item} of paper {one.paper} (scale {' or '.join(one.scales)})"
        for one in EXPERIMENTS.values()
        if one.name not in names
    ]
    lines = [f"{'; '.join(left)}."] if left else []
    return "\n".join(
        ["", "## Not run", "", *lines, *([""] if lines else []), escaped(not_made()), ""]
    )
