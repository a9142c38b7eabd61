"""Accuracy and calibration on known data, and what a temperature changes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.metrics.percent import percent
from nescio.records import Evaluation, Reliability, Temperature
from nescio.report.figures import MARKERS, Style, despine, line_style, plot_text, with_legend
from nescio.report.html import MAX_DRAWN, figure, not_drawn, terms
from nescio.report.records import ReportContext
from nescio.report.runs import own_auroc
from nescio.report.table import Cell, Percent, Table, join
from nescio.report.words import METRICS

MIN_BIN_INPUTS = 10  # below which a bin's accuracy is mostly chance
MAX_MODELS = 24  # in the figure of accuracy and mean confidence
TERMS = ("accuracy", "mean confidence", "ECE", "NLL, Brier", "AUROC correct/wrong")
GAP = (
    "Of a calibrated model both marks are in one place; confidence to the right of accuracy is "
    "overconfidence, to the left underconfidence."
)
WARNING = (
    "Measured on calibration data. No temperature helps far away: there a ReLU network becomes "
    "certain at any temperature. To recognise unknown inputs use a detector."
)


def known_table(records: Sequence[tuple[str, Evaluation]]) -> Table:
    """Return accuracy and calibration of each model on its known data."""
    columns = ("model", "method", "known data", "inputs", "classes", "accuracy", "mean confidence")
    rows: list[list[Cell]] = []
    for name, record in records:
        known = record.known
        row: list[Cell] = [name, record.method, known.name, known.inputs, record.classes]
        row += [Percent(known.accuracy), Percent(known.mmc), Percent(known.ece)]
        rows.append([*row, known.nll, known.brier, own_auroc(record, known.misclassification)])
    return Table("", (*columns, "ECE", "NLL", "Brier", "AUROC correct/wrong"), rows)


def temperature_table(records: Sequence[tuple[str, Temperature]]) -> Table:
    """Return likelihood and calibration before and after each temperature."""
    columns = ("model", "inputs", "temperature", "accuracy", "NLL before", "NLL after")
    rows: list[list[Cell]] = []
    for name, record in records:
        row: list[Cell] = [name, record.inputs, record.temperature, Percent(record.accuracy)]
        ece = map(Percent, (record.ece_before, record.ece_after))
        row += [record.nll_before, record.nll_after, *ece]
        rows.append(row)
    return Table("Temperature scaling", (*columns, "ECE before", "ECE after"), rows, [WARNING])


def reliability_figure(
    records: Evaluation | Sequence[Evaluation], names: Sequence[str] | None = None
) -> Figure:
    """Draw accuracy against confidence bin by bin, with the fraction of inputs in each bin below.

    Args:
        records: one or more, of which those without bins are ignored.
        names: what to call each, by default its method.
    """
    records = [records] if isinstance(records, Evaluation) else list(records)
    labels = [record.method for record in records] if names is None else list(names)
    if len(labels) != len(records):
        raise NescioError(f"names={names!r}; expected one for each of {len(records)} records")
    labelled_bins = [
        (f"{plot_text(label)}: ECE {percent(record.known.ece)}", record.known.reliability)
        for label, record in zip(labels, records, strict=True)
        if record.known.reliability is not None
    ]
    if not labelled_bins:
        raise NescioError("a reliability diagram needs evaluations with bins of confidence")
    figure = Figure(figsize=(5.6, 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    diagonal: Style = {"color": "0.5", "linewidth": 1, "linestyle": "--"}
    above.plot([0, 1], [0, 1], label="perfectly calibrated", **diagonal)
    for i, (label, bins) in enumerate(labelled_bins):
        _draw_bins(above, below, bins, label, i, gaps=len(labelled_bins) == 1)
    above.set(xlim=(0, 1), ylim=(-0.02, 1.02), ylabel="accuracy", aspect="auto")
    below.set(ylim=(0, None), xlabel="confidence", ylabel="fraction of inputs")
    despine(above, below)
    return with_legend(figure, above)


def _draw_bins(
    above: Axes, below: Axes, bins: Reliability, label: str, number: int, gaps: bool
) -> None:
    """Draw one model, with `gaps` also the distance of each bin from the diagonal.

    Bins of few inputs, where one input moves the accuracy by a tenth or more, are faint marks.
    """
    line = line_style(number)
    colour = line["color"]
    columns = zip(bins.confidence, bins.accuracy, bins.counts, strict=True)
    x, y, inputs = np.array([column for column in columns if None not in column], float).T
    marker: Style = {"marker": MARKERS[number % 5], "markersize": 5, "clip_on": False}
    firm = inputs >= MIN_BIN_INPUTS
    if not firm.all():
        faint: Style = {"linestyle": "none", "markerfacecolor": "none", "alpha": 0.5}
        above.plot(x[~firm], y[~firm], color=colour, **faint, **marker)
    if gaps:
        above.vlines(x[firm], x[firm], y[firm], color=colour, linewidth=5, alpha=0.25)
    above.plot(x[firm], y[firm], linewidth=1.6, label=label, **line, **marker)
    fractions = np.array(bins.counts) / max(1, sum(bins.counts))
    below.stairs(fractions, bins.edges, linewidth=1.5, fill=False, **line)
    below.stairs(fractions, bins.edges, color=colour, alpha=0.25, fill=True)


def confidence_gap_figure(records: Sequence[tuple[str, Evaluation]]) -> Figure:
    """Draw accuracy and mean confidence of each model as two marks on one line."""
    figure = Figure(figsize=(7, 1.5 + 0.36 * len(records)), layout="constrained")
    axes = figure.subplots()
    for y, (_, record) in enumerate(records):
        both = [record.known.accuracy, record.known.mmc]
        axes.plot(both, [y, y], color="0.6", linewidth=2, zorder=1)
        for i, label in enumerate(("accuracy", "mean confidence")):
            style: Style = {"color": line_style(i)["color"], "label": None if y else label}
            axes.plot([both[i]], [y], "oD"[i], markersize=8, **style)
    axes.set_yticks(range(len(records)), [plot_text(name) for name, _ in records])
    axes.set_ylim(len(records) - 0.5, -0.5)  # the first on top
    values = [value for _, record in records for value in (record.known.accuracy, record.known.mmc)]
    # at least five percentage points around, so that a small gap looks small
    axes.set_xlim(max(-0.01, min(values) - 0.05), min(1.01, max(values) + 0.05))
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %" if -1e-9 < x < 1 + 1e-9 else "")
    axes.set_xlabel("accuracy, or mean confidence, on known inputs")
    despine(axes)
    return with_legend(figure, axes)


def calibration_html(context: ReportContext) -> Markup:
    """Return a table of all evaluations, reliability diagrams, and what temperatures changed."""
    evaluations, parts = context.unique(Evaluation), []
    if evaluations:
        parts.append(_distinct_columns(evaluations).html())
        parts.append(terms((name, METRICS[name]) for name in TERMS))
    for data in dict.fromkeys(record.known.name for _, record in evaluations):
        of_data = [(name, record) for name, record in evaluations if record.known.name == data]
        if binned := [(name, r) for name, r in of_data if r.known.reliability is not None]:
            parts += [_reliability(data, binned[:MAX_DRAWN]), not_drawn(len(binned), "models are")]
    if len(evaluations) > 1:
        values = []
        for name, record in evaluations[:MAX_MODELS]:
            accuracy, mean = percent(record.known.accuracy), percent(record.known.mmc)
            values.append(f"{name}: accuracy {accuracy}, confidence {mean}")
        alt = f"Accuracy and mean confidence. {'; '.join(values)}."
        parts.append(figure(confidence_gap_figure(evaluations[:MAX_MODELS]), alt, GAP))
    if scaled := context.unique(Temperature):
        parts.append(temperature_table(scaled).html())
    return join(parts)


def _reliability(data: str, binned: Sequence[tuple[str, Evaluation]]) -> Markup:
    names, records = zip(*binned, strict=True)
    gaps = "; ".join(f"{name}: {percent(record.known.ece)}" for name, record in binned)
    alt = f"Accuracy against confidence on {data}. Mean gap (ECE): {gaps}."
    caption = f"{data}: on the diagonal confidence is perfectly calibrated, below it overconfident,"
    caption += f" above it underconfident. Faint: bins of fewer than {MIN_BIN_INPUTS} inputs."
    return figure(reliability_figure(records, names), alt, caption)


def _distinct_columns(evaluations: Sequence[tuple[str, Evaluation]]) -> Table:
    """Return all evaluations, without columns that all have in common or that names tell."""
    same_data = len({record.known.name for _, record in evaluations}) == 1
    same_name = all(name.rpartition("/")[2] == record.method for name, record in evaluations)
    table = known_table(evaluations).without(*["method"] * same_name, *["known data"] * same_data)
    title = f"On {evaluations[0][1].known.name}" if same_data else "On known inputs"
    return replace(table, title=title)
