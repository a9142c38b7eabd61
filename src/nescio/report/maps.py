"""Maps of the plane as figures: a panel for each method and score, white where the model is certain."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nescio.errors import NescioError, unknown_name
from nescio.records import Map, Surface
from nescio.report.figures import COLOURS, legend_below, shown, text_width

ACROSS = 3  # panels in a row of a figure with one score
PANEL = 2.2  # inches
DECADES = 8  # of gradient norms that are told apart
MARKERS = "os^Dv"  # beside colours, for those who see none
CONFIDENCE = "confidence"
UNBOUNDED = (
    "max_logit",
    "energy",
)  # scores that go on far from the points, where one scale would hide all near them
BEYOND = 4.0  # times the range at the points that the colours of these go
COMPARING = ("expected_entropy", "variance", "mutual_information")  # scores that need several draws


def map_figure(
    maps: Sequence[Map],
    scores: Sequence[str] | None = None,
    saturation: bool = False,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Maps of several methods on one data set, with its training points; all panels of a score share their colours.

    Args:
        maps: one per method. With several scores each has a row of panels; a single score is laid out in threes.
        scores: names of scores in the maps, or "confidence"; by default every score that some map has. Where a map
            lacks one that another has, its panel says so.
        saturation: draw `‖∇ₓ score‖₂` instead, on a log scale: white where the score no longer notices a change.
        titles: what to call each map, such as variants of one method; by default its method.
    """
    names = _names(maps, scores)
    for one, name in itertools.product(maps, names):
        check_grid(one, one.method, name)
    figure, columns = _panels(maps, _titles(maps, titles), len(names))
    for name, column in zip(names, columns, strict=True):
        _draw(figure, column, maps, name, saturation, alone=len(names) == 1)
    _explain(figure, maps[0], saturation)
    return figure


def check_grid(one: Map, called: str, score: str) -> None:
    """An error if a map has a score, or confidence, but not a value of it for each point of a grid."""
    surface = _surface(one, score)
    for rows in (surface.values, surface.slopes) if surface else ():
        if not one.x or not one.y or [len(row) for row in rows] != [len(one.x)] * len(one.y):
            raise NescioError(
                f"the map of {called} on {one.data} cannot be drawn: expected a value of {score} for "
                f"each of {len(one.x)} by {len(one.y)} points, and some points"
            )


def _names(maps: Sequence[Map], scores: Sequence[str] | None) -> list[str]:
    if not maps or len({(one.data, one.classes) for one in maps}) > 1:
        given = ", ".join(dict.fromkeys(one.data for one in maps)) or "none"
        raise NescioError(
            f"a figure takes one or more maps, all of one data set and its classes; given: {given}"
        )
    found = list(dict.fromkeys(surface.name for one in maps for surface in one.scores))
    names = (
        [scores]
        if isinstance(scores, str)
        else list(dict.fromkeys(scores or found or [CONFIDENCE]))
    )
    for name in names:
        if name not in (*found, CONFIDENCE):
            raise unknown_name("score of these maps", name, [*found, CONFIDENCE])
    return names


def _titles(maps: Sequence[Map], titles: Sequence[str] | None) -> list[str]:
    if titles is None:
        return [shown(one.method.replace("_", " ")) for one in maps]
    if isinstance(titles, str) or len(titles) != len(maps):
        raise NescioError(f"titles={titles!r}; expected one for each of {len(maps)} maps")
    return list(map(shown, titles))


def _panels(
    maps: Sequence[Map], titles: Sequence[str], scores: int
) -> tuple[Figure, list[list[Any]]]:
    """A figure, and for each score the axes of each map, which say whose they are."""
    across = (
        scores if scores > 1 else 2 if len(maps) == 4 else min(ACROSS, len(maps))
    )  # two by two leaves no gap
    down = len(maps) if scores > 1 else math.ceil(len(maps) / across)
    figure = Figure(
        figsize=(max(PANEL * across, 3.2) + 1.2, PANEL * down + 1.5), layout="compressed"
    )
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat:
        axes.set_aspect("equal")
        axes.tick_params(labelsize=7, length=2)
        axes.locator_params(nbins=4)
    across_name, up_name = map(shown, maps[0].features or ("", ""))
    for axes in grid[-1]:
        axes.set_xlabel(across_name, fontsize=8)
    if scores > 1:
        for axes, title in zip(grid[:, 0], titles, strict=True):
            axes.set_ylabel(f"{title}\n{up_name}", fontsize=10)
        return figure, [list(column) for column in grid.T]
    for axes in grid[:, 0]:
        axes.set_ylabel(up_name, fontsize=8)
    for axes, title in zip(grid.flat, titles, strict=False):
        axes.set_title(title, fontsize=10)
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    for axes in (
        grid[-2][len(grid[-1]) - (grid.size - len(maps)) :] if len(grid) > 1 else ()
    ):  # nothing below them
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(across_name, fontsize=8)
    return figure, [list(grid.flat[: len(maps)])]


