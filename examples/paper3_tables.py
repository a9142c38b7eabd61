"""Tables 1 to 3 and figure 2 of the gradient paper.

Single scores, regressions on gradient statistics, and a network that has met a few unknown inputs: all are asked to
tell right answers from wrong ones, and from what the classifier never saw.

    python examples/paper3_tables.py -o tables                                   # on the embedded digits
    python examples/paper3_tables.py --data mnist --splits 3 -o tables           # on real data, in $NESCIO_DATA

A split that is done is kept, so that a run that was cut off goes on with the next.
"""

import argparse
from pathlib import Path

from rich.console import Console

from nescio.report.figures import save_figure
from nescio.report.separations import separation_page, separation_tables, violin_figure
from nescio.reproduce.paper3 import PLANS, separations
from nescio.reproduce.paper3_published import PUBLISHED


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", choices=PLANS, default="digits")
    arguments.add_argument("--splits", type=int, default=2)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("-o", "--output", type=Path, default=Path("paper3"))
    given = arguments.parse_args()
    record = separations(PLANS[given.data], given.splits, given.output, seed=given.seed)
    record.save(given.output / "tables.json")
    (given.output / "tables.md").write_text(separation_page(record, PUBLISHED), encoding="utf-8")
    save_figure(violin_figure(record), given.output / "violins.svg")
    Console().print(separation_tables(record))
    print(f"Saved: {given.output}")


if __name__ == "__main__":
    main()
