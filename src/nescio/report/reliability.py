"""Whether a confidence means what it says: how often answers are right, against how sure the model was of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.metrics.percent import percent
from nescio.records import Evaluation, Reliability
from nescio.report.figures import COLOURS, DASHES, legend_below, shown
from nescio.report.maps import MARKERS

FEW = 10  # inputs of a bin, below which its share of right answers is chance
LINES = COLOURS[:6]  # yellow is too light for a line, and black is the diagonal's


def reliability_figure(
    records: Evaluation | Sequence[Evaluation], names: Sequence[str] | None = None
) -> Figure:
    """Accuracy against confidence, bin by bin, with the diagonal of a model that means what it says.

    Below stands how many answers had which confidence: where they are few, the line above is chance.

    Args:
        records: one or more; those from before bins were kept are passed over.
        names: what to call each, by default its method.
    """
    given = [records] if isinstance(records, Evaluation) else list(records)
    called = [one.method for one in given] if names is None else list(names)
    if len(called) != len(given):
        raise NescioError(f"names={names!r}; expected one for each of {len(given)} records")
    found = [(name, one, one.known.reliability) for name, one in zip(called, given, strict=True)]
    drawn = [(name, one, bins) for name, one, bins in found if bins is not None]
    if not drawn:
        raise NescioError(
            "a reliability diagram needs evaluations that keep their bins; evaluate the models anew"
        )
    figure = Figure(figsize=(5.6, 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color="0.5", linewidth=1, linestyle="--", label="means what it says")
    for i, (name, one, bins) in enumerate(drawn):
        _draw(
            above,
            below,
            bins,
            f"{shown(name)}: ECE {percent(one.known.ece)}",
            i,
            gaps=len(drawn) == 1,
        )
    above.set(xlim=(0, 1), ylim=(-0.02, 1.02), ylabel="share of right answers", aspect="auto")
    below.set(ylim=(0, None), xlabel="confidence", ylabel="share of inputs")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = above.get_legend_handles_labels()
    legend_below(figure, handles, labels, size=9)
    return figure


def _draw(above: Any, below: Any, bins: Reliability, label: str, number: int, gaps: bool) -> None:
    """One model: its line through the bins and, if it is alone, how far each is from the diagonal.

    Bins of few inputs, where a single one moves the share by more than a tenth, are faint marks and no part of a line.
    """
    colour = LINES[number % len(LINES)]
    dashes = DASHES[number % len(DASHES)]
    held = [
        (c, a, n)
        for c, a, n in zip(bins.confidence, bins.accuracy, bins.counts, strict=True)
        if c is not None and a is not None
    ]
    confidence, accuracy, inputs = np.array(held).T
    marker = {"color": colour, "marker": MARKERS[number % 5], "markersize": 5, "clip_on": False}
    firm = inputs >= FEW
    if not firm.all():
        above.plot(
            confidence[~firm],
            accuracy[~firm],
            linestyle="none",
            markerfacecolor="none",
            alpha=0.5,
            **marker,
        )
    if gaps:
        above.vlines(
            confidence[firm],
            confidence[firm],
            accuracy[firm],
            color=colour,
            linewidth=5,
            alpha=0.25,
        )
    above.plot(
        confidence[firm], accuracy[firm], linestyle=dashes, linewidth=1.6, label=label, **marker
    )
    counts = np.array(bins.counts)
    below.stairs(
        counts / max(1, counts.sum()),
        bins.edges,
        color=colour,
        linestyle=dashes,
        linewidth=1.5,
        fill=False,
    )
    below.stairs(counts / max(1, counts.sum()), bins.edges, color=colour, alpha=0.25, fill=True)
