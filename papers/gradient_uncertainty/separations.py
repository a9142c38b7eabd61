"""Many scores against many sets, over several splits of the data: the paper's tables.

The record, its tables in Markdown, its figure and its section of a report.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.text import Text

from nescio.records import Provenance, Record
from nescio.records.checks import Checked, Count, Fraction, check_together
from nescio.report.figures import COLOURS, shown
from nescio.report.markup import Shown, figure, more, table
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.tables import FIGURES, new_table

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
    parts: list[RenderableType] = [Text(heading(record), style="bold")]
    for measure in measures:
        table = new_table(f"{MEASURES[measure]}, right answers against …")
        table.add_column("score", overflow="fold")
        for name in _sets(record):
            table.add_column(Text(name), **FIGURES)
        best = _best(record, measure)
        for _, rows in groupby(record.rows, lambda row: row.group):
            for row in rows:
                cells = [
                    Text(
                        _cell(getattr(found, measure)),
                        style="bold" if best[name] == row.name else "",
                    )
                    for name, found in row.against.items()
                ]
                table.add_row(Text(row.name), *cells)
            table.add_section()
        parts.append(table)
    return Group(*parts)


def separation_page(
    record: Separations, published: Published, measures: Sequence[str] = tuple(MEASURES)
) -> str:
    """The same tables in Markdown, with a paper's figures, where it has them, in brackets."""
    lines = [f"{heading(record)} In brackets: the paper.", ""]
    for measure in measures:
        sets = [_escaped(name) for name in _sets(record)]
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
            lines.append(f"| {_escaped(row.name)} | {' | '.join(cells)} |")
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
        axes.set_xticks(range(len(names)), [shown(name) for name in names], rotation=30, ha="right")
    figure.suptitle(
        f"{shown(record.network)} on {shown(record.data)}: how unsure it is of each set (log scale)",
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
    axes.set_ylabel("log −minimum" if spread.score == "minimum" else f"log {shown(spread.score)}")
    axes.spines[["top", "right"]].set_visible(False)


def _sets(record: Separations) -> list[str]:
    return list(record.rows[0].against)


def _best(record: Separations, measure: str) -> dict[str, str]:
    """The row with the largest mean, for each set."""
    return {
        name: max(
            record.rows, key=lambda row: statistics.fmean(getattr(row.against[name], measure))
        ).name
        for name in _sets(record)
    }


def _escaped(name: str) -> str:
    """A name that does not end a cell."""
    return name.replace("|", r"\|")


def _cell(values: Sequence[float]) -> str:
    mean = 100 * statistics.fmean(values)
    return (
        f"{mean:.2f} ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"
    )


def section(given: ReportContext) -> Section | None:
    """A table of AUROC, in per cent, for each record, others on demand, and how scores are spread."""
    found = given.told_apart(Separations)
    if not found:
        return None
    parts = []
    for name, record in found:
        parts.append(paragraphs([f"{name}: {heading(record)}"]))
        for measure, title in MEASURES.items():
            made = _table(record, measure, title)
            parts.append(made if measure == "auroc" else more(title, made))
        if record.spreads:
            scores = ", ".join(spread.score for spread in record.spreads)
            parts.append(figure(violin_figure(record), f"How {scores} are spread on each set."))
    return Section("separations", "Scores against sets", Markup("").join(parts))


def _table(record: Separations, measure: str, title: str) -> Markup:
    sets = list(dict.fromkeys(name for row in record.rows for name in row.against))
    rows = [
        (
            row.name,
            row.group,
            *(
                _shown_cell(getattr(row.against[name], measure)) if name in row.against else None
                for name in sets
            ),
        )
        for row in record.rows
    ]
    return table(
        ("score", "group", *sets),
        rows,
        f"{title}, %: right answers against each set, mean ± standard deviation",
    )


def _shown_cell(values: tuple[float, ...]) -> Shown:
    spread = f" ±{100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return Shown(f"{100 * statistics.fmean(values):.2f}{spread}", statistics.fmean(values))
