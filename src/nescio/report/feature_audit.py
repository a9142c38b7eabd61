"""How far one feature must move until a model is certain: words, table, figure, page part."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nescio.metrics.percent import per_cent, percent
from nescio.records import AuditedFeature, FeatureAudit, FeatureSide, Reach
from nescio.report.audit import more_time
from nescio.report.figures import COLOURS, Style, annotate, despine, legend_below, plot_text
from nescio.report.html import MAX_DRAWN, figure, heading, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Styled, Table, join
from nescio.report.words import short_number

MONOTONE = "◆"  # beside monotone features
LINEAR_RANGE = 1.0  # standard deviations drawn linearly; beyond, the axis is logarithmic
NEVER = 1e300  # sorted behind every distance
NO_CLASS = "0.6"  # grey
MAX_FEATURES = 40  # in the page's figure; the table has all


def nearest_first(record: FeatureAudit) -> list[AuditedFeature]:
    """Return the features by how near the model becomes certain or, of kernels, uncertain."""

    def nearness(feature: AuditedFeature) -> tuple[float, float]:
        reaches = [_reach(record, side) for side in _sides(feature)]
        spreads = [math.inf if reach.spreads is None else reach.spreads for reach in reaches]
        distances = [math.inf if reach.median is None else reach.median for reach in reaches]
        return min(spreads), min(distances)

    return sorted(record.features, key=nearness)


def _sides(*features: AuditedFeature) -> list[FeatureSide]:
    return [side for feature in features for side in (feature.lower, feature.higher)]


def _of_kernels(record: FeatureAudit) -> bool:
    return all(side.unknown is not None for side in _sides(*record.features))


def _reach(record: FeatureAudit, side: FeatureSide) -> Reach:
    """Return until where the model is certain or, of kernels, until where it stays uncertain."""
    return side.unknown if _of_kernels(record) and side.unknown is not None else side.certain


def feature_words(record: FeatureAudit) -> list[str]:
    """Return the feature that is nearest to making the model certain or, of kernels, uncertain.

    >>> record = nescio.audit.per_feature(net, known.test.inputs[:5], names=known.features)
    >>> print(feature_words(record)[0].partition(",")[0])
    The smallest change of a single feature for it to reach 99.9 % confidence
    """
    feature = next(iter(nearest_first(record)), None)
    if feature is None:
        return []
    kernels = feature.lower.unknown is not None
    goal = "be uncertain from there on" if kernels else f"reach {_level(record)} confidence"
    already = f"Unmoved, {percent(record.already)} of {record.rows} rows reach it."
    unmoved, row = [] if kernels else [already], _median_row(record)
    sides = zip(("lower", "higher"), _sides(feature), strict=True)
    reaches = [(way, side.unknown or side.certain) for way, side in sides]
    ways = [(reach.median, way, reach) for way, reach in reaches if reach.median is not None]
    if not ways:
        return [f"No single feature, moved however far, makes it {goal} in {row}.", *unmoved]
    distance, way, reach = min(ways, key=lambda each: each[0])
    if distance == 0:
        return [f"The median row need not be moved for it to {goal}.", *unmoved]
    spreads = "" if reach.spreads is None else f" ({reach.spreads:.3g} standard deviations)"
    change = f"“{feature.name}” {way} by {distance:.3g}{spreads}"
    smallest = f"The smallest change of a single feature for it to {goal}, in {row}: {change}."
    return [smallest, *unmoved]


def _level(record: FeatureAudit) -> str:
    return f"{100 * record.confidence:.4g} %"


def _median_row(record: FeatureAudit) -> str:
    return "the median row" if record.eps is not None else "the median row not yet certain"


def feature_table(record: FeatureAudit) -> Table:
    """Return for each feature how far down and up it must move, and in which class it ends.

    >>> record = nescio.audit.per_feature(net, known.test.inputs[:5], names=known.features)
    >>> feature_table(record).columns[:4]
    ['feature', 'seen from', 'to', 'lower by']
    """
    kernels, rows = _of_kernels(record), []
    for feature in nearest_first(record):
        name = f"{feature.name} {MONOTONE}" if feature.monotone else feature.name
        row: list[Cell] = [name, _plain(feature.low), _plain(feature.high)]
        for side in _sides(feature):
            reach = _reach(record, side)
            end = _distance(side.certain) if kernels else _end(side, record.classes)
            spreads = None if reach.spreads is None else _plain(reach.spreads)
            row += [_distance(reach), spreads, end]
        rows.append(row)
    last, columns = "certain after" if kernels else "ends in", ["feature", "seen from", "to"]
    for way in ("lower", "higher"):
        columns += [f"{way} by", f"{way}, sd", f"{way}: {last}"]
    title = f"{record.method}: {record.rows} rows, each moved along one feature; "
    title += f"{percent(record.already)} are {_level(record)} certain unmoved"
    return Table(title, columns, rows, feature_notes(record))


def feature_notes(record: FeatureAudit) -> list[str]:
    """Return what the table's columns mean, and how much of it is proved."""
    level, sides = _level(record), _sides(*record.features)
    proved = sum(_reach(record, side).proved for side in sides) / len(sides)
    basis = f"{percent(proved)} of this is proved."
    if kernels := _of_kernels(record):
        goal = "the median row is moved, in the feature's unit, until the model stays uncertain"
        last = f"certain after: until the model is {level} certain, as far as measured."
        if proved < 1:
            basis = f"All are proved to be enough; {percent(1 - proved)} may not be the smallest."
    else:
        goal = "the median row not yet certain is moved, in the feature's unit, "
        goal += f"until the model is {level} certain"
        last = "ends in: the class that most rows end in, moved to infinity; unsure: none surely."
    notes = [f"lower, higher by: how far {goal}.", "sd: divided by the standard deviation."]
    notes += [f"never: more than half of the rows do not get there. {basis}", last]
    if record.unfollowed and record.budget is not None:
        ways = record.rows * len(sides)
        followed = f"{ways - record.unfollowed:,} of {ways:,}"
        notes.append(f"Directions followed: {followed}. {more_time(record.budget)}")
    if any(feature.monotone for feature in record.features) and not kernels:
        seen = "no probability was seen both to rise and to fall in the range seen."
        notes.append(f"{MONOTONE} monotone: {seen}")
    return notes


