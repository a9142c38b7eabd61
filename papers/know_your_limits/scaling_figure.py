"""Theorem 1 as a figure: inputs scaled along one feature, several models together."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio import NescioError
from nescio.records import Direction, Scaling
from nescio.report import despine, line_style, plot_text, title_left, with_legend

PANEL_WIDTH = 3.0  # inches
DEPTH = 1e-18  # gradients are drawn down to this part of the largest one
TITLE = "one feature, ever farther away: confidence grows, and no score notices any more"


def limits_figure(records: Mapping[str, Scaling], number: int = 0) -> Figure:
    """Draw the mean confidence of each model as inputs are scaled, and the gradients of its scores.

    `number` is that of the direction in the records, of which all must have the same.
    """
    if not records:
        raise NescioError("a figure of scaled inputs takes one or more records; given: none")
    along = {name: record.directions[number] for name, record in records.items()}
    names = [direction.name for direction in along.values()]
    if len(set(names)) > 1:
        raise NescioError(f"records along different features: {', '.join(names)}")
    gauges = {gauge.score: gauge.label for record in records.values() for gauge in record.gauges}
    figure = Figure(figsize=(PANEL_WIDTH * (1 + len(gauges)) + 0.6, 3.6), layout="constrained")
    first, *others = figure.subplots(1, 1 + len(gauges), sharex=True, squeeze=False)[0]
    for i, (name, record) in enumerate(records.items()):
        direction, style = along[name], {**line_style(i), "linewidth": 1.7}
        if direction.confidence is None:  # no input moves along it
            continue
        first.plot(record.factors, direction.confidence, label=plot_text(name), **style)
        for axes, score in zip(others, gauges, strict=True):
            _draw_gradient(axes, record, direction, score, style)
    first.set(xscale="log", ylim=(None, 1.01))
    first.set_title("mean confidence", fontsize=10)
    for axes, label in zip(others, gauges.values(), strict=True):
        axes.set_yscale("log")
        norm = f"mean ‖∇ₓ({label})‖₂" if "−" in label else f"mean ‖∇ₓ {label}‖₂"
        axes.set_title(plot_text(norm), fontsize=10)
        _floor(axes)
    for axes in (first, *others):
        axes.set_xlabel(f"factor of {plot_text(names[0])}")
        despine(axes)
        axes.margins(x=0)
    title_left(figure, TITLE)
    return with_legend(figure, first)


def _draw_gradient(
    axes: Axes, record: Scaling, direction: Direction, score: str, style: dict[str, Any]
) -> None:
    for course in direction.scores or ():
        if course.score == score:
            heights = np.maximum(course.gradient_mean, np.finfo(float).tiny)
            axes.plot(record.factors, heights, **style)


def _floor(axes: Axes) -> None:
    """A gradient that has died leaves through the floor."""
    lines = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    heights = np.concatenate([*lines, [1.0][: not lines]])
    axes.set_ylim(max(heights.max() * DEPTH, heights.min()) / 3, heights.max() * 3)
