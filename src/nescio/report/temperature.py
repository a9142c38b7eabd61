"""What a temperature did, as a table."""

from rich.console import Group, RenderableType
from rich.text import Text

from nescio.records import Temperature
from nescio.report.tables import FIGURES, new_table, share

WARNING = (
    "Held-out known data. No temperature helps far away: there a ReLU network grows certain of anything, at any T.\n"
    "To tell what is unknown take a detector."
)


def temperature_table(record: Temperature) -> RenderableType:
    """Log-likelihood and calibration before and after, and what must not be expected of it."""
    table = new_table(f"temperature {record.temperature:.3f}, from {record.inputs} inputs")
    table.add_column("")
    for name in ("accuracy", "NLL", "ECE"):
        table.add_column(name, **FIGURES)
    table.add_row(
        "before", share(record.accuracy), f"{record.nll_before:.3f}", share(record.ece_before)
    )
    table.add_row(
        "after", share(record.accuracy), f"{record.nll_after:.3f}", share(record.ece_after)
    )
    return Group(table, Text(WARNING, style="dim"))
