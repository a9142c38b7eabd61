"""Detectors ranked, as a table."""

from rich.console import Group, RenderableType
from rich.text import Text

from nescio.records import Recommendation
from nescio.report.tables import FIGURES, auroc_colour, folded, new_table


def recommendation_table(record: Recommendation) -> RenderableType:
    """A row for each detector, the best first, with its AUROC against each kind of outliers; then what was left out."""
    table = new_table(f"{record.detector} recommended, by {record.criterion}: {record.inputs} inputs each")
    table.add_column("detector", no_wrap=True)
    kinds = list(record.ranking[0].auroc)
    for name in ("mean", "worst", *kinds, "seconds"):
        table.add_column(Text(folded(name, 8)), **FIGURES)
    for number, one in enumerate(record.ranking):
        figures = [Text(f"{v:.3f}", style=auroc_colour(v)) for v in (one.mean, one.worst, *one.auroc.values())]
        table.add_row(Text(one.name), *figures, f"{one.seconds:.1f}", style="" if number else "bold")
    parts: list[RenderableType] = [table]
    for name, why in record.skipped.items():
        parts.append(Text(f"{name} left out: {why}", style="dim"))
    note = "Outliers were made from known inputs that no detector was fitted on. AUROC: chance that one scores above a "
    parts.append(Text(note + "known input, ties half.", style="dim"))
    return Group(*parts)
