"""How long things took, interleaved on one machine: the record, and its section of a report."""

from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from markupsafe import Markup

from nescio.records import Count, NonNegative, Provenance, Record
from nescio.report import Cell, ReportContext, Table, heading, join, paragraphs, seconds_cell

COLUMNS = ("work", "rounds", "median, s", "shortest, s", "longest, s")
NOTE = (
    "Each round holds all of the work, so that what disturbs a machine disturbs all of it: times "
    "of one table can be compared, those of two cannot."
)


@dataclass(frozen=True)
class Timings(Record):
    """Seconds of each round of each piece of work; a round holds all of them."""

    OF_MODEL: ClassVar = False
    NEEDED: ClassVar = ("seconds",)

    network: str
    batch: Count
    threads: Count
    seconds: dict[str, tuple[NonNegative, ...]]
    provenance: Provenance


def timings_html(context: ReportContext) -> Markup:
    """Return a table of each record."""
    records, parts = context.unique(Timings), []
    for name, record in records:
        rows = [_row(work, rounds) for work, rounds in record.seconds.items()]
        threads = f"{record.threads} thread{'s' * (record.threads != 1)}"
        title = f"{record.network}, batches of {record.batch}, {threads}"
        parts += [heading(name)] if len(records) > 1 else []
        parts.append(Table(title, COLUMNS, rows).html())
    return join([*parts, paragraphs([NOTE])]) if parts else Markup("")


def _row(work: str, rounds: tuple[float, ...]) -> list[Cell]:
    taken = (median(rounds), min(rounds), max(rounds)) if rounds else (None,) * 3
    return [work, len(rounds), *map(seconds_cell, taken)]
