"""Methods side by side on the same data: ROC curves, rejection curves, confidences, and a table of it all.

Records may come in any order: those of one method are its runs. Where one method stands in several rows, as with and
without a penalty, a mapping from names to runs tells them apart.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nescio.errors import NescioError, unknown_name
from nescio.records import Evaluation, Rejection, Roc, Separation, UnknownSide
from nescio.report.figures import COLOURS, draw_shares, legend_below, save_figure, shown, text_width
from nescio.report.tables import CONVENTIONS, FIGURES, auroc_colour, new_table

Records = Evaluation | Sequence[Evaluation] | Mapping[str, Sequence[Evaluation]]
Runs = dict[str, list[Evaluation]]  # by the name that a legend shows
OfScore = TypeVar("OfScore", Separation, Rejection, Roc)

ACROSS = 3  # panels in a row
PANEL = 3.7  # inches that one is wide, with its labels
LINES = COLOURS[:6]  # yellow is too light for a line, and black is kept for what is no method
DASHES: tuple[Any, ...] = ("-", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
BOUND: dict[str, Any] = {"color": "0.35", "linewidth": 1.0, "linestyle": "--"}


def write_comparison(
    records: Records,
    folder: str | os.PathLike[str],
    unknown: str | Sequence[str] | None = None,
    score: str | None = None,
) -> RenderableType:
    """Write roc.svg, rejection.svg and confidence.svg to a folder, and return the table.

    Args:
        records: evaluations on the same data; those of one method are its runs.
        folder: where to; made if it is not there.
        unknown: names of unknown sets; by default all that every record has.
        score: the one to judge all of them by; by default each is judged by the score it is paired with.
    """
    table = comparison_table(records, unknown, score)
    figures = {
        "roc.svg": roc_figure(records, unknown, score),
        "rejection.svg": rejection_figure(records, unknown, score),
        "confidence.svg": confidence_figure(records, unknown),
    }
    for name, figure in figures.items():
        save_figure(figure, Path(folder) / name)
    return table


def roc_figure(records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None) -> Figure:
    """Which shares of known and unknown inputs each method accepts, a panel for each unknown set; AUROC in the legend.

    Known inputs are the positives. A method of several runs has a thin line for each, and mean ± standard deviation.
    """
    runs, sets = compared(records, unknown)
    figure, panels = _panels(len(sets), "unknown inputs accepted", "known inputs accepted")
    for axes, name in zip(panels, sets, strict=True):
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle=(0, (1, 3)))  # tossing a coin
        for label, group, style in _styled(runs):
            area = over_runs([_of(one, _side(one, name).separation, score).auroc for one in group])
            for curve in (_of(one, _side(one, name).roc, score) for one in group):
                axes.plot(curve.unknown, curve.known, **style)
            axes.plot([], [], label=f"{shown(label)}  {area}", **style | {"linewidth": 1.8})
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        axes.set_title(f"against {shown(name)}", fontsize=10)
        _explain(axes, "AUROC")
    return _titled(figure, runs, "known inputs told from unknown ones")


def rejection_figure(records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None) -> Figure:
    """Accuracy of what each method keeps of known and unknown inputs together, a panel for each unknown set.

    The dashed line is the theoretical maximum: every known input right, and every unknown one rejected first. The
    legend gives the mean of the accuracy over all shares rejected.
    """
    runs, sets = compared(records, unknown)
    figure, panels = _panels(len(sets), "share rejected", "accuracy of the rest")
    for axes, name in zip(panels, sets, strict=True):
        for label, group, style in _styled(runs):
            curves = [_of(one, _side(one, name).rejection, score) for one in group]
            for curve in curves:
                axes.plot(curve.rejected, curve.accuracy, **style)
            area = over_runs([curve.area for curve in curves])
            axes.plot([], [], label=f"{shown(label)}  {area}", **style | {"linewidth": 1.8})
        # of the numbers of inputs alone, and so the same for all
        axes.plot(curve.rejected, curve.maximum, label=f"theoretical maximum  {curve.maximum_area:.3f}", **BOUND)
        axes.set_title(f"with {shown(name)}", fontsize=10)
        _explain(axes, "mean accuracy")
    panels[0].set(xlim=(0, 1), ylim=(None, 1.01))  # of all panels, now that all lines are there
    return _titled(figure, runs, "accuracy when the least known are rejected")


def confidence_figure(records: Records, unknown: str | Sequence[str] | None = None) -> Figure:
    """How confident each method is of known and of unknown inputs, a panel for each method; shares are means of runs.

    Confidence is what the method says itself: the largest probability, and for DUQ the largest kernel.
    """
    runs, sets = compared(records, unknown)
    figure, panels = _panels(len(runs), "confidence", "share of inputs\n(square-root scale)", height=2.4)
    for axes, (label, group) in zip(panels, runs.items(), strict=True):
        found = [one.confidence for one in group if one.confidence and {"known", *sets} <= set(one.confidence.counts)]
        if len(found) < len(group):
            raise _older(group[0], "distribution of confidence")
        shares = [np.mean([_shares(one.counts[side]) for one in found], axis=0) for side in ("known", *sets)]
        draw_shares(axes, found[0].edges, list(zip((group[0].known.name, *sets), shares, strict=True)))
        # a network that is sure of nearly all it sees would leave everything else too flat to be seen
        axes.set_yscale("function", functions=(_root, np.square))
        axes.yaxis.set_major_locator(FixedLocator((0, 0.01, 0.05, 0.1, 0.2, 0.5, 1)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlim(0, 1)
        axes.set_title(shown(label), fontsize=10)
    panels[0].set_ylim(bottom=0)  # of all panels
    legend_below(figure, *panels[0].get_legend_handles_labels(), size=9)
    return _titled(figure, runs, "how confident of known and of unknown inputs")


def comparison_table(
    records: Records, unknown: str | Sequence[str] | None = None, score: str | None = None
) -> RenderableType:
    """A table for each unknown set with a row for each method, mean ± standard deviation of its runs."""
    runs, sets = compared(records, unknown)
    parts: list[RenderableType] = [_table(runs, name, score) for name in sets]
    judged = {label: score or group[0].score for label, group in runs.items()}
    notes = [f"Judged by: {', '.join(f'{label} by {name}' for label, name in judged.items())}.", CONVENTIONS]
    if any(len(group) > 1 for group in runs.values()):
        notes.append("±: standard deviation over runs.")
    return Group(*parts, Text("\n".join(notes), style="dim"))


def _table(runs: Runs, name: str, score: str | None) -> Table:
    first = next(iter(runs.values()))[0]
    known, side = first.known, _side(first, name)
    table = new_table(f"{known.name} against {name}: {known.inputs} known, {side.inputs} unknown inputs")
    table.padding = (0, 1, 0, 0)
    table.add_column("method", min_width=8, overflow="fold")
    table.add_column("runs", justify="right")
    for column in ("accu-\nracy", "MMC\nknown", "MMC un-\nknown", "AUROC", "AUPR\nIn", "AUPR\nOut", "FPR95"):
        table.add_column(column, **FIGURES)
    for label, group in runs.items():
        sides = [_side(one, name) for one in group]
        found = [_of(one, side.separation, score) for one, side in zip(group, sides, strict=True)]
        aurocs = [one.auroc for one in found]
        table.add_row(
            Text(label), str(len(group)),
            over_runs([one.known.accuracy for one in group], share=True),
            over_runs([one.known.mmc for one in group], share=True),
            over_runs([side.mmc for side in sides], share=True),
            Text(over_runs(aurocs), style=auroc_colour(_mean(aurocs))),
            over_runs([one.aupr_in for one in found]),
            over_runs([one.aupr_out for one in found]),
            over_runs([one.fpr95 for one in found], share=True),
        )  # fmt: skip
    return table


def over_runs(values: Sequence[float | None], share: bool = False) -> str:
    """A figure, with its standard deviation if there are several runs; a dash if it is undefined in any.

    >>> over_runs([0.942, 0.95]), over_runs([0.5], share=True)
    ('0.946 ±0.006', '50.0%')
    """
    mean = _mean(values)
    if mean is None:
        return "–"
    shown_mean = f"{mean:.1%}" if share else f"{mean:.3f}"
    if len(values) == 1:
        return shown_mean
    spread = stdev(value for value in values if value is not None)
    return f"{shown_mean} ±{100 * spread:.1f}" if share else f"{shown_mean} ±{spread:.3f}"


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if len(defined) == len(values) else None


def compared(records: Records, unknown: str | Sequence[str] | None = None) -> tuple[Runs, list[str]]:
    """The runs of each method, and the unknown sets to compare them on; an error if they are not of the same data."""
    if isinstance(records, Mapping):
        runs = {name: list(group) for name, group in records.items()}
    else:
        runs = _runs([records] if isinstance(records, Evaluation) else records)
    every = [one for group in runs.values() for one in group]
    if not every or not all(runs.values()):
        raise NescioError("a comparison takes one or more evaluations of each method; given: none")
    shared = [side.name for side in every[0].unknown if all(_has(one, side.name) for one in every)]
    names = [unknown] if isinstance(unknown, str) else list(dict.fromkeys(shared if unknown is None else unknown))
    for name in names:
        for one in every:
            if not _has(one, name):
                raise unknown_name(f"set in a record of {one.method}", name, [side.name for side in one.unknown])
    if not names:
        given = "; ".join(f"{one.method}: {', '.join(side.name for side in one.unknown) or 'none'}" for one in every)
        raise NescioError(f"these records have no unknown data in common ({given})")
    data = dict.fromkeys(_data(one, names) for one in every)
    if len(data) > 1:
        raise NescioError(f"records on different data cannot be compared: {'; '.join(data)}")
    return runs, names


def _runs(records: Sequence[Evaluation]) -> Runs:
    """Records by method, in the order they came; a method judged by scores of several detectors is several."""
    pairs = list(dict.fromkeys((one.method, one.score) for one in records))
    methods = [method for method, _ in pairs]
    return {
        method if methods.count(method) == 1 else f"{method}, {score}": [
            one for one in records if (one.method, one.score) == (method, score)
        ]
        for method, score in pairs
    }


def _data(record: Evaluation, names: Sequence[str]) -> str:
    sides = [_side(record, name) for name in names]  # an attack may fail on more inputs of one model than of another
    sizes = ", ".join(f"{side.attack.tried if side.attack else side.inputs} of {side.name}" for side in sides)
    return f"{record.known.inputs} inputs of {record.known.name} with {sizes}"


def _has(record: Evaluation, name: str) -> bool:
    return any(side.name == name for side in record.unknown)


def _side(record: Evaluation, name: str) -> UnknownSide:
    return next(side for side in record.unknown if side.name == name)


def _of(record: Evaluation, all_scores: Sequence[OfScore], score: str | None) -> OfScore:
    """What a record says of one score: of its own, unless another is named."""
    if not all_scores:
        raise _older(record, "ROC curve")
    found = {one.score: one for one in all_scores}
    name = score or record.score
    if name not in found:
        raise unknown_name(f"score in a record of {record.method}", name, found)
    return found[name]


def _older(record: Evaluation, what: str) -> NescioError:
    return NescioError(f"a record of {record.method} has no {what}: it was written before nescio kept them; "
                       "evaluate the model again")  # fmt: skip


def _root(values: Any) -> Any:
    return np.sqrt(np.maximum(values, 0))  # matplotlib also asks for what is below the axis


def _shares(counts: Sequence[int]) -> Any:
    return np.array(counts) / max(1, sum(counts))


def _styled(runs: Runs) -> Iterator[tuple[str, list[Evaluation], dict[str, Any]]]:
    """Each method with the look of its lines: a colour and, for those who see none, dashes of its own."""
    for i, (label, group) in enumerate(runs.items()):
        width = 1.8 if len(group) == 1 else 0.9
        yield label, group, {"color": LINES[i % 6], "linestyle": DASHES[i % 5], "linewidth": width}


def _panels(count: int, across: str, up: str, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    columns, rows = min(ACROSS, count), math.ceil(count / ACROSS)
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
    """A legend where it hides least; its letters are small enough for the longest name, or the panel would shrink."""
    widest = max(text_width(label, 9) for label in axes.get_legend_handles_labels()[1])
    size = 9 * min(1.0, (PANEL - 1.2) / widest)
    axes.legend(
        title=figures, fontsize=size, title_fontsize=size, alignment="left",
        facecolor="white", edgecolor="none", framealpha=0.85,
    )  # fmt: skip


def _titled(figure: Figure, runs: Runs, what: str) -> Figure:
    known = shown(next(iter(runs.values()))[0].known.name)
    fits = text_width(f"{known}: {what}", 12) < figure.get_figwidth() - 0.2
    figure.suptitle(f"{known}: {what}" if fits else f"{known}:\n{what}", x=0.01, ha="left", fontsize=12)
    return figure
