"""How long pieces of work took, measured in turns."""

from statistics import median

from markupsafe import Markup

from nescio.records import Timings
from nescio.report.markup import Cell, heading, seconds, table
from nescio.report.section import ReportContext, Section, paragraphs

COLUMNS = ("work", "rounds", "median, s", "shortest, s", "longest, s")
NOTE = (
    "Each round holds all of the work, so that what disturbs a machine disturbs all of it: times of one table can "
    "be compared, those of two cannot."
)


def section(given: ReportContext) -> Section | None:
    """A table for each record."""
    found = given.told_apart(Timings)
    if not found:
        return None
    parts = []
    for name, record in found:
        rows = [_row(work, rounds) for work, rounds in record.seconds.items()]
        threads = f"{record.threads} thread{'s' * (record.threads != 1)}"
        parts += [heading(name)] if len(found) > 1 else []
        parts.append(
            table(COLUMNS, rows, f"{record.network}, batches of {record.batch}, {threads}")
        )
    return Section("timings", "How long it takes", Markup("").join([*parts, paragraphs([NOTE])]))


def _row(work: str, rounds: tuple[float, ...]) -> list[Cell]:
    taken = (median(rounds), min(rounds), max(rounds)) if rounds else (None,) * 3
    return [work, len(rounds), *map(seconds, taken)]
