"""Theorem 3.2 of paper 2 as a figure: what is promised of a network of kernels, and what is seen."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.records import Radius
from nescio.report.figures import COLOURS, legend_below, shown

FLOOR = 1e-17  # of what is drawn; below it float64 sees no difference from 1/K


def radius_figure(records: Sequence[Radius]) -> Figure:
    """How far probabilities are from 1/K by distance, of an RBF network under its bound and of a ReLU network."""
    if not records:
        raise NescioError("a figure of theorem 3.2 takes one or more records; given: none")
    figure = Figure(figsize=(max(6.0, 5.0 * len(records)), 4.2), layout="constrained")
    row = figure.subplots(1, len(records), squeeze=False)[0]
    for axes, record in zip(row, records, strict=True):
        distance = np.array(record.distance)
        grid = np.linspace(0, float(distance.max()) * 1.02, 400)
        axes.plot(
            grid,
            [bound(record, r) for r in grid.tolist()],
            color="black",
            linewidth=1.4,
            label="bound of the theorem",
        )
        for values, colour, marker, label in (
            (record.other, COLOURS[1], "^", "ReLU network"),
            (record.departs, COLOURS[0], "o", "RBF network"),
        ):
            axes.scatter(
                distance,
                np.maximum(values, FLOOR),
                s=6,
                color=colour,
                marker=marker,
                linewidths=0,
                alpha=0.6,
                label=label,
                rasterized=True,
            )
        axes.set(
            yscale="log",
            ylim=(FLOOR / 2, 3),
            xlim=(0, None),
            xlabel="distance to the nearest centre",
        )
        axes.axhline(1 - 1 / record.classes, color="0.6", linewidth=0.8, linestyle=":")
        axes.set_title(
            shown(
                f"{record.data.replace('_', ' ')}: {record.centres} centres, γ = {record.gamma:.3g}"
            ),
            fontsize=10,
        )
        axes.spines[["top", "right"]].set_visible(False)
    row[0].set_ylabel("largest |p − 1/K|")
    handles, labels = row[0].get_legend_handles_labels()
    legend_below(figure, handles, labels, size=9)
    kept = all(one.worst <= one.eps for record in records for one in record.promises)
    title = (
        "far from all centres an RBF network knows nothing, as promised"
        if kept
        else "a promise that was not kept"
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def bound(record: Radius, distance: float) -> float:
    """The ε that theorem 3.2 promises at a distance from all centres: `(exp(α e^(−γr²)) − 1) / K`, at most 1 − 1/K."""
    most = 1 - 1 / record.classes
    gap = record.alpha * math.exp(
        -record.gamma * distance * distance
    )  # ** would raise where this is infinite
    return (
        most
        if gap > math.log1p(record.classes * most)
        else max(FLOOR, math.expm1(gap) / record.classes)
    )
