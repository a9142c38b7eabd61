"""Numbers by name that are in no record of nescio's: the record, and its section of a report."""

from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from nescio.records import Provenance, Record
from nescio.report import ReportContext, Table, join


@dataclass(frozen=True)
class Measured(Record):
    """What was measured of one model, by name."""

    OF_MODEL: ClassVar = False
    NEEDED: ClassVar = ("values",)

    values: dict[str, float]
    provenance: Provenance


def measured_html(context: ReportContext) -> Markup:
    """Return a table with a row for each record."""
    records = context.unique(Measured)
    columns = list(dict.fromkeys(what for _, record in records for what in record.values))
    rows = [(name, *map(record.values.get, columns)) for name, record in records]
    return Table("", ("", *columns), rows).html() if rows else join([])
