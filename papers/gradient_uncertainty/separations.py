"""Many scores against many sets, over several splits of the data: the paper's tables.

The record, its tables in Markdown, its figure and its section of a report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean, quantiles, stdev
from typing import Any, ClassVar

from markupsafe import Markup
from matplotlib.figure import Figure

from nescio.records import Checked, Count, Fraction, Provenance, Record, check_together
from nescio.report import (
    COLOURS,
    Cell,
    ReportContext,
    Styled,
    Table,
    despine,
    details,
    figure,
    join,
    paragraphs,
    plot_text,
    title_left,
)

MEASURES = {
    "auroc": "AUROC",
    "aupr_in": "AUPR-In",
    "aupr_out": "AUPR-Out",
    "aupr_in_paper": "AUPR-In at the paper's ratio",
    "aupr_out_paper": "AUPR-Out at the paper's ratio",
}
# a paper's figures in per cent, by row and set
Figures = Mapping[tuple[str, str], Mapping[str, float]]


@dataclass(frozen=True)
class SplitMetrics(Checked):
    """How well a score separates right answers from one set, for each split; higher = better.

    AUPR depends on how many inputs each side has: as many as we have, and at the paper's ratio,
    by weights; where the paper states none, both are the same.
    """

    auroc: tuple[Fraction, ...]
    aupr_in: tuple[Fraction, ...]
    aupr_out: tuple[Fraction, ...]
    aupr_in_paper: tuple[Fraction, ...]
    aupr_out_paper: tuple[Fraction, ...]

    def check(self) -> None:
        check_together(self, **{measure: getattr(self, measure) for measure in MEASURES})


@dataclass(frozen=True)
class ScoreRow:
    """One score, or one fitted meta-classifier."""

    name: str
    group: str  # the rows of one table
    against: dict[str, SplitMetrics]  # by the name of the set


@dataclass(frozen=True)
class ScoreValues:
    """Some of a score's values on each set, for one split."""

    score: str
    values: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Separations(Record):
    """Right answers to known inputs against wrong ones and unknown inputs, by many scores."""

    OF_MODEL: ClassVar = False
    NEEDED: ClassVar = ("accuracy",)

    data: str
    network: str
    accuracy: tuple[Fraction, ...]  # of each split
    sets: dict[str, tuple[Count, ...]]  # inputs of each, in each split
    rows: tuple[ScoreRow, ...]
    spreads: tuple[ScoreValues, ...]
    provenance: Provenance


def joined(records: Sequence[Separations]) -> Separations:
    """Return one record of several splits; the figure's values are those of the first."""
    first, rows = records[0], []
    for number, row in enumerate(first.rows):
        same = [record.rows[number].against for record in records]
        shared = [name for name in row.against if all(name in against for against in same)]
        parts = {name: [against[name] for against in same] for name in shared}
        against = {name: _joined_metrics(metrics) for name, metrics in parts.items()}
        rows.append(replace(row, against=against))
    names = [name for name in first.sets if all(name in record.sets for record in records)]
    seconds = sum(record.provenance.seconds for record in records)
    return replace(
        first,
        accuracy=tuple(value for record in records for value in record.accuracy),
        sets={name: tuple(n for record in records for n in record.sets[name]) for name in names},
        rows=tuple(rows),
        provenance=replace(first.provenance, seconds=seconds),
    )


def _joined_metrics(parts: Sequence[SplitMetrics]) -> SplitMetrics:
    values = ((getattr(part, name) for part in parts) for name in MEASURES)
    return SplitMetrics(*(tuple(chain.from_iterable(each)) for each in values))


