"""`nescio report` and `nescio compare`: records as a page, and methods side by side."""

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli.options import Force, Json, Output, Score, Unknown
from nescio.cli.output import out, print_json, print_saved

Records = Annotated[list[str], typer.Argument(metavar="[NAME=]RECORD")]


def report(records: Records, output: Output = Path("report.html"), force: Force = False) -> None:
    """Render records as a single HTML report.

    It has a verdict in plain words, then figures and tables, and needs no network connection.

    Args:
        records: Records, or folders of runs; shown under NAME, by default that of the folder or
            file. Runs of one NAME, such as several seeds, are summarised together.
        output: The page.

    Examples:
        nescio report run -o report.html
        nescio report plain=run-softmax run-duq -o report.html
        nescio report duq=seed-0 duq=seed-1 softmax=run-softmax/evaluation.json
    """
    from nescio.report.page import write_report

    write_report(records, output)
    print_saved(output)


def compare(
    records: Records,
    unknown: Unknown = None,
    score: Score = None,
    output: Output = Path("comparison"),
    json: Json = False,
    force: Force = False,
) -> None:
    """Compare methods in tables and figures.

    The figures show ROC curves, rejection curves and confidences. A table of all sets and methods
    is also written as table.md; with more than three unknown sets it is the one printed.

    Args:
        records: Folders of evaluated runs, or their records. Those of one method, or of one NAME,
            are its runs.
        unknown: Unknown sets of the records; by default all that they have in common.
        score: Score to compare by; by default the one each method's paper pairs with it.
        output: Folder for figures and table.

    Examples:
        nescio compare run-softmax run-ensemble run-duq
        nescio compare plain=run-softmax run-acet --unknown adversarial_noise
        nescio compare duq=seed-0 duq=seed-1 run --unknown mnist -o figures
    """
    from nescio.report.comparison import compared_numbers, write_comparison
    from nescio.store.run import evaluations

    read = evaluations(records)
    out.print(write_comparison(read, output, unknown, score))
    print_json(compared_numbers(read, unknown, score))
    print_saved(output)
