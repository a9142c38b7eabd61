"""Theorem 3.2: how far from its centres an RBF network knows nothing, guaranteed and measured.

The record, its figure and its section of a report.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from nescio import NescioError
from nescio.records import (
    Checked,
    Constraint,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Provenance,
    Record,
    check_lengths,
)
from nescio.report import (
    COLOURS,
    Percent,
    ReportContext,
    Table,
    despine,
    figure,
    join,
    paragraphs,
    plot_text,
    title_left,
    with_legend,
)

MAX_DRAWN = 6  # data sets that have a figure in a report
FLOOR = 1e-17  # of what is drawn; below it float64 sees no difference from 1/K
COLUMNS = (
    *("model", "data", "centres", "accuracy", "ε", "radius", "inputs beyond"),
    *("largest |p − 1/K|", "kept"),
)
WORDS = (
    "Beyond a radius from all its centres every probability of an RBF network is within ε of 1/K, "
    "one over the number of classes: that is proved (theorem 3.2 of paper 2). The table holds it "
    "against inputs beyond the radius, which is in units of normalised inputs."
)


@dataclass(frozen=True)
class RadiusCheck(Checked):
    """Theorem 3.2 for one ε, held against inputs beyond the radius it gives."""

    eps: NonNegative
    radius: NonNegative  # from all centres, in units of the normalised input
    beyond: Count  # inputs that were looked at, none of them nearer
    worst: NonNegative  # largest difference of a probability from 1/K there; ≤ ε by the theorem

    @property
    def kept(self) -> bool | None:
        """Whether the theorem holds; None where no input was looked at."""
        return self.worst <= self.eps if self.beyond else None


@dataclass(frozen=True)
class Radius(Record):
    """An RBF network and a ReLU network on inputs ever farther from the training data."""

    NEEDED: ClassVar = ("promises",)

    data: str
    classes: Annotated[Count, Constraint(lambda n: n >= 2, "whole numbers of at least 2")]
    centres: Count
    gamma: Positive
    alpha: NonNegative  # the largest Σ_l |α_rl − α_kl|
    accuracy: Fraction  # of the RBF network on test data
    promises: tuple[RadiusCheck, ...]
    distance: tuple[NonNegative, ...]  # of some inputs to their nearest centre
    departs: tuple[float, ...]  # largest |p − 1/K| of the RBF network there
    other: tuple[float, ...]  # the same of a ReLU network
    provenance: Provenance

    def check(self) -> None:
        check_lengths(self, distance=self.distance, departs=self.departs, other=self.other)


def radius_figure(records: Sequence[Radius]) -> Figure:
    """Draw how far probabilities are from 1/K by distance: RBF network, its bound, ReLU network."""
    if not records:
        raise NescioError("a figure of theorem 3.2 takes one or more records; given: none")
    drawn = Figure(figsize=(max(6.0, 5.0 * len(records)), 4.2), layout="constrained")
    row = drawn.subplots(1, len(records), squeeze=False)[0]
    dots = {"s": 6, "linewidths": 0, "alpha": 0.6, "rasterized": True}
    for axes, record in zip(row, records, strict=True):
        distance = np.array(record.distance)
        grid = np.linspace(0, float(distance.max()) * 1.02, 400)
        heights = [bound(record, r) for r in grid.tolist()]
        axes.plot(grid, heights, color="black", linewidth=1.4, label="bound of the theorem")
        for values, colour, marker, label in (
            (record.other, COLOURS[1], "^", "ReLU network"),
            (record.departs, COLOURS[0], "o", "RBF network"),
        ):
            seen = np.maximum(values, FLOOR)
            axes.scatter(distance, seen, color=colour, marker=marker, label=label, **dots)
        axes.set(yscale="log", ylim=(FLOOR / 2, 3), xlim=(0, None))
        axes.set_xlabel("distance to the nearest centre")
        axes.axhline(1 - 1 / record.classes, color="0.6", linewidth=0.8, linestyle=":")
        data = record.data.replace("_", " ")
        title = f"{data}: {record.centres} centres, γ = {record.gamma:.3g}"
        axes.set_title(plot_text(title), fontsize=10)
        despine(axes)
    row[0].set_ylabel("largest |p − 1/K|")
    with_legend(drawn, row[0])
    kept = all(one.worst <= one.eps for record in records for one in record.promises)
    sound = "far from all centres an RBF network knows nothing, as promised"
    title_left(drawn, sound if kept else "a promise that was not kept")
    return drawn


def bound(record: Radius, distance: float) -> float:
    """Return the ε of theorem 3.2 at a distance from all centres.

    That is `(exp(α e^(−γr²)) − 1) / K`, at most 1 − 1/K.
    """
    most = 1 - 1 / record.classes
    # ** would raise where this is infinite
    gap = record.alpha * math.exp(-record.gamma * distance * distance)
    if gap > math.log1p(record.classes * most):
        return most
    return max(FLOOR, math.expm1(gap) / record.classes)


def radius_html(context: ReportContext) -> Markup:
    """Return all guarantees in one table, and a figure of the first record on each data set."""
    records = context.unique(Radius)
    if not records:
        return Markup("")
    rows = [
        (
            *(name, record.data, record.centres, Percent(record.accuracy)),
            *(one.eps, one.radius, one.beyond, one.worst, one.kept),
        )
        for name, record in records
        for one in record.promises
    ]
    table = Table("What is promised of RBF networks, and what was seen", COLUMNS, rows).html()
    firsts = {record.data: (name, record) for name, record in reversed(records) if record.distance}
    drawn = [pair for pair in records if pair in firsts.values()]
    figures = (figure(radius_figure([one]), _alt(name, one)) for name, one in drawn[:MAX_DRAWN])
    left = len(drawn) - MAX_DRAWN
    notes = [f"{left} more data sets are in the tables only."] if left > 0 else []
    return join([paragraphs([WORDS]), table, *figures, paragraphs(notes)])


def _alt(name: str, record: Radius) -> str:
    far, rbf, relu = max(zip(record.distance, record.departs, record.other, strict=True))
    return (
        f"{name}: how far probabilities are from 1/K by the distance to the nearest centre. At a "
        f"distance of {far:.3g} that is {rbf:.2g} of an RBF network and {relu:.2g} of a ReLU "
        "network."
    )
