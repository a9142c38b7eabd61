"""What happens to inputs scaled away, as a table and as a figure."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nescio.metrics.percent import per_cent
from nescio.records import Course, Direction, Gauge, Scaling
from nescio.report.figures import COLOURS, legend_below, shown
from nescio.report.markup import Cell, Shown, percentage
from nescio.report.tables import FIGURES, new_table, share

LINES = COLOURS[:6]  # black is the ray's, and yellow too light for a line
LAST = 1e300  # stands behind every factor in a table that is sorted
DEPTH = 1e-16  # gradients are drawn down to this part of the largest one
COLUMNS = (
    "Inputs are multiplied by a factor in one feature (ray: in all), in raw units.\n"
    "certain from: factor from which the median confidence stays above 99.9 %.\n"
    "confidence: its mean at the largest factor. Under each score: share of inputs it\n"
    "flags there. Its threshold accepts 95 % of them as they are; it notices if it\n"
    "flags half. Inputs that are 0 in a feature cannot be scaled, and do not count."
)


def worst_first(record: Scaling) -> list[Direction]:
    """The directions by how much goes unnoticed, those that nothing moved along last."""
    return sorted(record.directions, key=_badness)


def _badness(direction: Direction) -> tuple[bool, int, float, float]:
    noticing = sum(course.notices for course in direction.scores or ())
    final = 0.0 if direction.confidence is None else direction.confidence[-1]
    certain = math.inf if direction.certain_from is None else direction.certain_from
    return direction.scores is None, noticing, certain, -final


def scaling_table(record: Scaling) -> RenderableType:
    """For each feature, worst first: when the model grows certain, what each score makes of it, and a verdict."""
    table = new_table(
        f"{record.method}: {record.inputs} inputs, scaled up to {_factor(record.factors[-1])}"
    )
    table.padding = (0, 1, 0, 0)
    table.add_column("feature", min_width=16, overflow="fold")
    for name in ("certain_from", "confi-_dence", *(gauge.score for gauge in record.gauges)):
        table.add_column(name.replace("_", "\n").replace("information", "info"), **FIGURES)
    table.add_column("noticed\nby", min_width=8)
    ordered = worst_first(record)
    features = [direction for direction in ordered if direction.feature is not None]
    for direction in features:
        _add_row(table, direction, record.gauges, last=direction is features[-1])
    for direction in ordered:
        if direction.feature is None:
            _add_row(table, direction, record.gauges)
    return Group(table, Text(COLUMNS, style="dim"))


def scaling_cells(record: Scaling) -> tuple[list[str], list[list[Cell]]]:
    """The same table as headings and cells, for a page; shares are in per cent."""
    columns = [
        "feature",
        "certain from",
        "confidence, %",
        *(f"{gauge.score} flags, %" for gauge in record.gauges),
    ]
    rows: list[list[Cell]] = []
    for one in worst_first(record):
        cells: list[Cell] = [one.name, None, None, *([None] * len(record.gauges))]
        if one.scores is not None and one.confidence is not None:
            never = Shown("never", LAST)
            certain = (
                never
                if one.certain_from is None
                else Shown(_factor(one.certain_from), one.certain_from)
            )
            shares = (one.confidence[-1], *(course.flagged[-1] for course in one.scores))
            cells[1:] = [certain, *map(percentage, shares)]
        rows.append([*cells, _verdict(one.scores).plain])
    return [*columns, "noticed by"], rows


def _add_row(
    table: Table, direction: Direction, gauges: Sequence[Gauge], last: bool = False
) -> None:
    if direction.scores is None or direction.confidence is None:
        cells = ["–"] * (2 + len(gauges))
    else:
        certain = "never" if direction.certain_from is None else _factor(direction.certain_from)
        cells = [
            certain,
            share(direction.confidence[-1]),
            *(f"{per_cent(one.flagged[-1], 0)}%" for one in direction.scores),
        ]
    table.add_row(Text(direction.name), *cells, _verdict(direction.scores), end_section=last)


def _verdict(courses: Sequence[Course] | None) -> Text:
    if courses is None:
        return Text("0 everywhere", style="dim")
    noticing = [
        course.score.replace("_", " ").replace("information", "info")
        for course in courses
        if course.notices
    ]
    if not noticing:
        return Text("no score", style="red")
    if len(noticing) == 1:
        return Text(noticing[0], style="green")
    return Text(
        "all" if len(noticing) == len(courses) else f"{len(noticing)} of {len(courses)}",
        style="green",
    )


def _factor(value: float) -> str:
    """A factor to three digits, with thousands set apart: `×17,800`."""
    return f"×{float(f'{value:.3g}'):,.10g}"


def scaling_figure(record: Scaling) -> Figure:
    """Each score's mean (above) and the norm of its gradient (below) as inputs are scaled, one line per direction."""
    gauges = record.gauges
    figure = Figure(figsize=(max(6.0, 1.2 + 3.1 * len(gauges)), 6.4), layout="constrained")
    rows = figure.subplots(2, len(gauges), sharex=True, squeeze=False)
    for number, gauge in enumerate(gauges):
        above, below = rows[:, number]
        _draw(record, number, above, below)
        above.axhline(
            gauge.threshold,
            color="black",
            linewidth=0.9,
            linestyle=":",
            label="threshold that accepts 95 %",
        )
        above.set_title(shown(gauge.label), fontsize=10)
        below.set_xlabel("factor")
    rows[0, 0].set_ylabel("mean score")
    rows[1, 0].set_ylabel("mean ‖∇ₓ score‖₂")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    legend_below(figure, handles, labels, size=9)
    title = (
        f"{shown(record.method)}: {record.inputs} inputs, ever farther away – does a score notice?"
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _draw(record: Scaling, number: int, above: Axes, below: Axes) -> None:
    """The lines of one score: telling features in colour, the others thin and grey behind them, the ray in black."""
    features = [one for one in record.directions if one.feature is not None]
    rays = [one for one in record.directions if one.feature is None]
    styles: list[tuple[Direction, dict[str, Any]]] = [
        (one, {"color": "0.75", "linewidth": 0.7}) for one in features
    ]
    for one, colour in zip(_telling(record), LINES, strict=False):
        styles.append((one, {"color": colour, "linewidth": 1.8, "label": shown(one.name)}))
    ray = {"color": "black", "linewidth": 1.8, "linestyle": "--"}
    styles += [(one, {**ray, "label": shown(one.name)}) for one in rays]
    for direction, style in styles:
        if direction.scores is not None:
            course = direction.scores[number]
            above.plot(record.factors, course.mean, **style)
            below.plot(
                record.factors, np.maximum(course.gradient_mean, np.finfo(float).tiny), **style
            )
    _scales(above, below)


def _telling(record: Scaling) -> list[Direction]:
    """All features that move if they are few; else those that go by least noticed, and those that are noticed most."""
    moved = [
        one for one in worst_first(record) if one.feature is not None and one.scores is not None
    ]
    half = len(LINES) // 2
    return moved if len(moved) <= len(LINES) else moved[:half] + moved[-half:]


def _scales(above: Axes, below: Axes) -> None:
    """Factors and gradients on log scales; a gradient that has died leaves through the floor."""
    above.set_xscale("log")
    below.set_yscale("log")
    heights = [value for line in below.lines for value in np.asarray(line.get_ydata(), float)] or [
        1.0
    ]
    below.set_ylim(max(max(heights) * DEPTH, min(heights)) / 3, max(heights) * 3)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