def _plain(value: float) -> Styled:
    # no commas: a spreadsheet reads what is copied as a number
    return Styled(short_number(value).replace(",", ""), value)


def _distance(reach: Reach) -> Styled:
    if reach.median is None:
        return Styled("never", NEVER, "dim")
    return Styled("already", 0.0, "red") if reach.median == 0 else _plain(reach.median)


def _end(side: FeatureSide, classes: Sequence[str]) -> Styled:
    if side.ends is None or side.ends_certain is None:
        return Styled("not known", style="dim")
    if side.ends_certain < 0.5:
        return Styled(f"unsure {per_cent(1 - side.ends_certain, 0)}%", style="dim")
    label = _largest(side.ends)
    fraction = side.ends[label] / sum(side.ends)
    return Styled(classes[label] + ("" if fraction == 1 else f" {per_cent(fraction, 0)}%"))


def _largest(counts: Sequence[int]) -> int:
    return max(range(len(counts)), key=counts.__getitem__)


def feature_figure(record: FeatureAudit) -> Figure:
    """Draw a bar to the left (lower) and right (higher) for each feature, the nearest on top.

    >>> record = nescio.audit.per_feature(net, known.test.inputs[:5], names=known.features)
    >>> figure = feature_figure(record)
    """
    features, kernels = nearest_first(record), _of_kernels(record)
    figure = Figure(figsize=(8.0, 1.9 + 0.34 * len(features)), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("symlog", linthresh=LINEAR_RANGE, linscale=0.5)
    spreads = (_reach(record, side).spreads for side in _sides(*features))
    # room for the numbers beside the bars
    limit = 8 * max([LINEAR_RANGE, *(spread for spread in spreads if spread is not None)])
    axes.set_xlim(-limit, limit)
    for y, feature in enumerate(features):
        for sign, side in zip((-1, 1), _sides(feature), strict=True):
            colour = NO_CLASS if kernels else COLOURS[_largest(side.certain_of) % len(COLOURS)]
            _draw_bar(axes, y, sign, _reach(record, side), limit, colour)
    names = [plot_text(f.name) + (f" {MONOTONE}" if f.monotone else "") for f in features]
    axes.set_yticks(range(len(features)), names)
    axes.set_ylim(len(features) - 0.4, -0.6)  # the first on top
    decades = [10.0**power for power in range(math.floor(math.log10(limit)) + 1)]
    decades = decades[:: math.ceil(len(decades) / 5)]  # at most five to a side
    ticks = [-decade for decade in reversed(decades)] + [0.0] + decades
    axes.set_xticks(ticks, [short_number(abs(tick)) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("← lower      distance in standard deviations of the rows      higher →")
    axes.axvline(0, color="black", linewidth=0.9)
    despine(axes, left=True)
    axes.tick_params(axis="y", length=0)
    goal = "stays uncertain" if kernels else f"is {_level(record)} certain"
    title = f"{plot_text(record.method)}: how far one feature must move until the model {goal}"
    axes.set_title(title, loc="left", fontsize=11, x=0)
    _legend(figure, record)
    return figure


def _draw_bar(axes: Axes, y: int, sign: int, reach: Reach, limit: float, colour: str) -> None:
    """Draw a bar to the median and a line between the quartiles, with the distance beside it."""
    words, end, lift = "never", 0.0, 0
    if reach.median is not None:
        distance = f"{'−' if sign < 0 else '+'}{short_number(reach.median)}"
        words = distance if reach.median else "already"
        end = 0.0 if reach.spreads is None else reach.spreads
    style: Style = {"color": "0.45", "style": "italic"} if end == 0 else {"color": "black"}
    if end and reach.median is not None and reach.lower is not None:
        scale = end / reach.median
        # where not all rows get there the line leaves the figure
        upper = limit if reach.upper is None else reach.upper * scale
        axes.barh(y, sign * end, height=0.62, color=colour)
        axes.plot([sign * reach.lower * scale, sign * upper], [y, y], color="black", linewidth=0.9)
        lift = 7 if upper > limit / 6 else 0  # above a line that goes on
        end = max(end, min(upper, limit / 6))
    style |= {"ha": "right" if sign < 0 else "left", "va": "center", "fontsize": 8.5}
    annotate(axes, words, (sign * end, y), (4 * sign, lift), **style)


def _legend(figure: Figure, record: FeatureAudit) -> None:
    drawn = [side for side in _sides(*record.features) if _reach(record, side).spreads]
    entries: list[tuple[Any, str]] = []
    if not _of_kernels(record):
        for label in sorted({_largest(side.certain_of) for side in drawn}):
            patch = Patch(color=COLOURS[label % len(COLOURS)])
            entries.append((patch, f"certain of {plot_text(record.classes[label])}"))
    entries.append((Line2D([], [], color="black", linewidth=0.9), "middle half of the rows"))
    if any(feature.monotone for feature in record.features):
        diamond = Line2D([], [], color="black", linestyle="none", marker="D", markersize=4)
        entries.append((diamond, "monotone in the range seen"))
    handles, words = zip(*entries, strict=True)
    legend_below(figure, handles, words)


def feature_html(context: ReportContext) -> Markup:
    """Return words, figure and table of each record."""
    records = [(name, audit) for name, audit in context.unique(FeatureAudit) if audit.features]
    return join(_html(name, record) for name, record in records[:MAX_DRAWN])


def _html(name: str, record: FeatureAudit) -> Markup:
    ordered = nearest_first(record)
    alt = (
        f"Bars: how far each of {len(ordered)} features must be moved down (left) or up (right), "
        "in standard deviations, until the model is certain or, of kernels, uncertain; nearest: "
        f"{', '.join(feature.name for feature in ordered[:3])}."
    )
    many = len(ordered) > MAX_FEATURES
    more = f" The nearest {MAX_FEATURES} of {len(ordered)} features." if many else ""
    caption = (
        f"How far {_median_row(record)} must be moved along one feature.{more} Bars are in "
        "standard deviations, the numbers beside them in the feature’s unit."
    )
    drawn = feature_figure(replace(record, features=tuple(ordered[:MAX_FEATURES])))
    parts = heading(f"{name}: one feature at a time") + paragraphs(feature_words(record))
    return parts + figure(drawn, alt, caption) + feature_table(record).html()
