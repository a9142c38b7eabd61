"""How far each column of a table can be wrong before a model is certain, as a table and as a figure."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from rich.console import Group, RenderableType
from rich.text import Text

from nescio.metrics.percent import per_cent
from nescio.records import AuditedFeature, FeatureAudit, FeatureSide, Reach
from nescio.report.figures import COLOURS, legend_below, shown
from nescio.report.markup import Cell, Shown
from nescio.report.overconfidence import more_time
from nescio.report.tables import FIGURES, new_table

MARK = "◆"  # beside features that are monotone
LINEAR = 1.0  # spreads that are drawn evenly; beyond them every factor of ten is as wide
LAST = 1e300  # stands behind every distance in a table that is sorted
GREY = "0.6"  # of what is of no class


def nearest_first(record: FeatureAudit) -> list[AuditedFeature]:
    """The features by how near the model turns certain, or a model of kernels unknowing; those it never does last."""
    return sorted(record.features, key=lambda feature: _nearness(record, feature))


def _nearness(record: FeatureAudit, feature: AuditedFeature) -> tuple[float, float]:
    found = [_reach(record, side) for side in (feature.lower, feature.higher)]
    spreads, distances = ([getattr(one, name) for one in found] for name in ("spreads", "median"))
    return min(map(_or_never, spreads)), min(map(_or_never, distances))


def _or_never(value: float | None) -> float:
    return math.inf if value is None else value


def _of_kernels(record: FeatureAudit) -> bool:
    return all(
        side.unknown is not None
        for feature in record.features
        for side in (feature.lower, feature.higher)
    )


def _reach(record: FeatureAudit, side: FeatureSide) -> Reach:
    """What a feature is judged by: where it makes the model certain, or a model of kernels unknowing."""
    return side.unknown if _of_kernels(record) and side.unknown is not None else side.certain


def per_feature_table(record: FeatureAudit) -> RenderableType:
    """For each feature, the nearest first: how far to go down and up until the model is certain, and where it ends."""
    bar, kernels = _percent(record.confidence), _of_kernels(record)
    table = new_table(
        f"{record.method}: {record.rows} rows, each moved along one feature; "
        f"{_percent(round(record.already, 3))} are {bar} certain as they are"
    )
    table.padding = (0, 1, 0, 0)
    table.add_column("feature", min_width=12, overflow="fold")
    table.add_column("seen", justify="right", overflow="fold")
    for way in ("lower", "higher"):
        for name in (f"{way}\nby", "in\nsd"):
            table.add_column(name, **FIGURES)
        table.add_column("certain\nafter" if kernels else "ends in", min_width=9, overflow="fold")
    for feature in nearest_first(record):
        cells: list[Text | str] = []
        for side in (feature.lower, feature.higher):
            found = _reach(record, side)
            last = _distance(side.certain) if kernels else _end(side, record.classes)
            cells += [
                _distance(found),
                "–" if found.spreads is None else _figure(found.spreads),
                last,
            ]
        name = f"{feature.name} {MARK}" if feature.monotone else feature.name
        table.add_row(Text(name), f"{_figure(feature.low)} – {_figure(feature.high)}", *cells)
    return Group(table, Text(explained(record), style="dim"))


def explained(record: FeatureAudit) -> str:
    """What the columns of the table mean, and how much of them is proved."""
    bar, sides = (
        _percent(record.confidence),
        [side for one in record.features for side in (one.lower, one.higher)],
    )
    proved = sum(_reach(record, side).proved for side in sides) / len(sides)
    sides_proved = f"{_percent(proved)} of this is proved."
    if kernels := _of_kernels(record):
        moved = (
            "lower, higher by: how far the median row is moved, in the feature's own unit,\n"
            "from where on the model knows nothing for ever."
        )
        last = f"certain after: until the model is {bar} certain, as far as a scan saw."
        if proved < 1:
            sides_proved = (
                f"All are proved to be enough; {_percent(1 - proved)} need not be the least."
            )
    else:
        moved = (
            "lower, higher by: how far the median row is moved, of those not certain already,\n"
            f"in the feature's own unit, until the model is {bar} certain."
        )
        last = "ends in: the class most rows end in, moved on for ever; unsure: none for sure."
    lines = [
        moved,
        "in sd: over its standard deviation. never: more than half of the rows do not get",
        f"there. {sides_proved}",
        last,
    ]
    if record.unfollowed and record.budget is not None:
        ways = record.rows * len(sides)
        lines.append(
            f"Ways followed: {ways - record.unfollowed:,} of {ways:,}. {more_time(record.budget)}"
        )
    if any(one.monotone for one in record.features) and not kernels:
        lines.append(
            f"{MARK} monotone: no probability was seen both to rise and to fall in the range seen."
        )
    return "\n".join(lines)


def per_feature_cells(record: FeatureAudit) -> tuple[list[str], list[list[Cell]]]:
    """The same table as headings and cells, for a page, where distances are sorted as numbers."""
    kernels = _of_kernels(record)
    last = "certain after" if kernels else "ends in"
    columns = ["feature", "seen from", "to"]
    columns += [
        name
        for way in ("lower", "higher")
        for name in (f"{way} by", f"{way}, in sd", f"{way}: {last}")
    ]
    rows: list[list[Cell]] = []
    for feature in nearest_first(record):
        name = f"{feature.name} {MARK}" if feature.monotone else feature.name
        cells: list[Cell] = [
            name,
            *(
                Shown(_figure(value).replace(",", ""), value)
                for value in (feature.low, feature.high)
            ),
        ]
        for side in (feature.lower, feature.higher):
            found = _reach(record, side)
            end = _far(side.certain) if kernels else _end(side, record.classes).plain
            cells += [_far(found), found.spreads, end]
        rows.append(cells)
    return columns, rows


def _far(found: Reach) -> Shown:
    # no commas: a spreadsheet takes what is copied for a number
    return Shown(
        _distance(found).plain.replace(",", ""), LAST if found.median is None else found.median
    )


def _distance(found: Reach) -> Text:
    if found.median is None:
        return Text("never", style="dim")
    return Text("already", style="red") if found.median == 0 else Text(_figure(found.median))


def _end(side: FeatureSide, classes: Sequence[str]) -> Text:
    if side.ends is None or side.ends_certain is None:
        return Text("not known", style="dim")
    if (label := _ending(side)) is None:
        return Text(f"unsure {per_cent(1 - side.ends_certain, 0)}%", style="dim")
    share_of_rows = side.ends[label] / sum(side.ends)
    return Text(
        classes[label] if share_of_rows == 1 else f"{classes[label]} {per_cent(share_of_rows, 0)}%"
    )


def _ending(side: FeatureSide) -> int | None:
    """The class that most rows end in; None if it is not known, or if fewer than half of them end certain."""
    if side.ends is None or side.ends_certain is None or side.ends_certain < 0.5:
        return None
    return _most(side.ends)


def _figure(value: float) -> str:
    """Three digits, thousands set apart: `17,800`."""
    return f"{float(f'{value:.3g}'):,.10g}"


def _percent(value: float) -> str:
    return f"{100 * value:.4g} %"


def per_feature_figure(record: FeatureAudit) -> Figure:
    """A bar to the left (lower) and to the right (higher) for each feature, the nearest on top, in its spreads."""
    features, kernels = nearest_first(record), _of_kernels(record)
    figure = Figure(figsize=(8.0, 1.9 + 0.34 * len(features)), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=0.5)
    reach = _widest(record)
    axes.set_xlim(-reach, reach)
    for height, feature in enumerate(features):
        for way, side in ((-1, feature.lower), (1, feature.higher)):
            _draw_bar(axes, height, way, _reach(record, side), reach, _colour(record, side))
    names = [f"{shown(one.name)} {MARK}" if one.monotone else shown(one.name) for one in features]
    axes.set_yticks(range(len(features)), names)
    axes.set_ylim(len(features) - 0.4, -0.6)  # the first on top
    _dress(axes, reach)
    what = "knows nothing for ever" if kernels else f"is {_percent(record.confidence)} certain"
    title = f"{shown(record.method)}: how far one feature must move until the model {what}"
    axes.set_title(title, loc="left", fontsize=11, x=0)
    _legend(figure, record)
    return figure


def _widest(record: FeatureAudit) -> float:
    """Where the axis ends, in spreads, with room for the figures beside the bars."""
    found = [
        _reach(record, side).spreads for one in record.features for side in (one.lower, one.higher)
    ]
    return 8 * max([LINEAR, *(spreads for spreads in found if spreads is not None)])


def _colour(record: FeatureAudit, side: FeatureSide) -> str:
    """That of the class which most rows are certain to have at the end of the bar."""
    return GREY if _of_kernels(record) else COLOURS[_most(side.certain_of) % len(COLOURS)]


def _most(counts: Sequence[int]) -> int:
    return max(range(len(counts)), key=counts.__getitem__)


def _draw_bar(axes: Axes, height: int, way: int, found: Reach, reach: float, colour: str) -> None:
    """One bar up to the median, a line between the quartiles, and the distance in the feature's own unit beside it."""
    if found.median is None:
        words, end = "never", 0.0
    else:
        words = (
            "already" if found.median == 0 else f"{'−' if way < 0 else '+'}{_figure(found.median)}"
        )
        end = 0.0 if found.spreads is None else found.spreads
    style: dict[str, Any] = {"color": "0.45", "style": "italic"} if end == 0 else {"color": "black"}
    lift = 0
    if end and found.median is not None and found.lower is not None:
        spread = end / found.median
        later = (
            reach if found.upper is None else found.upper * spread
        )  # not all get there: the line leaves the figure
        axes.barh(height, way * end, height=0.62, color=colour)
        axes.plot(
            [way * found.lower * spread, way * later],
            [height, height],
            color="black",
            linewidth=0.9,
        )
        end, lift = (
            max(end, min(later, reach / 6)),
            7 if later > reach / 6 else 0,
        )  # words above a line that goes on
    side = "right" if way < 0 else "left"
    axes.annotate(
        words,
        (way * end, height),
        (4 * way, lift),
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize=8.5,
        **style,
    )


