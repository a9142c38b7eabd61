"""Figures of several methods on the same data, a panel for each unknown set or method."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from nescio.errors import NescioError
from nescio.metrics.percent import percent
from nescio.records import Evaluation, Histogram
from nescio.report.figures import (
    LINES,
    Style,
    despine,
    draw_histograms,
    line_style,
    plot_text,
    text_width,
    title_left,
    with_legend,
)
from nescio.report.runs import Records, Runs, compared, of_score, side_of, size
from nescio.report.table import mean_text

PANELS_PER_ROW = 3
PANEL_WIDTH = 3.7  # inches, with labels
LEGEND_LINE = 0.19  # inches
ADVERSARIAL_SAMPLES = "adversarial_samples"
BOUND: Style = {"color": "0.35", "linewidth": 1.0, "linestyle": "--"}
Sets = str | Sequence[str] | None


def roc_figure(records: Records, unknown: Sets = None, score: str | None = None) -> Figure:
    """Draw ROC curves with known inputs as positives, a panel for each unknown set.

    A method of several runs has a thin line for each, and mean ± standard deviation in the legend.

    >>> record = nescio.evaluate(net, known.test, ["far"])
    >>> figure = roc_figure(record, score="energy")
    """
    runs, sets = compared(records, unknown)
    labels = ("unknown inputs accepted", "known inputs accepted")
    figure, panels = _panels(len(sets), *labels, legend_lines=len(runs))
    for axes, name in zip(panels, sets, strict=True):
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle=(0, (1, 3)))  # chance
        for label, group, style in _styled(runs):
            sides = [(run, side_of(run, name)) for run in group]
            for run, side in sides:
                curve = of_score(run, side.roc, score)
                axes.plot(curve.unknown, curve.known, **style)
            area = mean_text([of_score(run, its.separation, score).auroc for run, its in sides])
            axes.plot([], [], label=f"{plot_text(label)}  {area}", **style | {"linewidth": 1.8})
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axes.set_title(f"against {plot_text(name)}", fontsize=10)
        _legend(axes, "AUROC")
    return _titled(figure, runs, "known against unknown inputs")


def rejection_figure(records: Records, unknown: Sets = None, score: str | None = None) -> Figure:
    """Draw selective accuracy on known and unknown inputs together, a panel for each unknown set.

    The dashed line is the theoretical maximum: correct on every known input, and every unknown one
    rejected first. The legend gives the mean accuracy over all fractions rejected.

    >>> record = nescio.evaluate(net, known.test, ["far"])
    >>> figure = rejection_figure(record, "far")
    """
    runs, sets = compared(records, unknown)
    labels = ("fraction rejected", "selective accuracy")
    figure, panels = _panels(len(sets), *labels, legend_lines=len(runs) + 1)
    for axes, name in zip(panels, sets, strict=True):
        bounds = {}
        for label, group, style in _styled(runs):
            curves = [of_score(run, side_of(run, name).rejection, score) for run in group]
            for curve in curves:
                axes.plot(curve.rejected, curve.accuracy, **style)
                bounds[curve.maximum] = curve
            area = mean_text([curve.area for curve in curves])
            axes.plot([], [], label=f"{plot_text(label)}  {area}", **style | {"linewidth": 1.8})
        # the same for all, unless an attack failed on more inputs of one model than of another
        areas = sorted(f"{curve.maximum_area:.3f}" for curve in bounds.values())
        bound = f"theoretical maximum  {' to '.join(dict.fromkeys((areas[0], areas[-1])))}"
        for i, curve in enumerate(bounds.values()):
            axes.plot(curve.rejected, curve.maximum, label=None if i else bound, **BOUND)
        axes.set_title(f"with {plot_text(name)}", fontsize=10)
        _legend(axes, "mean accuracy")
    panels[0].set(xlim=(0, 1), ylim=(None, 1.01))  # of all panels, now that all lines are there
    return _titled(figure, runs, "selective accuracy")


def confidence_figure(records: Records, unknown: Sets = None) -> Figure:
    """Draw the confidence on known and unknown inputs, a panel for each method, mean over runs.

    Confidence is what the method reports: the largest probability, for DUQ the largest kernel.

    >>> record = nescio.evaluate(net, known.test, ["far"])
    >>> figure = confidence_figure(record)
    """
    runs, sets = compared(records, unknown)
    labels = ("confidence", "fraction of inputs\n(square-root scale)")
    figure, panels = _panels(len(runs), *labels, height=2.4)
    for axes, (label, group) in zip(panels, runs.items(), strict=True):
        histograms = _confidences(group, ("known", *sets))
        counts = [[histogram.counts[name] for histogram in histograms] for name in ("known", *sets)]
        means = [np.mean([np.array(c) / max(1, sum(c)) for c in each], axis=0) for each in counts]
        named = list(zip((group[0].known.name, *sets), means, strict=True))
        draw_histograms(axes, histograms[0].edges, named)
        # a model that is certain of nearly everything would leave all other bins too flat to see
        axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
        axes.yaxis.set_major_locator(FixedLocator((0, 0.01, 0.05, 0.1, 0.2, 0.5, 1)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(plot_text(label), fontsize=10)
    panels[0].set(xlim=(0, 1), ylim=(0, None))  # of all panels
    return _titled(with_legend(figure, panels[0]), runs, "confidence on known and unknown")


def attacked_figure(records: Records, name: str = ADVERSARIAL_SAMPLES) -> Figure:
    """Draw the confidence in adversarial samples on a log scale: figure 4 of paper 2.

    Counts are means over runs. Titles say on how many inputs the attack was tried and how many are
    now misclassified, which alone are counted; the dashed line is their mean confidence.

    >>> record = nescio.evaluate(net, known.test, ["adversarial_samples"], attacked=20)
    >>> figure = attacked_figure(record)
    """
    runs, _ = compared(records, name)
    figure, panels = _panels(len(runs), "confidence", "inputs (log scale)", height=2.6)
    floor = 0.5 / max(map(len, runs.values()))  # below what a single input counts
    for i, (axes, (label, group)) in enumerate(zip(panels, runs.items(), strict=True)):
        histograms, sides = _confidences(group, (name,)), [side_of(run, name) for run in group]
        counts = np.maximum(np.mean([h.counts[name] for h in histograms], axis=0), floor)
        axes.stairs(counts, histograms[0].edges, baseline=floor, fill=True, color=LINES[i % 6])
        middle = float(np.mean([side.mmc for side in sides]))
        axes.axvline(middle, **BOUND)
        inputs = " / ".join(str(side.inputs) for side in sides)
        inputs += f" of {size(sides[0])} changed" if sides[0].attack else " inputs"
        lines = (plot_text(label), f"{inputs}, mean confidence {percent(middle)}")
        widest = max(text_width(line, 10) for line in lines)
        axes.set_title("\n".join(lines), fontsize=10 * min(1.0, (PANEL_WIDTH - 0.6) / widest))
    panels[0].set(xlim=(0, 1), yscale="log", ylim=(floor, None))  # of all panels
    return _titled(figure, runs, f"confidence in {name.replace('_', ' ')}")


def _confidences(group: Sequence[Evaluation], sets: Sequence[str]) -> list[Histogram]:
    """Return the histogram of confidence of each run."""
    histograms = [run.confidence for run in group if run.confidence is not None]
    if len(histograms) < len(group) or not all(set(sets) <= set(h.counts) for h in histograms):
        raise NescioError(f"a record of {group[0].method} has no histogram of confidence")
    return histograms


def _styled(runs: Runs) -> Iterator[tuple[str, list[Evaluation], dict[str, Any]]]:
    """Yield each method with the look of its lines."""
    for i, (label, group) in enumerate(runs.items()):
        yield label, group, line_style(i) | {"linewidth": 1.8 if len(group) == 1 else 0.9}


def _panels(
    count: int, xlabel: str, ylabel: str, height: float = 3.6, legend_lines: int = 0
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, with room for a legend below each."""
    columns = 2 if count == 4 else min(PANELS_PER_ROW, count)  # two by two leaves no gap
    rows = math.ceil(count / columns)
    height += (legend_lines + 2) * LEGEND_LINE if legend_lines else 0.0
    inches = max(5.0, PANEL_WIDTH * columns), height * rows + 0.8
    figure = Figure(figsize=inches, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    panels = list(grid.flat[:count])
    despine(*panels)
    for i, axes in enumerate(panels):
        axes.label_outer()
        if i % columns == 0:
            axes.set_ylabel(ylabel)
        if i + columns >= count:  # nothing is below it
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(xlabel)
    return figure, panels


def _legend(axes: Axes, title: str) -> None:
    """Put a legend below the panel, small enough for the longest name."""
    widest = max(text_width(label, 9) for label in axes.get_legend_handles_labels()[1])
    font = 9 * min(1.0, (PANEL_WIDTH - 1.2) / widest)
    style: Style = {"fontsize": font, "title_fontsize": font, "alignment": "left"}
    style |= {"frameon": False, "borderaxespad": 0, "loc": "upper left"}
    axes.legend(title=title, bbox_to_anchor=(0, -0.2), **style)


def _titled(figure: Figure, runs: Runs, what: str) -> Figure:
    known = plot_text(next(iter(runs.values()))[0].known.name)
    fits = text_width(f"{known}: {what}", 12) < figure.get_figwidth() - 0.2
    title_left(figure, f"{known}: {what}" if fits else f"{known}:\n{what}", 12)
    return figure
