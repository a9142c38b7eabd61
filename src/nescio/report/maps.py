"""Maps of the plane, a panel for each method and score, white where the model is certain."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nescio.errors import NescioError, check_name
from nescio.metrics.percent import percent
from nescio.records import Evaluation, Map, Surface
from nescio.report.figures import Style, class_marker, legend_below, plot_text, text_width
from nescio.report.html import figure, heading, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Percent, Table, join

PANELS_PER_ROW = 3  # of a figure with one score
PANEL_SIZE = 2.2  # inches
GRADIENT_DECADES = 8  # of gradient norms that colours distinguish
CONFIDENCE = "confidence"
CERTAIN = 0.99
# scores that keep growing far from the points, where one colour scale would hide all near them
UNBOUNDED = ("max_logit", "energy")
COLOUR_RANGE = 4.0  # times the range at the points, of unbounded scores
NEED_SAMPLES = ("expected_entropy", "variance", "mutual_information")


def map_figure(
    maps: Sequence[Map],
    scores: Sequence[str] | None = None,
    saturation: bool = False,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Draw maps of several methods on one data set, with its training points.

    All panels of a score share their colours.

    Args:
        maps: one per method. With several scores each has a row of panels; a single score is laid
            out in threes.
        scores: names of scores in the maps, or "confidence"; by default every score that some map
            has. Where a map lacks one that another has, its panel says so.
        saturation: draw `‖∇ₓ score‖₂` instead, on a log scale: white where the score is flat.
        titles: what to call each map, such as variants of one method; by default its method.

    >>> record = nescio.uncertainty_map(net, known, ["entropy"], resolution=20)
    >>> figure = map_figure([record])
    """
    names = _score_names(maps, scores)
    for chart, name in itertools.product(maps, names):
        check_grid(chart, chart.method, name)
    figure, columns = _panels(maps, _titles(maps, titles), len(names))
    for name, column in zip(names, columns, strict=True):
        _draw_score(figure, column, maps, name, saturation, single=len(names) == 1)
    meaning = "white = flat score" if saturation else "white = certain, dark = uncertain"
    title = f"{plot_text(maps[0].data)}: {meaning}"
    fits = text_width(title, 11) < figure.get_figwidth()
    figure.suptitle(title if fits else title.replace(": white", ":\nwhite"), fontsize=11)
    classes = maps[0].classes
    looks = map(class_marker, range(len(classes)))
    markers = [Line2D([], [], linestyle="", markersize=4, **look) for look in looks]
    legend_below(figure, markers, list(map(plot_text, classes)), size=8)
    return figure


def check_grid(chart: Map, name: str, score: str) -> None:
    """Raise if a map has a score, or confidence, but not a value of it at each grid point."""
    surface = _surface(chart, score)
    for rows in (surface.values, surface.slopes) if surface else ():
        expected = [len(chart.x)] * len(chart.y)
        if not chart.x or not chart.y or [len(row) for row in rows] != expected:
            points = f"each of {len(chart.x)} by {len(chart.y)} points, and at least one point"
            problem = f"the map of {name} on {chart.data} cannot be drawn"
            raise NescioError(f"{problem}: expected a value of {score} for {points}")


def _score_names(maps: Sequence[Map], scores: Sequence[str] | None) -> list[str]:
    if not maps or len({(chart.data, chart.classes) for chart in maps}) > 1:
        data = ", ".join(dict.fromkeys(chart.data for chart in maps)) or "none"
        expected = "one or more maps, all of one data set and its classes"
        raise NescioError(f"a figure needs {expected}, got {data}")
    available = list(dict.fromkeys(surface.name for chart in maps for surface in chart.scores))
    if isinstance(scores, str):
        scores = [scores]
    names = list(dict.fromkeys(scores or available or [CONFIDENCE]))
    for name in names:
        check_name("score of these maps", name, [*available, CONFIDENCE])
    return names