def separation_page(
    record: Separations, published: Figures, measures: Sequence[str] = tuple(MEASURES)
) -> str:
    """Return a table for each measure in Markdown, with the paper's figures in brackets.

    Per cent, mean ± standard deviation over the splits; the best of a column is bold.
    """
    lines, sets = [f"{heading(record)} In brackets: the paper.", ""], list(record.rows[0].against)
    for measure in measures:
        best = {name: max(record.rows, key=_mean_at(name, measure)).name for name in sets}
        rows = []
        for row in record.rows:
            cells: list[Cell] = [row.name]
            for name, metrics in row.against.items():
                theirs = published.get((row.name, name), {}).get(measure)
                beside = f" ({theirs:.2f})" if theirs else ""
                text = f"{_percent(getattr(metrics, measure), ' ± ')}{beside}"
                cells.append(Styled(text, style="bold" if best[name] == row.name else ""))
            rows.append(cells)
        lines.append(Table("", (MEASURES[measure], *sets), rows).markdown())
    return "\n".join(lines)


def heading(record: Separations) -> str:
    """Return what the tables are of, in a sentence."""
    right = 100 * fmean(record.accuracy)
    return (
        f"{record.network} on {record.data}, splits: {len(record.accuracy)}, {right:.2f} % right "
        "on average; per cent, mean ± standard deviation over the splits."
    )


def violin_figure(record: Separations) -> Figure:
    """Draw how some scores are distributed on each set, for the first split (figure 2)."""
    count, names = len(record.spreads), list(record.spreads[0].values)
    drawn = Figure(figsize=(1.6 + 0.85 * len(names), 0.6 + 2.3 * count), layout="constrained")
    rows = drawn.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for axes, values in zip(rows, record.spreads, strict=True):
        _draw_violins(axes, values)
        axes.set_xticks(
            range(len(names)), [plot_text(name) for name in names], rotation=30, ha="right"
        )
    what = f"{plot_text(record.network)} on {plot_text(record.data)}"
    title_left(drawn, f"{what}: how unsure it is of each set (log scale)")
    return drawn


def _draw_violins(axes: Any, score: ScoreValues) -> None:
    """A violin for each set, with its quartiles; a set whose values are all equal is a line."""
    for place, (name, values) in enumerate(score.values.items()):
        colour = {"right": COLOURS[2], "wrong": COLOURS[1]}.get(name, COLOURS[0])
        colour = "0.5" if name.endswith(", wrong") else colour
        if len(set(values)) > 1:
            (body,) = axes.violinplot([values], [place], widths=0.8, showextrema=False)["bodies"]
            body.set(facecolor=colour, edgecolor=colour, alpha=0.5)
        quartiles = quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        axes.plot([place, place], quartiles[::2], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([place], quartiles[1:2], "o", color="white", markeredgecolor=colour, markersize=4)
    axes.set_ylabel("log −minimum" if score.score == "minimum" else f"log {plot_text(score.score)}")
    despine(axes)


def separations_html(context: ReportContext) -> Markup:
    """Return a table of AUROC for each record, the others folded away, and the distributions."""
    parts = []
    for name, record in context.unique(Separations):
        parts.append(paragraphs([f"{name}: {heading(record)}"]))
        for measure, title in MEASURES.items():
            table = _table(record, measure, title).html()
            parts.append(table if measure == "auroc" else details(title, table))
        if record.spreads:
            scores = ", ".join(one.score for one in record.spreads)
            parts.append(figure(violin_figure(record), f"How {scores} are spread on each set."))
    return join(parts)


def _table(record: Separations, measure: str, title: str) -> Table:
    sets = list(dict.fromkeys(name for row in record.rows for name in row.against))
    rows = []
    for row in record.rows:
        values = [getattr(row.against.get(name), measure, None) for name in sets]
        cells = [each and Styled(_percent(each, " ±"), fmean(each)) for each in values]
        rows.append((row.name, row.group, *cells))
    caption = f"{title}, %: right answers against each set, mean ± standard deviation"
    return Table(caption, ("score", "group", *sets), rows)


def _mean_at(name: str, measure: str) -> Any:
    return lambda row: fmean(getattr(row.against[name], measure))


def _percent(values: Sequence[float], sign: str) -> str:
    spread = f"{sign}{100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.2f}{spread}"
