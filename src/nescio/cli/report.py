"""`nescio report`: records as one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Force, out


def report(
    records: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RECORDS",
            show_default=False,
            help="Records of any kind, or folders of runs with all records in them. They are shown under NAME; else under "
            "their folder's name, or their file's, with the folders above it where others are called so. Several runs "
            "of one NAME are taken together; they must be of one method, on the same data.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    force: Force = False,
) -> None:
    """What records hold, as one page: a verdict in plain words, then figures and tables. It needs no network.

    Example: `nescio report run -o report.html`

    Example: `nescio report plain=run-softmax run-duq -o report.html`

    Example: `nescio report duq=seed-0 duq=seed-1 run-softmax/evaluation.json run-softmax/audit.json`
    """
    from nescio.files import REPORT, atomic_write, check_replaceable
    from nescio.report.page import report_page
    from nescio.report.records import check_output, records_in

    check_output(records, output)
    check_replaceable(output, REPORT)
    page = report_page(records_in(records))
    with atomic_write(output, "w") as file:
        file.write(page)
    out.print(f"Saved: {escape(str(output))}", soft_wrap=True)
