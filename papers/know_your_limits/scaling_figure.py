"""Theorem 1 of *Know your limits* as a figure: inputs scaled along one feature, several models together."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.records import Direction, Scaling
from nescio.report.figures import COLOURS, DASHES, legend_below, plot_text

PANEL = 3.0  # inches that one is wide
DEPTH = 1e-18  # gradients are drawn down to this part of the largest one


def limits_figure(records: Mapping[str, Scaling], number: int = 0) -> Figure:
    """The mean confidence of each model as its inputs are scaled, then the gradient of each score that some have.

    `number` is that of the direction in the records, of which all must have the same.
    """
    if not records:
        raise NescioError("a figure of scaled inputs takes one or more records; given: none")
    along = {name: record.directions[number] for name, record in records.items()}
    if len({direction.name for direction in along.values()}) > 1:
        raise NescioError(
            f"records along different features: {', '.join(one.name for one in along.values())}"
        )
    gauges = {gauge.score: gauge.label for record in records.values() for gauge in record.gauges}
    figure = Figure(figsize=(PANEL * (1 + len(gauges)) + 0.6, 3.6), layout="constrained")
    first, *others = figure.subplots(1, 1 + len(gauges), sharex=True, squeeze=False)[0]
    for style, (name, record) in zip(_styles(), records.items(), strict=False):
        direction = along[name]
        if direction.confidence is None:  # no input moves along it
            continue
        first.plot(record.factors, direction.confidence, label=plot_text(name), **style)
        for axes, score in zip(others, gauges, strict=True):
            _draw_gradient(axes, record, direction, score, style)
    first.set(xscale="log", ylim=(None, 1.01))
    first.set_title("mean confidence", fontsize=10)
    for axes, label in zip(others, gauges.values(), strict=True):
        axes.set_yscale("log")
        axes.set_title(
            plot_text(f"mean ‖∇ₓ({label})‖₂" if "−" in label else f"mean ‖∇ₓ {label}‖₂"),
            fontsize=10,
        )
        _floor(axes)
    for axes in (first, *others):
        axes.set_xlabel(f"factor of {plot_text(next(iter(along.values())).name)}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    handles, labels = first.get_legend_handles_labels()
    legend_below(figure, handles, labels, size=9)
    figure.suptitle(
        "one feature, ever farther away: confidence grows, and no score notices any more",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return figure


def _styles() -> list[dict[str, Any]]:
    return [
        {"color": COLOURS[i % 6], "linestyle": DASHES[i % len(DASHES)], "linewidth": 1.7}
        for i in range(6 * len(DASHES))
    ]


def _draw_gradient(
    axes: Axes, record: Scaling, direction: Direction, score: str, style: dict[str, Any]
) -> None:
    for course in direction.scores or ():
        if course.score == score:
            axes.plot(
                record.factors, np.maximum(course.gradient_mean, np.finfo(float).tiny), **style
            )


def _floor(axes: Axes) -> None:
    """A gradient that has died leaves through the floor."""
    heights = [
        float(value) for line in axes.lines for value in np.asarray(line.get_ydata(), float)
    ] or [1.0]
    axes.set_ylim(max(max(heights) * DEPTH, min(heights)) / 3, max(heights) * 3)
