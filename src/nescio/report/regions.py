"""The linear regions of a network in the plane as a figure: those that never end in a colour of their own."""

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nescio.records import Cell, Regions
from nescio.report.figures import COLOURS, legend_below, shown
from nescio.report.maps import MARKERS

BOUNDED, UNBOUNDED = COLOURS[5], COLOURS[4]  # sky blue and orange, which stay apart in grey, too
TINTS = (0.18, 0.26, 0.34)  # how much of a colour: neighbours mostly differ
INK, EDGE = (
    "#0b0f14",
    "#575a5e",
)  # on regions, whose tints stay light on a dark page; pure greys follow its theme
MANY = 1000  # regions from which on edges are hairlines


def regions_figure(record: Regions) -> Figure:
    """Figure 1 of paper 2: the polygons on each of which the network is one affine function.

    With the decision boundary, exact and so bent only at edges, and the training points if the record has them.
    """
    (left, right), (bottom, top) = record.window
    height = min(max(5.6 * (top - bottom) / (right - left), 2.5), 9.0)
    figure = Figure(figsize=(6.4, height + 1.1), layout="compressed")
    axes = figure.subplots()
    handles = _draw_cells(axes, record)
    handles += _draw_boundary(axes, record)
    handles += _draw_points(axes, record)
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axes.set_xlabel(shown(record.features[0]))
    axes.set_ylabel(shown(record.features[1]))
    axes.tick_params(labelsize=8)
    what = shown((record.data or record.method).replace("_", " "))
    regions = f"{record.count} linear region{'s' if record.count > 1 else ''}"
    figure.suptitle(f"{what}: {regions}, {record.unbounded} of them unbounded", fontsize=11)
    legend_below(figure, handles, [handle.get_label() for handle in handles], size=9)
    return figure


def _draw_cells(axes: Any, record: Regions) -> list[Any]:
    width = 0.6 if record.count < MANY else 0.25
    handles = []
    for unbounded, colour, label in (
        (False, BOUNDED, "bounded region"),
        (True, UNBOUNDED, "goes on to infinity"),
    ):
        cells = [cell for cell in record.cells if cell.unbounded == unbounded]
        if not cells:
            continue
        polygons = [np.array(cell.corners) for cell in cells]
        faces = [_tint(colour, _strength(cell)) for cell in cells]
        axes.add_collection(
            PolyCollection(polygons, facecolors=faces, edgecolors=EDGE, linewidths=width)
        )
        handles.append(
            Patch(facecolor=_tint(colour, TINTS[-1]), edgecolor="0.35", linewidth=0.6, label=label)
        )
    return handles


def _strength(cell: Cell) -> float:
    """One of the tints, by where the cell is, so that a record always looks the same."""
    x, y = np.mean(cell.corners, axis=0)
    return TINTS[int(abs(float(x) * 7919 + float(y) * 104729)) % len(TINTS)]


def _tint(colour: str, strength: float) -> tuple[float, float, float]:
    """A colour thinned with white, which unlike a transparent one lets no edge below shine through."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def _draw_boundary(axes: Any, record: Regions) -> list[Any]:
    if not record.boundary:
        return []
    segments = [np.array(segment) for segment in record.boundary]
    axes.add_collection(LineCollection(segments, colors=INK, linewidths=1.8, capstyle="round"))
    return [Line2D([], [], color="black", linewidth=1.8, label="decision boundary")]


def _draw_points(axes: Any, record: Regions) -> list[Any]:
    if record.points is None:
        return []
    x, y, labels = (
        np.array(values) for values in (record.points.x, record.points.y, record.points.labels)
    )
    handles = []
    for label, name in enumerate(record.classes):
        chosen = labels == label
        mark: dict[str, Any] = {
            "color": COLOURS[label % len(COLOURS)],
            "marker": MARKERS[label % len(MARKERS)],
        }
        axes.scatter(
            x[chosen], y[chosen], s=9, edgecolors="white", linewidths=0.3, zorder=3, **mark
        )
        handles.append(Line2D([], [], linestyle="", markersize=5, label=shown(name), **mark))
    return handles
