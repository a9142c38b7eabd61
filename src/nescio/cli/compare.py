"""`nescio compare`: methods side by side."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nescio.cli.arguments import Force, out
from nescio.cli.options import score_in


def compare(
    records: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RECORD",
            show_default=False,
            help="Run folders that were evaluated, or their records. Those of one method, or of one NAME, are its runs.",
        ),
    ],
    unknown: Annotated[
        list[str] | None,
        typer.Option(
            help="Names of unknown data in the records; by default all they share.",
            show_default=False,
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            parser=score_in("SCORES"),
            metavar="NAME",
            show_default=False,
            help="Judge all by this one; by default each by the score its paper pairs with it.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for figures and table.")
    ] = Path("comparison"),
    force: Force = False,
) -> None:
    """Methods side by side: tables, and figures of their ROC curves, rejection curves and confidences.

    The folder also has table.md: a row for each set, and the methods side by side, each under its test error. With more
    than three unknown sets this is what is printed.

    Example: `nescio compare run-softmax run-ensemble run-duq`

    Example: `nescio compare plain=run-softmax run-ceda run-acet --unknown noise adversarial_noise adversarial_samples`

    Example: `nescio compare duq=seed-0 duq=seed-1 one=softmax-run --unknown mnist -o figures`
    """
    from nescio.report.comparison import write_comparison
    from nescio.store.run import evaluations

    out.print(write_comparison(evaluations(records), output, unknown, score))
    out.print(f"Saved: {escape(str(output))}", soft_wrap=True)
