"""How a setting was chosen, as a table and as a figure."""

import math
import textwrap
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.table import Table
from rich.text import Text

from nescio.records import Selection, Trial
from nescio.report.figures import COLOURS, shown
from nescio.report.tables import FIGURES, new_table, share

NAMES = {"length_scale": "length scale σ", "gradient_penalty": "weight λ of the gradient penalty"}
LINE, CHOSEN, BAD = COLOURS[0], COLOURS[2], COLOURS[1]
SEEDS = {"accuracy": "accuracies", "auroc": "aurocs"}
ROOM = 0.4  # inches that the label of a value takes along the axis


def verdict(record: Selection) -> str:
    """What was chosen and why, in one line; few wrong answers are a weak ground, so they are counted."""
    best, wrong = (
        _figure(record.chosen, record.measure),
        (1 - (record.chosen.accuracy or 0.0)) * record.inputs,
    )
    return (
        f"{record.setting} {record.value:g} chosen: {best}, the best {record.criterion} ({record.inputs} inputs, "
        f"{wrong:.0f} of them answered wrongly)"
    )


def selection_table(record: Selection) -> Table:
    """A row for each value tried; the chosen one stands out."""
    table = new_table(f"{record.method}: {record.setting} by {record.criterion}")
    measures = _measures(record)
    for name in (record.setting, *measures, "seconds"):
        table.add_column(name.replace("auroc", "AUROC"), **FIGURES)
    table.add_column("", overflow="fold")
    for trial in record.trials:
        figures = [_figure(trial, measure) for measure in measures]
        style = "bold green" if trial.value == record.value else "red" if trial.failed else ""
        table.add_row(
            f"{trial.value:g}",
            *figures,
            f"{trial.seconds:.1f}",
            Text(_remark(record, trial)),
            style=style,
        )
    return table


def _measures(record: Selection) -> list[str]:
    return ["accuracy"] if record.measure == "accuracy" else ["accuracy", "auroc"]


def _figure(trial: Trial, measure: str) -> str:
    if measure == "accuracy":
        return share(trial.accuracy)
    return "–" if trial.auroc is None else f"{trial.auroc:.4f}"


def _remark(record: Selection, trial: Trial) -> str:
    if trial.value == record.value:
        return "chosen"
    if trial.failed is not None:
        return f"failed: {trial.failed}"
    return (
        "undefined: no wrong answer, or no right one"
        if getattr(trial, record.measure) is None
        else ""
    )


def selection_figure(record: Selection) -> Figure:
    """What decided, over the values tried, with the chosen one marked; accuracy above it, if that did not decide."""
    measures = _measures(record)
    figure = Figure(figsize=(7, 1.9 + 1.9 * len(measures)), layout="constrained")
    rows = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
    places = _places([trial.value for trial in record.trials])
    for axes, measure in zip(rows, measures, strict=True):
        _draw(record, measure, axes, places)
    name = NAMES.get(record.setting, shown(record.setting))
    _label_values(rows[-1], record, places, figure.get_figwidth())
    rows[-1].set_xlabel(name)
    figure.suptitle(
        f"{shown(record.method)}: {name} = {record.value:g}", x=0.01, ha="left", fontsize=12
    )
    seeds = max(len(trial.accuracies) for trial in record.trials)
    count = f"{record.inputs} inputs" + (f", {seeds} seeds" if seeds > 1 else "")
    reason = textwrap.fill(f"chosen by the {record.criterion} ({count})", 90).replace("$", r"\$")
    rows[0].set_title(reason, loc="left", fontsize=9, color="0.35")
    return figure


def _places(values: list[float]) -> dict[float, float]:
    """Where values stand along a log axis; 0, which has no place on it, stands to the left of all others."""
    places = {value: math.log10(value) for value in values if value > 0}
    if 0.0 in values:
        reach = max(places.values(), default=0.0) - min(places.values(), default=0.0)
        places[0.0] = min(places.values(), default=0.0) - max(0.3, 0.2 * reach)
    return places


def _draw(record: Selection, measure: str, axes: Axes, places: dict[float, float]) -> None:
    """One figure of the trials: means as a line, seeds as points, the chosen marked, a cross where there is none."""
    colour = LINE if measure == record.measure else "0.5"
    for trial in record.trials:
        seeds = [one for one in getattr(trial, SEEDS[measure]) if one is not None]
        if getattr(trial, measure) is None:
            _cross(axes, places[trial.value], "undefined" if trial.failed is None else "failed")
        elif len(seeds) > 1:
            axes.plot(
                [places[trial.value]] * len(seeds),
                seeds,
                ".",
                color=colour,
                alpha=0.4,
                markeredgewidth=0,
            )
    means = [(places[one.value], getattr(one, measure), one) for one in record.trials]
    sound = [(x, y, one) for x, y, one in means if y is not None]
    for (x, y, one), (next_x, next_y, _) in pairwise(sound):
        style = ":" if one.value == 0 else "-"  # from 0 on the axis is not to scale
        axes.plot([x, next_x], [y, next_y], style, color=colour, linewidth=1.8)
    axes.plot([x for x, _, _ in sound], [y for _, y, _ in sound], "o", color=colour, markersize=5)
    axes.axvline(places[record.value], color=CHOSEN, linewidth=6, alpha=0.25, zorder=0)
    best = getattr(record.chosen, measure)
    axes.plot(places[record.value], best, "o", color=CHOSEN, markersize=9, zorder=5)
    axes.annotate(
        _figure(record.chosen, measure),
        (places[record.value], best),
        (9, 5),
        textcoords="offset points",
        fontsize=9,
        color=CHOSEN,
        weight="bold",
    )
    axes.set_ylabel("accuracy" if measure == "accuracy" else "AUROC")
    if measure == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.margins(x=0.06, y=0.15)
    axes.spines[["top", "right"]].set_visible(False)


def _cross(axes: Axes, x: float, word: str) -> None:
    """A trial without a figure, at the foot of the axes."""
    foot = axes.get_xaxis_transform()
    axes.plot(x, 0.05, "x", color=BAD, transform=foot)
    axes.annotate(
        word,
        (x, 0.05),
        (0, 6),
        xycoords=foot,
        textcoords="offset points",
        ha="center",
        fontsize=8,
        color=BAD,
    )


def _label_values(axes: Axes, record: Selection, places: dict[float, float], width: float) -> None:
    """Every value has a tick; labels that would run into the one before are left out, but never that of the chosen."""
    low, high = axes.get_xlim()
    room = ROOM * (high - low) / width
    labels: dict[float, str] = {places[record.value]: f"{record.value:g}"}
    for value, place in sorted(places.items()):
        if all(abs(place - other) >= room for other in labels):
            labels[place] = f"{value:g}"
    axes.set_xticks(
        sorted(places.values()), [labels.get(place, "") for place in sorted(places.values())]
    )
