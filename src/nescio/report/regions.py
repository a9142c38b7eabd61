"""Linear regions of a network in the plane, and monotonicity: a figure and its page parts."""

from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nescio.records import Cell, Monotonicity, Regions
from nescio.report.figures import COLOURS, Style, class_marker, legend_below, plot_text
from nescio.report.html import MAX_DRAWN, figure, heading, paragraphs, with_palette
from nescio.report.records import ReportContext
from nescio.report.table import join
from nescio.report.words import plural

BOUNDED, UNBOUNDED = COLOURS[5], COLOURS[4]  # sky blue and orange differ in greyscale, too
TINTS = (0.18, 0.26, 0.34)  # strengths of a colour; neighbours mostly differ
# on light tints, which a dark page keeps; pure greys would follow its theme
INK, EDGE = "#0b0f14", "#575a5e"
HAIRLINE_REGIONS = 1000  # from which edges are hairlines
MAX_OUTLINES = 300  # regions that stay vector graphics on the page


def regions_figure(record: Regions) -> Figure:
    """Draw figure 1 of paper 2: the polygons on each of which the network is affine.

    With the exact decision boundary, and the training points if the record has them.

    >>> record = nescio.audit.regions_in(net, ((-10, 10), (-10, 10)), known)
    >>> figure = regions_figure(record)
    """
    (left, right), (bottom, top) = record.window
    height = min(max(5.6 * (top - bottom) / (right - left), 2.5), 9.0)
    figure = Figure(figsize=(6.4, height + 1.1), layout="compressed")
    axes = figure.subplots()
    handles = _draw_cells(axes, record)
    if record.boundary:
        segments = [np.array(segment) for segment in record.boundary]
        axes.add_collection(LineCollection(segments, colors=INK, linewidths=1.8, capstyle="round"))
        handles.append(Line2D([], [], color="black", linewidth=1.8, label="decision boundary"))
    handles += _draw_points(axes, record)
    xlabel, ylabel = map(plot_text, record.features)
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel=xlabel, ylabel=ylabel)
    axes.tick_params(labelsize=8)
    what = plot_text((record.data or record.method).replace("_", " "))
    regions = plural(record.count, "linear region").replace(",", "")
    figure.suptitle(f"{what}: {regions}, {record.unbounded} of them unbounded", fontsize=11)
    legend_below(figure, handles, [handle.get_label() for handle in handles])
    return figure


def _draw_cells(axes: Axes, record: Regions) -> list[Any]:
    width, handles = 0.6 if record.count < HAIRLINE_REGIONS else 0.25, []
    for unbounded, colour in ((False, BOUNDED), (True, UNBOUNDED)):
        cells = [cell for cell in record.cells if cell.unbounded == unbounded]
        if cells:
            polygons = [np.array(cell.corners) for cell in cells]
            faces = [_tint(colour, _strength(cell)) for cell in cells]
            style: Style = {"facecolors": faces, "edgecolors": EDGE, "linewidths": width}
            axes.add_collection(PolyCollection(polygons, **style))
            label = "unbounded region" if unbounded else "bounded region"
            face = _tint(colour, TINTS[-1])
            handles.append(Patch(facecolor=face, edgecolor="0.35", linewidth=0.6, label=label))
    return handles


def _strength(cell: Cell) -> float:
    """Return one of the tints, by where the cell is, so that a record always looks the same."""
    x, y = np.mean(cell.corners, axis=0)
    return TINTS[int(abs(float(x) * 7919 + float(y) * 104729)) % len(TINTS)]


def _tint(colour: str, strength: float) -> tuple[float, float, float]:
    """Return a colour mixed with white, which unlike a transparent one hides edges below."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def _draw_points(axes: Axes, record: Regions) -> list[Any]:
    if (points := record.points) is None:
        return []
    x, y, labels = (np.array(values) for values in (points.x, points.y, points.labels))
    handles = []
    for label, name in enumerate(record.classes):
        chosen, marker = labels == label, class_marker(label)
        style: Style = {"edgecolors": "white", "linewidths": 0.3, "zorder": 3, **marker}
        axes.scatter(x[chosen], y[chosen], s=9, **style)
        handles.append(Line2D([], [], linestyle="", markersize=5, label=plot_text(name), **marker))
    return handles


def _counts(record: Regions) -> str:
    regions = f"{record.count:,} linear regions, on each of which the network is affine"
    if record.unbounded:
        return f"{regions}; {record.unbounded:,} of them are unbounded and determine its limits"
    return f"{regions}; all are bounded, those that determine its limits lie outside"


def regions_html(context: ReportContext) -> Markup:
    """Return the figures of linear regions."""
    parts = []
    for name, record in context.unique(Regions)[:MAX_DRAWN]:
        drawn = regions_figure(record)
        for collection in drawn.axes[0].collections:
            collection.set_rasterized(record.count > MAX_OUTLINES)
        data = f" on {record.data}" if record.data else ""
        words = f"{name}{data}: {_counts(record)}."
        svg = figure(drawn, f"Polygons, with the decision boundary across them. {words}")
        parts += [heading(f"{name}: linear regions"), paragraphs([words]), with_palette(svg)]
    return join(parts)


def limits_html(context: ReportContext) -> Markup:
    """Return what linear regions and monotonicity say about inputs far away."""
    parts = []
    for name, record in context.unique(Regions):
        words = f"The window drawn under Maps has {_counts(record)}."
        parts += [heading(f"{name}: linear regions"), paragraphs([words])]
    for name, test in context.unique(Monotonicity):
        parts += [heading(f"{name}: is it monotonic?"), paragraphs(_monotonicity_words(test))]
    return join(parts)


def _monotonicity_words(record: Monotonicity) -> list[str]:
    box = "a partially unbounded box" if record.partially_unbounded else "a box"
    monotone = f"{len(record.monotone_features)} of {len(record.features)} features"
    seen = "every class's probability was only seen to rise, or only to fall"
    sampled = "This is a sampled test, not a proof."
    words = [f"At {record.points:,} points of {box}, along {monotone} {seen}. {sampled}"]
    if (counter := record.counter_example) is not None:
        slopes = " and ".join(f"{slope:.3g}" for slope in counter.slopes)
        kind = "slopes of both signs" if len(counter.slopes) > 1 else "no slope"
        where = f"along feature {counter.feature} the probability of class {counter.label}"
        proved = "It is proved not to be monotonic everywhere"
        words.append(f"{proved}: {where} has {kind} ({slopes}).")
    return words