def _titles(maps: Sequence[Map], titles: Sequence[str] | None) -> list[str]:
    if titles is None:
        return [plot_text(chart.method.replace("_", " ")) for chart in maps]
    if isinstance(titles, str) or len(titles) != len(maps):
        raise NescioError(f"titles={titles!r}; expected one for each of {len(maps)} maps")
    return list(map(plot_text, titles))


def _panels(
    maps: Sequence[Map], titles: Sequence[str], scores: int
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure, and for each score the labelled axes of each map."""
    columns = 2 if len(maps) == 4 else min(PANELS_PER_ROW, len(maps))  # two by two leaves no gap
    rows = math.ceil(len(maps) / columns)
    if scores > 1:
        rows, columns = len(maps), scores
    size = (max(PANEL_SIZE * columns, 3.2) + 1.2, PANEL_SIZE * rows + 1.5)
    figure = Figure(figsize=size, layout="compressed")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat:
        axes.set_aspect("equal")
        axes.tick_params(labelsize=7, length=2)
        axes.locator_params(nbins=4)
    xlabel, ylabel = map(plot_text, maps[0].features or ("", ""))
    for axes in grid[-1]:
        axes.set_xlabel(xlabel, fontsize=8)
    if scores > 1:
        for axes, title in zip(grid[:, 0], titles, strict=True):
            axes.set_ylabel(f"{title}\n{ylabel}", fontsize=10)
        return figure, [list(column) for column in grid.T]
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel, fontsize=8)
    for axes, title in zip(grid.flat, titles, strict=False):
        axes.set_title(title, fontsize=10)
    unused = grid.size - len(maps)
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    for axes in grid[-2][columns - unused :] if rows > 1 and unused else ():  # nothing below them
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(xlabel, fontsize=8)
    return figure, [list(grid.flat[: len(maps)])]


def _draw_score(
    figure: Figure, column: list[Axes], maps: Sequence[Map], name: str, slopes: bool, single: bool
) -> None:
    """Draw one score of every map in one colour scale, with its colour bar."""
    surfaces = {i: surface for i, chart in enumerate(maps) if (surface := _surface(chart, name))}
    grids = {i: np.array(s.slopes if slopes else s.values) for i, s in surfaces.items()}
    clipped = name in UNBOUNDED and not slopes
    in_range = [_at_points(maps[i], grid) if clipped else grid for i, grid in grids.items()]
    norm = _norm(in_range, slopes, COLOUR_RANGE if clipped else 1.0)
    # confidence is the one quantity that is high where a model is certain
    colours = "Purples_r" if name == CONFIDENCE and not slopes else "Purples"
    for i, (axes, chart) in enumerate(zip(column, maps, strict=True)):
        if i in grids:
            style: Style = {"norm": norm, "cmap": colours, "shading": "nearest"}
            mesh = axes.pcolormesh(chart.x, chart.y, grids[i], rasterized=True, **style)
            _scatter(axes, chart)
        else:
            one_sample = chart.draws == 1 and name in NEED_SAMPLES
            why = "needs several\nsamples" if one_sample else "not in this map"
            style = {"ha": "center", "va": "center", "fontsize": 9, "color": "0.4"}
            axes.text(0.5, 0.5, why, transform=axes.transAxes, **style)
    label = plot_text(next(iter(surfaces.values())).label)
    if slopes:
        label = f"‖∇ₓ({label})‖₂" if "−" in label else f"‖∇ₓ {label}‖₂"
    place: Style = {"location": "right", "aspect": 30, "label": label}
    if not single:
        column[0].set_title(label, fontsize=10)
        place = {"location": "bottom", "aspect": 25, "pad": 0.06 / len(column)}
    extend = "min" if slopes else "both" if clipped else "neither"
    bar = figure.colorbar(mesh, ax=column, shrink=0.9, extend=extend, **place)
    bar.ax.tick_params(labelsize=7)


def _at_points(chart: Map, grid: Any) -> Any:
    """Return the values nearest to the map's points; all values if there are no points."""
    pairs = (chart.points.x, chart.x), (chart.points.y, chart.y)
    columns, rows = (np.abs(np.subtract.outer(*pair)).argmin(1) for pair in pairs)
    return grid[rows, columns] if len(rows) else grid


def _surface(chart: Map, name: str) -> Surface | None:
    if name == CONFIDENCE:
        return chart.confidence
    return next((surface for surface in chart.scores if surface.name == name), None)


def _norm(values: list[Any], saturation: bool, times: float) -> Normalize:
    """Return the scale from the smallest value to `times` the range, clipped beyond."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    high = low + times * (high - low)
    if saturation:
        high = high or 1.0
        return LogNorm(high * 10.0**-GRADIENT_DECADES, high, clip=True)
    return Normalize(low, high if high > low else low + 1.0)


def _scatter(axes: Axes, chart: Map) -> None:
    points = chart.points
    x, y, labels = map(np.array, (points.x, points.y, points.labels))
    for label in range(len(chart.classes)):
        style: Style = {"linewidths": 0, "rasterized": True, **class_marker(label)}
        axes.scatter(x[labels == label], y[labels == label], s=2.5, **style)


def maps_html(context: ReportContext) -> Markup:
    """Return the maps of each data set."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, Map]]] = {}
    for name, chart in context.unique(Map):
        groups.setdefault((chart.data, chart.classes), []).append((name, chart))
    evaluations = [record for _, record in context.of(Evaluation)]
    return join(_html(group, evaluations) for group in groups.values())


def _html(group: Sequence[tuple[str, Map]], evaluations: Sequence[Evaluation]) -> Markup:
    for name, chart in group:
        check_grid(chart, name, CONFIDENCE)
    methods = [chart.method.replace("_", " ") for _, chart in group]
    names = methods if len(set(methods)) == len(methods) else [name for name, _ in group]
    maps = [chart for _, chart in group]
    data, level, rows, words = maps[0].data, percent(CERTAIN), [], []
    for name, chart in zip(names, maps, strict=True):
        values = np.array(chart.confidence.values)
        certain = float((values > CERTAIN).mean())
        edge = np.concatenate([values[0], values[-1], values[1:-1, 0], values[1:-1, -1]]).mean()
        rows.append((name, Percent(certain), Percent(float(edge))))
        words.append(f"{name} is more than {level} certain over {percent(certain)} of the map.")
    columns = ("model", f"fraction of the map above {level}", "mean confidence at the edge")
    title = "Confidence over the whole map, and at its edge, far from all training points"
    good = "A good map is certain (white) at the training points, and uncertain (dark) elsewhere."

    def alt(panels: str, what: str) -> str:
        return f"Maps of the plane around {data}, a panel for each of {panels}: {what}."

    confidence = map_figure(maps, [CONFIDENCE], titles=names)
    alt_confidence = f"{alt(', '.join(names), CONFIDENCE)} {' '.join(words)}"
    parts = [heading(data), paragraphs([good, *words])]
    parts += [figure(confidence, alt_confidence, "Confidence; the points are training data.")]
    parts.append(Table(title, columns, rows, digits=1).html())
    by_score: dict[str, tuple[Surface, list[tuple[str, Map]]]] = {}
    for name, chart in zip(names, maps, strict=True):
        if chart.scores:  # the score its method was evaluated by or, without it, the first
            own_scores = {record.score for record in evaluations if record.method == chart.method}
            surface = next((s for s in chart.scores if s.name in own_scores), chart.scores[0])
            by_score.setdefault(surface.name, (surface, []))[1].append((name, chart))
    for surface, members in by_score.values():
        titles, drawn = zip(*members, strict=True)
        picture, shown = map_figure(drawn, [surface.name], titles=titles), ", ".join(titles)
        caption = f"The score of {shown}: {surface.label}."
        parts.append(figure(picture, alt(shown, surface.label), caption))
    return join(parts)
