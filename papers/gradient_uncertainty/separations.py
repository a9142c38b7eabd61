"""Many scores against many sets, over several splits of the data: the paper's tables.

The record, its tables in Markdown, its figure and its section of a report.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.text import Text

from nescio.records import Provenance, Record
from nescio.records.checks import Checked, Count, Fraction, check_together
from nescio.report.figures import COLOURS, plot_text
from nescio.report.html import details, figure, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Styled, Table, escape_markdown, join

MEASURES = {"auroc": "AUROC", "aupr_in": "AUPR-In", "aupr_out": "AUPR-Out"}
Published = Mapping[
    tuple[str, str], Mapping[str, float]
]  # of a row and a set: a paper's figures in per cent


@dataclass(frozen=True)
class Repeated(Checked):
    """How well a score tells right answers from one set; a figure for each split, larger = better."""

    auroc: tuple[Fraction, ...]
    aupr_in: tuple[Fraction, ...]
    aupr_out: tuple[Fraction, ...]

    def check(self) -> None:
        lists = {"auroc": self.auroc, "aupr_in": self.aupr_in, "aupr_out": self.aupr_out}
        check_together(self, **lists)


@dataclass(frozen=True)
class Row:
    """One score, or one fitted meta-classifier."""

    name: str
    group: str  # the rows of one table
    against: dict[str, Repeated]  # by the name of the set


@dataclass(frozen=True)
class Spread:
    """Some of a score's values on each set, for one split."""

    score: str
    values: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Separations(Record):
    """Right answers to known inputs against wrong ones and against unknown inputs, by many scores."""

    OF_MODEL: ClassVar = False
    NEEDED: ClassVar = ("accuracy",)

    data: str
    network: str
    accuracy: tuple[Fraction, ...]  # of each split
    sets: dict[str, tuple[Count, ...]]  # inputs of each, in each split
    rows: tuple[Row, ...]
    spreads: tuple[Spread, ...]
    provenance: Provenance


def separation_tables(
    record: Separations, measures: Sequence[str] = tuple(MEASURES)
) -> RenderableType:
    """One table for each measure: per cent, mean ± standard deviation over the splits; the best of a column is bold."""
    tables = (_table(record, measure) for measure in measures)
    return Group(Text(heading(record), style="bold"), *tables)


def separation_page(
    record: Separations, published: Published, measures: Sequence[str] = tuple(MEASURES)
) -> str:
    """The same tables in Markdown, with a paper's figures, where it has them, in brackets."""
    lines = [f"{heading(record)} In brackets: the paper.", ""]
    for measure in measures:
        sets = [escape_markdown(name) for name in _sets(record)]
        lines += [f"| {MEASURES[measure]} | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
        best = _best(record, measure)
        for row in record.rows:
            cells = []
            for name, found in row.against.items():
                mark = "**" if best[name] == row.name else ""
                there = published.get((row.name, name), {}).get(measure)
                cells.append(
                    f"{mark}{_cell(getattr(found, measure))}{mark}"
                    + (f" ({there:.2f})" if there else "")
                )
            lines.append(f"| {escape_markdown(row.name)} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def heading(record: Separations) -> str:
    """What the tables are of, in a sentence."""
    right = 100 * statistics.fmean(record.accuracy)
    return (
        f"{record.network} on {record.data}, splits: {len(record.accuracy)}, {right:.2f} % right on average; "
        "per cent, mean ± standard deviation over the splits."
    )


def violin_figure(record: Separations) -> Figure:
    """How some scores are distributed on each set, for the first split (figure 2 of the paper)."""
    count = len(record.spreads)
    names = list(record.spreads[0].values)
    figure = Figure(figsize=(1.6 + 0.85 * len(names), 0.6 + 2.3 * count), layout="constrained")
    for axes, spread in zip(
        figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0], record.spreads, strict=True
    ):
        _draw(axes, spread)
        axes.set_xticks(
            range(len(names)), [plot_text(name) for name in names], rotation=30, ha="right"
        )
    figure.suptitle(
        f"{plot_text(record.network)} on {plot_text(record.data)}: how unsure it is of each set (log scale)",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return figure


def _draw(axes: Any, spread: Spread) -> None:
    """A violin for each set, with its quartiles; a set whose values are all equal is a line."""
    for place, (name, values) in enumerate(spread.values.items()):
        colour = {"right": COLOURS[2], "wrong": COLOURS[1]}.get(name, COLOURS[0])
        colour = "0.5" if name.endswith(", wrong") else colour
        if len(set(values)) > 1:
            (body,) = axes.violinplot([values], [place], widths=0.8, showextrema=False)["bodies"]
            body.set(facecolor=colour, edgecolor=colour, alpha=0.5)
        quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        axes.plot([place, place], quartiles[::2], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([place], quartiles[1:2], "o", color="white", markeredgecolor=colour, markersize=4)
    axes.set_ylabel(
        "log −minimum" if spread.score == "minimum" else f"log {plot_text(spread.score)}"
    )
    axes.spines[["top", "right"]].set_visible(False)


def _sets(record: Separations) -> list[str]:
    return list(dict.fromkeys(name for row in record.rows for name in row.against))


def _best(record: Separations, measure: str) -> dict[str, str]:
    """The row with the largest mean, for each set."""
    return {
        name: max(
            (row for row in record.rows if name in row.against),
            key=lambda row: statistics.fmean(getattr(row.against[name], measure)),
        ).name
        for name in _sets(record)
    }


def _cell(values: Sequence[float]) -> str:
    mean = 100 * statistics.fmean(values)
    return (
        f"{mean:.2f} ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"
    )


def separations_html(context: ReportContext) -> Markup:
    """Return a table of AUROC for each record, the others folded away, and the distributions."""
    parts = []
    for name, record in context.unique(Separations):
        parts.append(paragraphs([f"{name}: {heading(record)}"]))
        for measure, title in MEASURES.items():
            table = _table(record, measure).html()
            parts.append(table if measure == "auroc" else details(title, table))
        if record.spreads:
            scores = ", ".join(spread.score for spread in record.spreads)
            parts.append(figure(violin_figure(record), f"How {scores} are spread on each set."))
    return join(parts)


def _table(record: Separations, measure: str) -> Table:
    """Return one measure in per cent; the best of a column is bold."""
    sets, best = _sets(record), _best(record, measure)
    rows: list[list[Cell]] = []
    for row in record.rows:
        cells: list[Cell] = [row.name, row.group]
        for name in sets:
            if name not in row.against:
                cells.append(None)
                continue
            values = getattr(row.against[name], measure)
            style = "bold" if best[name] == row.name else ""
            cells.append(Styled(_cell(values), statistics.fmean(values), style))
        rows.append(cells)
    title = f"{MEASURES[measure]}, %: correct answers against each set"
    return Table(title, ("score", "group", *sets), rows)
