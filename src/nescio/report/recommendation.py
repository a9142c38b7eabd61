"""Detectors ranked, as a table."""

from rich.console import Group, RenderableType
from rich.text import Text

from nescio.records import Recommendation
from nescio.report.tables import FIGURES, auroc_colour, new_table


def recommendation_table(record: Recommendation) -> RenderableType:
    """A row for each detector, the best first, with its AUROC in the mean and against what it is worst at."""
    table = new_table(
        f"{record.detector} recommended, by {record.criterion}: {record.inputs} inputs each"
    )
    table.add_column("detector", no_wrap=True)
    table.add_column("mean", **FIGURES)
    table.add_column("worst", **FIGURES)
    table.add_column("worst at", no_wrap=True)
    table.add_column("seconds", **FIGURES)
    for number, one in enumerate(record.ranking):
        figures = [
            Text(f"{value:.3f}", style=auroc_colour(value)) for value in (one.mean, one.worst)
        ]
        hardest = min(one.auroc, key=one.auroc.__getitem__)
        table.add_row(
            Text(one.name),
            *figures,
            Text(hardest),
            f"{one.seconds:.1f}",
            style="" if number else "bold",
        )
    parts: list[RenderableType] = [table]
    for name, why in record.skipped.items():
        parts.append(Text(f"{name} left out: {why}", style="dim"))
    kinds = ", ".join(record.ranking[0].auroc)
    note = f"Outliers were made from known inputs that no detector was fitted on: {kinds}. AUROC: chance that one scores "
    parts.append(Text(f"{note}above a known input, ties half.", style="dim"))
    return Group(*parts)
