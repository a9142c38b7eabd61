"""Methods side by side on the same data: ROC curves, rejection curves, confidences, and a table of it all."""

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nescio.files import FIGURE, PAGE, check_replaceable
from nescio.metrics.percent import percent
from nescio.records import Evaluation, Histogram, UnknownSide
from nescio.report.figures import (
    COLOURS,
    DASHES,
    draw_shares,
    legend_below,
    save_figure,
    shown,
    text_width,
)
from nescio.report.markdown import save_markdown
from nescio.report.runs import (
    Records,
    Runs,
    compared,
    mean,
    notes,
    of_score,
    older,
    over_runs,
    side_of,
)
from nescio.report.side_by_side import side_by_side
from nescio.report.tables import CONVENTIONS, FIGURES, auroc_colour, new_table

ACROSS = 3  # panels in a row
PANEL = 3.7  # inches that one is wide, with its labels
LINE = 0.19  # inches that a line of a legend is high
MOST_TABLES = 3  # one for each unknown set, if there are no more
ATTACKED, TABLE = "adversarial_samples", "table.md"
LINES = COLOURS[:6]  # yellow is too light for a line, and black is kept for what is no method
BOUND: dict[str, Any] = {"color": "0.35", "linewidth": 1.0, "linestyle": "--"}


def write_comparison(
    records: Records,
    folder: str | os.PathLike[str],
    unknown: str | Sequence[str] | None = None,
    score: str | None = None,
) -> RenderableType:
    """Write roc.svg, rejection.svg, confidence.svg and table.md to a folder, and return a table to print.

    That is a table for each unknown set or, for more than three of them, the one of the methods side by side. If there
    are adversarial samples, adversarial_samples.svg shows the confidence in them.

    Args:
        records: evaluations on the same data; those of one method are its runs.
        folder: where to; made if it is not there.
        unknown: names of unknown sets; by default all that every record has.
        score: the one to judge all of them by; by default each is judged by the score it is paired with.
    """
    _, sets = compared(records, unknown)
    table = side_by_side(records, unknown, score)
    figures = {
        "roc.svg": roc_figure(records, unknown, score),
        "rejection.svg": rejection_figure(records, unknown, score),
        "confidence.svg": confidence_figure(records, unknown),
    }
    if ATTACKED in sets:
        figures[f"{ATTACKED}.svg"] = attacked_figure(records)
    check_replaceable(Path(folder) / TABLE, PAGE)
    for name in figures:
        check_replaceable(Path(folder) / name, FIGURE)  # all before any is written
    for name, figure in figures.items():
        save_figure(figure, Path(folder) / name)
    save_markdown(table.markdown(), Path(folder) / TABLE)
    return table if len(sets) > MOST_TABLES else comparison_table(records, unknown, score)


