"""A paper's tables and figures beside ours."""

from markupsafe import Markup

from nescio.records import Compared, Reproduction
from nescio.report.markup import Cell, Shown, heading, items, number, table
from nescio.report.reproductions import VERDICTS
from nescio.report.section import ReportContext, Section, paragraphs

COLUMNS = ("what", "paper", "ours", "difference")


def section(given: ReportContext) -> Section | None:
    """For each: numbers beside the paper's, claims that hold or do not, settings that differ, remarks, the command."""
    found = given.of(Reproduction)
    return (
        Section(
            "reproductions",
            "The papers’ results, made again",
            Markup("").join(_one(record) for _, record in found),
        )
        if found
        else None
    )


def _one(record: Reproduction) -> Markup:
    runs = "1 run" if record.seeds == 1 else f"{record.seeds} runs"
    parts = [
        heading(f"Paper {record.paper}, {record.item}: {record.title}"),
        paragraphs([f"Scale: {record.scale}, {runs}, {record.provenance.seconds:.0f} s."]),
        Markup("<p><code>{}</code></p>").format(record.command),
    ]
    if record.compared:
        parts.append(
            table(
                COLUMNS, [_row(one) for one in record.compared], "The paper’s figures beside ours"
            )
        )
    if record.claims:
        rows = [(claim.says, VERDICTS[claim.holds], claim.seen) for claim in record.claims]
        parts.append(table(("the paper says", "holds", "what we saw"), rows, "Claims"))
    if record.differs:
        settings = [(one.setting, one.paper, one.ours, one.why) for one in record.differs]
        parts.append(table(("setting", "paper", "ours", "why"), settings, "Settings that differ"))
    if record.remarks:
        parts.append(items(record.remarks))
    return Markup("").join(parts)


def _row(one: Compared) -> list[Cell]:
    return [
        one.what,
        None if one.paper is None else _figure(one.paper, one.paper_spread, one.unit),
        _figure(one.ours, one.spread, one.unit),
        None
        if one.paper is None
        else Shown(f"{one.ours - one.paper:+.3g}{_unit(one.unit)}", one.ours - one.paper),
    ]


def _figure(value: float, spread: float | None, unit: str) -> Shown:
    shown = number(value) if abs(value) < 10 else f"{value:.5g}"
    return Shown(f"{shown}{'' if spread is None else f' ±{spread:.2g}'}{_unit(unit)}", value)


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""
