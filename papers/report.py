"""The HTML report of records of the papers: nescio's, with sections of their own."""

from collections.abc import Sequence

from markupsafe import Markup

from nescio.records import Record
from nescio.report.html import heading, items, paragraphs
from nescio.report.page import SECTIONS, Section, report_page
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Styled, Table, format_number, join
from papers.duq.timings import timings_html
from papers.gradient_uncertainty.separations import separations_html
from papers.pages import VERDICTS
from papers.pages import number as in_digits
from papers.relu_overconfidence.radius import radius_html
from papers.reproduction import Compared, Reproduction

COLUMNS = ("what", "paper", "ours", "difference")


def reproductions_html(context: ReportContext) -> Markup:
    """Return numbers beside the paper's, claims, settings that differ, remarks and the command."""
    return join(_one(record) for _, record in context.of(Reproduction))


def _one(record: Reproduction) -> Markup:
    runs = "1 run" if record.seeds == 1 else f"{record.seeds} runs"
    parts = [
        heading(f"Paper {record.paper}, {record.item}: {record.title}"),
        paragraphs([f"Scale: {record.scale}, {runs}, {record.provenance.seconds:.0f} s."]),
        Markup("<p><code>{}</code></p>").format(record.command),
    ]
    if record.compared:
        rows = [_row(one) for one in record.compared]
        parts.append(Table("The paper’s figures beside ours", COLUMNS, rows).html())
    if record.claims:
        claims = [(claim.says, VERDICTS[claim.holds], claim.seen) for claim in record.claims]
        parts.append(Table("Claims", ("the paper says", "holds", "what we saw"), claims).html())
    if record.differs:
        settings = [(one.setting, one.paper, one.ours, one.why) for one in record.differs]
        columns = ("setting", "paper", "ours", "why")
        parts.append(Table("Settings that differ", columns, settings).html())
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
        else Styled(f"{one.ours - one.paper:+.3g}{_unit(one.unit)}", one.ours - one.paper),
    ]


def _figure(value: float, spread: float | None, unit: str) -> Styled:
    shown = format_number(value) if abs(value) < 10 else f"{value:.5g}"
    return Styled(f"{shown}{'' if spread is None else f' ±{spread:.2g}'}{_unit(unit)}", value)


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def reproduced(record: Reproduction) -> list[str]:
    """How near a paper's figures and claims ours came."""
    told = []
    beside = sum(one.paper is not None for one in record.compared)
    if beside:
        told.append(
            f"{record.item} of paper {record.paper} ({record.title}): {beside} figures stand beside the "
            f"paper’s; {farthest(record.compared)}."
        )
    if record.claims:
        verdicts = [claim.holds for claim in record.claims]
        unclear = f"; of {verdicts.count(None)} they cannot tell" if None in verdicts else ""
        told.append(
            f"{record.item} of paper {record.paper}: {verdicts.count(True)} of {len(verdicts)} claims hold in "
            f"our runs{unclear}."
        )
    return told


def farthest(compared: Sequence[Compared]) -> str:
    """In words, for each unit, since a per cent and a share have no common measure; nothing without a paper's figure.

    >>> farthest([Compared("error", 1.0, 1.5, unit="%"), Compared("accuracy", 99.0, 98.9, unit="%")])
    'the farthest apart, by 0.50 percentage points, is “error”'
    """
    apart: dict[str, list[tuple[float, str]]] = {}
    for one in compared:
        if one.paper is not None:
            apart.setdefault(one.unit, []).append((abs(one.ours - one.paper), one.what))
    told = []
    for unit, found in apart.items():
        far, what = max(found, key=lambda pair: pair[0])
        those = f"of those {f'in {unit}' if unit else 'without a unit'}, " if len(apart) > 1 else ""
        shown = f"{in_digits(far, unit)} {'percentage points' if unit == '%' else unit}".rstrip()
        told.append(f"{those}the farthest apart, by {shown}, is “{what}”")
    return "; ".join(told)


# the papers' numbers first, then what nescio shows of any record, provenance last
ALL_SECTIONS = (
    Section("reproductions", "The papers’ results, made again", (reproductions_html,)),
    *SECTIONS[:-1],
    Section("radius", "How far is far enough", (radius_html,)),
    Section("separations", "Scores against sets", (separations_html,)),
    Section("timings", "How long it takes", (timings_html,)),
    SECTIONS[-1],
)


def papers_page(records: Sequence[tuple[str, Record]]) -> str:
    """Render records as a single HTML report, with the papers' numbers beside ours first."""
    return report_page(records, ALL_SECTIONS)