def _draw(
    figure: Figure, column: list[Any], maps: Sequence[Map], name: str, saturation: bool, alone: bool
) -> None:
    """One score of every map, all in one scale of colours, with the bar that explains it."""
    found = {i: surface for i, one in enumerate(maps) if (surface := _surface(one, name))}
    values = {
        i: np.array(surface.slopes if saturation else surface.values)
        for i, surface in found.items()
    }
    near = (
        [_at_points(maps[i], grid) for i, grid in values.items()]
        if name in UNBOUNDED and not saturation
        else None
    )
    norm = _norm(
        list(values.values()) if near is None else near, saturation, 1.0 if near is None else BEYOND
    )
    # confidence is the one quantity that is large where a model is certain
    colours = "Purples_r" if name == CONFIDENCE and not saturation else "Purples"
    for i, (axes, one) in enumerate(zip(column, maps, strict=True)):
        if i in values:
            mesh = axes.pcolormesh(
                one.x, one.y, values[i], norm=norm, cmap=colours, shading="nearest", rasterized=True
            )
            _scatter(axes, one)
        else:
            lone = one.draws == 1 and name in COMPARING
            why = "one draw:\nnothing to compare" if lone else "not in this map"
            axes.text(
                0.5,
                0.5,
                why,
                transform=axes.transAxes,
                ha="center",
                va="center",
                fontsize=9,
                color="0.4",
            )
    label = shown(next(iter(found.values())).label)
    if saturation:
        label = f"‖∇ₓ({label})‖₂" if "−" in label else f"‖∇ₓ {label}‖₂"
    if not alone:
        column[0].set_title(label, fontsize=10)
    beyond = "min" if saturation else "neither" if near is None else "both"
    _add_bar(figure, column, mesh, label if alone else "", beyond)


def _at_points(one: Map, grid: Any) -> Any:
    """The values of a map where its points are, each that of the nearest node; all values, if there are no points."""
    across, up = (
        np.abs(np.subtract.outer(points, nodes)).argmin(1)
        for points, nodes in ((one.points.x, one.x), (one.points.y, one.y))
    )
    return grid[up, across] if len(up) else grid


def _add_bar(figure: Figure, column: list[Any], mesh: Any, label: str, extend: str) -> None:
    """The scale of a column's colours: beside its panels with a label of its own, else below them."""
    where: dict[str, Any] = {"location": "right", "aspect": 30}
    if not label:
        where = {"location": "bottom", "aspect": 25, "pad": 0.06 / len(column)}
    bar = figure.colorbar(mesh, ax=column, label=label, shrink=0.9, extend=extend, **where)
    bar.ax.tick_params(labelsize=7)


def _surface(one: Map, name: str) -> Surface | None:
    if name == CONFIDENCE:
        return one.confidence
    return next((surface for surface in one.scores if surface.name == name), None)


def _norm(values: list[Any], saturation: bool, times: float = 1.0) -> Normalize:
    """From the least value to the largest, or to so many times as far; what is beyond has the colour of the end."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    high = low + times * (high - low)
    if saturation:
        high = high or 1.0
        return LogNorm(high * 10.0**-DECADES, high, clip=True)
    return Normalize(low, high if high > low else low + 1.0)


def _scatter(axes: Any, one: Map) -> None:
    x, y, labels = (np.array(values) for values in (one.points.x, one.points.y, one.points.labels))
    for label in range(len(one.classes)):
        chosen = labels == label
        axes.scatter(x[chosen], y[chosen], s=2.5, linewidths=0, rasterized=True, **_mark(label))


def _mark(label: int) -> dict[str, Any]:
    return {"color": COLOURS[label % len(COLOURS)], "marker": MARKERS[label % len(MARKERS)]}


def _explain(figure: Figure, one: Map, saturation: bool) -> None:
    """What the colours and the points stand for."""
    what = (
        "white = no longer notices a change" if saturation else "white = certain, dark = uncertain"
    )
    title = f"{shown(one.data)}: {what}"
    fits = text_width(title, 11) < figure.get_figwidth()
    figure.suptitle(title if fits else title.replace(": white", ":\nwhite"), fontsize=11)
    marks = [
        Line2D([], [], linestyle="", markersize=4, **_mark(label))
        for label in range(len(one.classes))
    ]
    legend_below(figure, marks, list(map(shown, one.classes)), size=8)
