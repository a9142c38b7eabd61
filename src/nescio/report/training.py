"""How a model was trained, and how a setting was chosen: words, tables, figures, page part."""

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from nescio.metrics.percent import percent
from nescio.records import History, Selection, Trial
from nescio.report.figures import (
    COLOURS,
    Style,
    annotate,
    despine,
    plot_text,
    title_left,
    with_legend,
)
from nescio.report.html import MAX_DRAWN, figure, heading, not_drawn, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Percent, Styled, Table, join, seconds_cell

SETTINGS = {"length_scale": "length scale σ", "gradient_penalty": "gradient penalty λ"}
CHOSEN, FAILED = COLOURS[2], COLOURS[1]
PER_SEED = {"accuracy": "accuracies", "auroc": "aurocs"}
LABEL_WIDTH = 0.4  # inches along the axis
Positions = dict[float, float]  # on an axis, by the value there


def selection_words(record: Selection) -> str:
    """Return what was chosen and why; few wrong answers are weak evidence, so they are counted."""
    wrong = (1 - (record.chosen.accuracy or 0.0)) * record.inputs
    best = f"{_value(record.chosen, record.measure)}, the best {record.criterion}"
    counts = f"{record.inputs} inputs, {wrong:.0f} of them misclassified"
    return f"{record.setting} {record.value:g} chosen: {best} ({counts})"


def selection_table(record: Selection) -> Table:
    """Return a row for each value tried; the chosen one stands out."""
    rows, styles = [], {}
    for i, trial in enumerate(record.trials):
        remark = f"failed: {trial.failed}" if trial.failed is not None else ""
        if not remark and getattr(trial, record.measure) is None:
            remark = "undefined: no wrong answer, or no correct one"
        chosen = trial.value == record.value
        auroc = None if trial.auroc is None else Styled(f"{trial.auroc:.4f}", trial.auroc)
        value = Styled(f"{trial.value:g}", trial.value)
        row: list[Cell] = [value, Percent(trial.accuracy), auroc, seconds_cell(trial.seconds)]
        rows.append([*row, "chosen" if chosen else remark])
        styles[i] = "bold green" if chosen else "red" if trial.failed else ""
    title = f"{record.method}: {record.setting} by {record.criterion}"
    columns = (record.setting, "accuracy", "AUROC", "seconds", "remark")
    table = Table(title, columns, rows, row_styles=styles)
    return table.without("AUROC") if record.measure == "accuracy" else table


def _value(trial: Trial, measure: str) -> str:
    if measure == "accuracy":
        return str(Percent(trial.accuracy))
    return "–" if trial.auroc is None else f"{trial.auroc:.4f}"


def selection_figure(record: Selection) -> Figure:
    """Draw the criterion over the values tried, the chosen one marked, and accuracy above it."""
    measures = ["accuracy"] if record.measure == "accuracy" else ["accuracy", "auroc"]
    figure = Figure(figsize=(7, 1.9 + 1.9 * len(measures)), layout="constrained")
    panels = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
    positions = _positions([trial.value for trial in record.trials])
    for axes, measure in zip(panels, measures, strict=True):
        _draw_trials(record, measure, axes, positions)
    name = SETTINGS.get(record.setting, plot_text(record.setting))
    _label_values(panels[-1], record, positions, figure.get_figwidth())
    panels[-1].set_xlabel(name)
    title_left(figure, f"{plot_text(record.method)}: {name} = {record.value:g}", 12)
    seeds = max(len(trial.accuracies) for trial in record.trials)
    count = f"{record.inputs} inputs" + (f", {seeds} seeds" if seeds > 1 else "")
    reason = textwrap.fill(f"chosen by the {record.criterion} ({count})", 90).replace("$", r"\$")
    panels[0].set_title(reason, loc="left", fontsize=9, color="0.35")
    return figure


def _positions(values: Sequence[float]) -> Positions:
    """Return positions on a log axis; 0, which has none, is to the left of all others."""
    positions = {value: math.log10(value) for value in values if value > 0}
    if 0.0 in values:
        low, high = (bound(positions.values(), default=0.0) for bound in (min, max))
        positions[0.0] = low - max(0.3, 0.2 * (high - low))
    return positions


