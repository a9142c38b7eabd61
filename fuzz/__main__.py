"""`python -m fuzz`: the command."""

import argparse
import shlex
import sys

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import fuzz
from fuzz.arrays import Arrays
from fuzz.core import CHANGED, HANG, MEMORY, TRACEBACK, WRONG, Tally, folder, run
from fuzz.faults import Faults
from fuzz.files import Files
from fuzz.threads import Threads

KINDS = {kind.name: kind for kind in (Files, Arrays, Threads, Faults)}
COLUMNS = {
    TRACEBACK: "tracebacks",
    WRONG: "wrong answers",
    CHANGED: "silent changes",
    HANG: "hangs",
    MEMORY: "memory",
}


def main() -> int:
    """Run what was asked for; 1 if any case went wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description=fuzz.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; all by default"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="in all, shared equally (default: %(default)g)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="only this one, of one kind")
    given = parser.parse_args()
    kinds = given.kinds or list(KINDS)
    if unknown := [name for name in kinds if name not in KINDS]:
        parser.error(f"unknown kind {unknown[0]!r}; expected {', '.join(KINDS)}")
    torch.set_num_threads(1)
    tallies = []
    for name in kinds:
        with folder() as place:
            fuzzer = KINDS[name](place)
            how = (
                {"seconds": given.seconds / len(kinds)}
                if given.case is None
                else {"cases": 1, "first": given.case}
            )
            tallies.append(run(fuzzer, given.seed, **how))
    tell(tallies, Console(), whole=given.case is not None)
    return int(any(tally.found for tally in tallies))


def tell(tallies: list[Tally], console: Console, whole: bool) -> None:
    """Print counts, and one finding of each sort with how to see it again; with `whole` its
    traceback too.
    """
    for tally in tallies:
        for finding, count in tally.alike():
            again = shlex.join(
                [
                    "python",
                    "-m",
                    "fuzz",
                    tally.name,
                    "--seed",
                    str(tally.seed),
                    "--case",
                    str(finding.number),
                ]
            )
            where, doing = escape(finding.where), escape(finding.doing)
            lines = f"[bold red]{finding.what}[/] × {count}: {where}\n  {doing}\n  {again}"
            console.print(lines, soft_wrap=True, highlight=False)
            if whole:
                console.print(escape(finding.text), soft_wrap=True, highlight=False)
        if tally.saved is not None:
            console.print(f"saved: {tally.saved}", soft_wrap=True, highlight=False)
    table = Table(
        "", "cases", "refused", *COLUMNS.values(), "seconds", title=f"seed {tallies[0].seed}"
    )
    for tally in tallies:
        counts = [str(tally.count(what)) for what in COLUMNS]
        table.add_row(
            tally.name, str(tally.cases), str(tally.refused), *counts, f"{tally.seconds:.0f}"
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