def roc_figure(
    records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None
) -> Figure:
    """Which shares of known and unknown inputs each method accepts, a panel for each unknown set; AUROC in the legend.

    Known inputs are the positives. A method of several runs has a thin line for each, and mean ± standard deviation.
    """
    runs, sets = compared(records, unknown)
    figure, panels = _panels(
        len(sets), "unknown inputs accepted", "known inputs accepted", named=len(runs)
    )
    for axes, name in zip(panels, sets, strict=True):
        axes.plot(
            [0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle=(0, (1, 3))
        )  # tossing a coin
        for label, group, style in _styled(runs):
            area = over_runs(
                [of_score(one, side_of(one, name).separation, score).auroc for one in group]
            )
            for curve in (of_score(one, side_of(one, name).roc, score) for one in group):
                axes.plot(curve.unknown, curve.known, **style)
            axes.plot([], [], label=f"{shown(label)}  {area}", **style | {"linewidth": 1.8})
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axes.set_title(f"against {shown(name)}", fontsize=10)
        _explain(axes, "AUROC")
    return _titled(figure, runs, "known inputs told from unknown ones")


def rejection_figure(
    records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None
) -> Figure:
    """Accuracy of what each method keeps of known and unknown inputs together, a panel for each unknown set.

    The dashed line is the theoretical maximum: every known input right, and every unknown one rejected first. The
    legend gives the mean of the accuracy over all shares rejected.
    """
    runs, sets = compared(records, unknown)
    figure, panels = _panels(
        len(sets), "share rejected", "accuracy of the rest", named=len(runs) + 1
    )
    for axes, name in zip(panels, sets, strict=True):
        bounds = {}
        for label, group, style in _styled(runs):
            curves = [of_score(one, side_of(one, name).rejection, score) for one in group]
            for curve in curves:
                axes.plot(curve.rejected, curve.accuracy, **style)
                bounds[curve.maximum] = curve
            area = over_runs([curve.area for curve in curves])
            axes.plot([], [], label=f"{shown(label)}  {area}", **style | {"linewidth": 1.8})
        # of the numbers of inputs alone, and so the same for all, unless an attack failed on more of one model's inputs
        areas = sorted(f"{curve.maximum_area:.3f}" for curve in bounds.values())
        bound = f"theoretical maximum  {' to '.join(dict.fromkeys((areas[0], areas[-1])))}"
        for i, curve in enumerate(bounds.values()):
            axes.plot(curve.rejected, curve.maximum, label=None if i else bound, **BOUND)
        axes.set_title(f"with {shown(name)}", fontsize=10)
        _explain(axes, "mean accuracy")
    panels[0].set(xlim=(0, 1), ylim=(None, 1.01))  # of all panels, now that all lines are there
    return _titled(figure, runs, "accuracy when the least known are rejected")


def confidence_figure(records: Records, unknown: str | Sequence[str] | None = None) -> Figure:
    """How confident each method is of known and of unknown inputs, a panel for each method; shares are means of runs.

    Confidence is what the method says itself: the largest probability, and for DUQ the largest kernel.
    """
    runs, sets = compared(records, unknown)
    figure, panels = _panels(
        len(runs), "confidence", "share of inputs\n(square-root scale)", height=2.4
    )
    for axes, (label, group) in zip(panels, runs.items(), strict=True):
        found = _confidence(group, ("known", *sets))
        shares = [
            np.mean([_shares(one.counts[side]) for one in found], axis=0)
            for side in ("known", *sets)
        ]
        draw_shares(
            axes, found[0].edges, list(zip((group[0].known.name, *sets), shares, strict=True))
        )
        # a network that is sure of nearly all it sees would leave everything else too flat to be seen
        axes.set_yscale("function", functions=(_root, np.square))
        axes.yaxis.set_major_locator(FixedLocator((0, 0.01, 0.05, 0.1, 0.2, 0.5, 1)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlim(0, 1)
        axes.set_title(shown(label), fontsize=10)
    panels[0].set_ylim(bottom=0)  # of all panels
    legend_below(figure, *panels[0].get_legend_handles_labels(), size=9)
    return _titled(figure, runs, "how confident of known and of unknown inputs")


def attacked_figure(records: Records, name: str = ATTACKED) -> Figure:
    """How many adversarial samples each method is how confident of, on a logarithmic scale: figure 4 of paper 2.

    Counts are means of runs. The title of each panel says how many inputs the attack was tried on and how many it
    brought to a wrong class, which alone are counted, and the dashed line is at their mean confidence.
    """
    runs, _ = compared(records, name)
    figure, panels = _panels(len(runs), "confidence", "inputs (log scale)", height=2.6)
    least = 0.5 / max(map(len, runs.values()))  # below what a single input counts
    for i, (axes, (label, group)) in enumerate(zip(panels, runs.items(), strict=True)):
        found, sides = _confidence(group, (name,)), [side_of(one, name) for one in group]
        counts = np.mean([one.counts[name] for one in found], axis=0)
        axes.stairs(
            np.maximum(counts, least), found[0].edges, baseline=least, fill=True, color=LINES[i % 6]
        )
        middle = float(np.mean([side.mmc for side in sides]))
        axes.axvline(middle, **BOUND)
        words = f"{_changed(sides)}, mean confidence {percent(middle)}"
        size = 10 * min(
            1.0, (PANEL - 0.6) / max(text_width(words, 10), text_width(shown(label), 10))
        )
        axes.set_title(f"{shown(label)}\n{words}", fontsize=size)
    panels[0].set(xlim=(0, 1), yscale="log", ylim=(least, None))  # of all panels
    return _titled(figure, runs, f"confidence in {name.replace('_', ' ')}")


def _changed(sides: Sequence[UnknownSide]) -> str:
    """How many inputs were judged, out of how many tried."""
    judged = " / ".join(str(side.inputs) for side in sides)
    return f"{judged} of {sides[0].attack.tried} changed" if sides[0].attack else f"{judged} inputs"


def _confidence(group: Sequence[Evaluation], sets: Sequence[str]) -> list[Histogram]:
    """How confidence is distributed in each run, or an error if one does not know."""
    found = [
        one.confidence
        for one in group
        if one.confidence and set(sets) <= set(one.confidence.counts)
    ]
    if len(found) < len(group):
        raise older(group[0], "distribution of confidence")
    return found


def comparison_table(
    records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None
) -> RenderableType:
    """A table for each unknown set with a row for each method, mean ± standard deviation of its runs."""
    runs, sets = compared(records, unknown)
    parts: list[RenderableType] = [_table(runs, name, score) for name in sets]
    return Group(*parts, Text("\n".join(notes(runs, sets, score, CONVENTIONS)), style="dim"))


def _table(runs: Runs, name: str, score: str | None) -> Table:
    first = next(iter(runs.values()))[0]
    known, side = first.known, side_of(first, name)
    against = f"{side.attack.tried} attacked" if side.attack else f"{side.inputs} unknown"
    table = new_table(f"{known.name} against {name}: {known.inputs} known, {against} inputs")
    table.padding = (0, 1, 0, 0)
    table.add_column("method", min_width=8, overflow="fold")
    table.add_column("runs", justify="right")
    for column in (
        "accu-\nracy",
        "MMC\nknown",
        "MMC un-\nknown",
        "AUROC",
        "AUPR\nIn",
        "AUPR\nOut",
        "FPR95",
    ):
        table.add_column(column, **FIGURES)
    for label, group in runs.items():
        sides = [side_of(one, name) for one in group]
        found = [
            of_score(one, side.separation, score) for one, side in zip(group, sides, strict=True)
        ]
        aurocs = [one.auroc for one in found]
        table.add_row(
            Text(label),
            str(len(group)),
            over_runs([one.known.accuracy for one in group], share=True),
            over_runs([one.known.mmc for one in group], share=True),
            over_runs([side.mmc for side in sides], share=True),
            Text(over_runs(aurocs), style=auroc_colour(mean(aurocs))),
            over_runs([one.aupr_in for one in found]),
            over_runs([one.aupr_out for one in found]),
            over_runs([one.fpr95 for one in found], share=True),
        )
    return table


def _root(values: Any) -> Any:
    return np.sqrt(np.maximum(values, 0))  # matplotlib also asks for what is below the axis


def _shares(counts: Sequence[int]) -> Any:
    return np.array(counts) / max(1, sum(counts))


def _styled(runs: Runs) -> Iterator[tuple[str, list[Evaluation], dict[str, Any]]]:
    """Each method with the look of its lines: a colour and, for those who see none, dashes of its own."""
    for i, (label, group) in enumerate(runs.items()):
        width = 1.8 if len(group) == 1 else 0.9
        yield label, group, {"color": LINES[i % 6], "linestyle": DASHES[i % 5], "linewidth": width}


def _panels(
    count: int, across: str, up: str, height: float = 3.6, named: int = 0
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, with room for a legend of so many names below each."""
    columns = 2 if count == 4 else min(ACROSS, count)  # two by two leaves no gap
    rows = math.ceil(count / columns)
    height += (named + 2) * LINE if named else 0.0
    figure = Figure(figsize=(max(5.0, PANEL * columns), height * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    panels = list(grid.flat[:count])
    for i, axes in enumerate(panels):
        axes.spines[["top", "right"]].set_visible(False)
        axes.label_outer()
        if i % columns == 0:
            axes.set_ylabel(up)
        if i + columns >= count:  # nothing is below it
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(across)
    return figure, panels


def _explain(axes: Axes, figures: str) -> None:
    """A legend below, where it hides no line; its letters are small enough for the longest name."""
    widest = max(text_width(label, 9) for label in axes.get_legend_handles_labels()[1])
    size = 9 * min(1.0, (PANEL - 1.2) / widest)
    axes.legend(
        title=figures,
        fontsize=size,
        title_fontsize=size,
        alignment="left",
        frameon=False,
        borderaxespad=0,
        loc="upper left",
        bbox_to_anchor=(0, -0.2),
    )


def _titled(figure: Figure, runs: Runs, what: str) -> Figure:
    known = shown(next(iter(runs.values()))[0].known.name)
    fits = text_width(f"{known}: {what}", 12) < figure.get_figwidth() - 0.2
    figure.suptitle(
        f"{known}: {what}" if fits else f"{known}:\n{what}", x=0.01, ha="left", fontsize=12
    )
    return figure