def _draw_trials(record: Selection, measure: str, axes: Axes, positions: Positions) -> None:
    """Draw means as a line, seeds as points, the chosen value marked, crosses for failures."""
    colour = COLOURS[0] if measure == record.measure else "0.5"
    for trial in record.trials:
        x = positions[trial.value]
        seeds = [value for value in getattr(trial, PER_SEED[measure]) if value is not None]
        if getattr(trial, measure) is None:
            foot: Any = axes.get_xaxis_transform()
            axes.plot(x, 0.05, "x", color=FAILED, transform=foot)
            style: Style = {"ha": "center", "fontsize": 8, "color": FAILED}
            word = "undefined" if trial.failed is None else "failed"
            annotate(axes, word, (x, 0.05), (0, 6), xycoords=foot, **style)
        elif len(seeds) > 1:
            axes.plot([x] * len(seeds), seeds, ".", color=colour, alpha=0.4, markeredgewidth=0)
    means = [(positions[t.value], getattr(t, measure), t.value) for t in record.trials]
    means = [(x, y, value) for x, y, value in means if y is not None]
    for (x, y, value), (next_x, next_y, _) in itertools.pairwise(means):
        dashes = ":" if value == 0 else "-"  # from 0 the axis is not to scale
        axes.plot([x, next_x], [y, next_y], dashes, color=colour, linewidth=1.8)
    axes.plot([x for x, _, _ in means], [y for _, y, _ in means], "o", color=colour, markersize=5)
    chosen, best = positions[record.value], getattr(record.chosen, measure)
    axes.axvline(chosen, color=CHOSEN, linewidth=6, alpha=0.25, zorder=0)
    axes.plot(chosen, best, "o", color=CHOSEN, markersize=9, zorder=5)
    style = {"fontsize": 9, "color": CHOSEN, "weight": "bold"}
    annotate(axes, _value(record.chosen, measure), (chosen, best), (9, 5), **style)
    axes.set_ylabel("accuracy" if measure == "accuracy" else "AUROC")
    if measure == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.margins(x=0.06, y=0.15)
    despine(axes)


def _label_values(axes: Axes, record: Selection, positions: Positions, width: float) -> None:
    """Set a tick for each value; labels that would overlap are left out, never the chosen one."""
    low, high = axes.get_xlim()
    room = LABEL_WIDTH * (high - low) / width
    labels = {positions[record.value]: f"{record.value:g}"}
    for value, position in sorted(positions.items()):
        if all(abs(position - other) >= room for other in labels):
            labels[position] = f"{value:g}"
    ticks = sorted(positions.values())
    axes.set_xticks(ticks, [labels.get(position, "") for position in ticks])


def history_figure(record: History, name: str) -> Figure:
    """Draw loss and accuracy epoch by epoch, on training and, dashed, on validation data."""
    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    panels = figure.subplots(1, 2)
    epochs = [epoch.epoch for epoch in record.epochs]
    for axes, metric in zip(panels, ("loss", "accuracy"), strict=True):
        style: Style = {"marker": "o" if len(epochs) == 1 else None, "linewidth": 1.8}
        values = [getattr(epoch, metric) for epoch in record.epochs]
        axes.plot(epochs, values, color=COLOURS[0], label="training", **style)
        validation = [getattr(epoch, f"validation_{metric}") for epoch in record.epochs]
        if None not in validation:
            style |= {"linestyle": "--", "label": "validation"}
            axes.plot(epochs, validation, color=COLOURS[1], **style)
        if record.best_epoch is not None:
            dotted: Style = {"color": "0.5", "linewidth": 1, "linestyle": ":"}
            axes.axvline(record.best_epoch, label="best epoch", **dotted)
        axes.set(xlabel="epoch", ylabel=metric)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    despine(*panels)
    if len(panels[0].get_legend_handles_labels()[1]) > 1:
        with_legend(figure, panels[0])
    title_left(figure, f"{plot_text(name)}: training")
    return figure


def history_table(records: Sequence[tuple[str, History]]) -> Table:
    """Return the training runs, without columns that are empty for all."""
    rows: list[list[Cell]] = []
    for name, record in records:
        last = record.epochs[-1]
        row: list[Cell] = [name, record.method, len(record.epochs), record.steps, last.loss]
        row += [Percent(last.accuracy), Percent(last.validation_accuracy), record.best_epoch]
        ended = "early" if record.stopped_early else "as planned"
        rows.append([*row, ended, seconds_cell(record.provenance.seconds)])
    columns = ("model", "method", "epochs", "steps", "last loss", "accuracy", "validation accuracy")
    table = Table("Training runs", (*columns, "best epoch", "ended", "seconds"), rows)
    missing = (None, Percent(None))
    empty = [all(cell in missing for cell in column) for column in zip(*rows, strict=True)]
    return table.without(*itertools.compress(table.columns, empty))


def training_html(context: ReportContext) -> Markup:
    """Return loss and accuracy epoch by epoch, and what settings were tried."""
    parts = []
    if histories := [(name, h) for name, h in context.unique(History) if h.epochs]:
        parts.append(history_table(histories).html())
        for name, record in histories[:MAX_DRAWN]:
            first, last = record.epochs[0], record.epochs[-1]
            loss = f"loss from {first.loss:.3g} to {last.loss:.3g}"
            accuracy = f"accuracy from {percent(first.accuracy)} to {percent(last.accuracy)}"
            alt = f"{name}: over {len(record.epochs)} epochs, {loss}, {accuracy}."
            parts.append(figure(history_figure(record, name), alt))
        parts.append(not_drawn(len(histories), "runs are"))
    for name, selection in context.unique(Selection):
        words = f"{selection_words(selection)}."
        parts += [heading(f"{name}: {selection.setting}"), paragraphs([words])]
        parts += [figure(selection_figure(selection), words), selection_table(selection).html()]
    return join(parts)