def _dress(axes: Axes, reach: float) -> None:
    decades = [10.0**power for power in range(math.floor(math.log10(reach)) + 1)]
    decades = decades[:: math.ceil(len(decades) / 5)]  # no more than five to a side
    ticks = [-one for one in reversed(decades)] + [0.0] + decades
    axes.set_xticks(ticks, [_figure(abs(tick)) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(
        "← lower      distance in spreads (standard deviations of the rows)      higher →"
    )
    axes.axvline(0, color="black", linewidth=0.9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _legend(figure: Figure, record: FeatureAudit) -> None:
    sides = [side for one in record.features for side in (one.lower, one.higher)]
    drawn = [side for side in sides if _reach(record, side).spreads]
    handles: list[Any] = []
    words: list[str] = []
    if not _of_kernels(record):
        for label in sorted({_most(side.certain_of) for side in drawn}):
            handles.append(Patch(color=COLOURS[label % len(COLOURS)]))
            words.append(f"certain of {shown(record.classes[label])}")
    handles.append(Line2D([], [], color="black", linewidth=0.9))
    words.append("middle half of the rows")
    if any(one.monotone for one in record.features):
        handles.append(Line2D([], [], color="black", linestyle="none", marker="D", markersize=4))
        words.append("monotone between the values seen")
    legend_below(figure, handles, words, size=9)
