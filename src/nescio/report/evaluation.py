"""Evaluations: tables, figures, and the page's parts on unknown inputs and selective prediction."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.text import Text

from nescio.errors import check_name
from nescio.records import Evaluation, Rejection
from nescio.report.calibration import known_table
from nescio.report.figures import (
    COLOURS,
    draw_histograms,
    line_style,
    one_panel,
    plot_text,
    with_legend,
)
from nescio.report.html import MAX_DRAWN, details, figure, model_part, not_drawn, paragraphs, terms
from nescio.report.records import ReportContext
from nescio.report.runs import failed_attacks, own
from nescio.report.table import Cell, Percent, Table, auroc_cell, join
from nescio.report.words import METRICS, definitions, describe_attack, listed

TERMS = ("score", "mean confidence", "AUROC", "AUPR-In, AUPR-Out", "FPR95")
SELECTIVE = (
    "The inputs most likely unknown are rejected first; the accuracy on the rest should rise. An "
    "unknown input that is not rejected counts as an error.",
    "Dashed: the theoretical maximum of a model that is correct on all known inputs and rejects "
    "every unknown one before them.",
)


def evaluation_tables(record: Evaluation) -> RenderableType:
    """Return known data, unknown sets by the method's own score, and AUROC by every score."""
    known = record.known
    title = f"{record.method} on {known.name}: {known.inputs} inputs, {record.classes} classes"
    table = known_table([("", record)])
    table = table.without("model", "method", "known data", "inputs", "classes")
    parts: list[RenderableType] = [replace(table, title=title)]
    if record.unknown:
        first = own(record.unknown[0].separation, record.score)
        title = f"known against unknown, by {record.score if first is None else first.score}"
        parts.append(replace(unknown_table([("", record)]).without("model", "score"), title=title))
        if len(record.unknown[0].separation) > 1:
            parts.append(scores_table(record))
        attacks = (f"{set_name}: {how}" for set_name, how in _attacks(record))
        parts.append(Text("\n".join([*definitions(*TERMS), *attacks]), style="dim"))
    for name, tried in failed_attacks(record).items():
        parts.append(Text(f"{name}: none of {tried} attacks succeeded, so it is empty."))
    return Group(*parts)


def unknown_table(records: Sequence[tuple[str, Evaluation]]) -> Table:
    """Return each unknown set of each model by its own score."""
    columns = ("model", "unknown data", "inputs", "score", "mean confidence", "AUROC", "AUPR-In")
    rows: list[list[Cell]] = []
    for name, record in records:
        for side in record.unknown:
            row: list[Cell] = [name, side.name, side.inputs]
            if (result := own(side.separation, record.score)) is None:
                rows.append([*row, None, Percent(side.mmc), *[None] * 4])
            else:
                aupr = result.aupr_in, result.aupr_out
                metrics = (auroc_cell(result.auroc), *aupr, Percent(result.fpr95))
                rows.append([*row, result.score, Percent(side.mmc), *metrics])
    return Table("Known against unknown inputs", (*columns, "AUPR-Out", "FPR95"), rows)


def scores_table(record: Evaluation) -> Table:
    """Return the AUROC of every score on every unknown set."""
    columns = ("score", *(side.name for side in record.unknown), "correct/wrong")
    rows: list[list[Cell]] = []
    for result in record.known.misclassification:
        aurocs = ({each.score: each.auroc for each in side.separation} for side in record.unknown)
        rows.append([result.score, *(auroc_cell(each.get(result.score)) for each in aurocs)])
        rows[-1].append(auroc_cell(result.auroc))
    return Table("AUROC of every score", columns, rows)


def _attacks(record: Evaluation) -> list[tuple[str, str]]:
    """Return how each adversarial set was made and, where not all inputs are in it, why."""
    attacks = []
    for side in record.unknown:
        if attack := side.attack:
            part = "" if side.inputs == attack.tried else f"; {side.inputs} were then misclassified"
            how = f"{describe_attack(attack)}, tried on {attack.tried} inputs{part}."
            attacks.append((side.name, how))
    return attacks


def histogram_figure(record: Evaluation, score: str | None = None) -> Figure:
    """Draw how a score is distributed on known data and on each unknown set."""
    score = score or record.score
    histograms = {histogram.score: histogram for histogram in record.histograms}
    check_name("score of this record", score, histograms)
    title, xlabel = f"{plot_text(record.method)}: {plot_text(score)} on each set", plot_text(score)
    xlabel += "  (higher = more likely unknown)"
    figure, axes = one_panel(title, xlabel, "fraction of inputs")
    counts, names = histograms[score].counts, {"known": record.known.name}
    sets = [(names.get(name, name), np.array(n) / max(1, sum(n))) for name, n in counts.items()]
    draw_histograms(axes, histograms[score].edges, sets)
    return with_legend(figure, axes)


def roc_curves_figure(record: Evaluation, score: str | None = None) -> Figure:
    """Draw the fractions of unknown and known inputs accepted, a curve for each unknown set."""
    score = score or record.score
    title = f"{plot_text(record.method)}: known against unknown, by {plot_text(score)}"
    figure, axes = one_panel(title, "unknown inputs accepted", "known inputs accepted")
    axes.plot([0, 1], [0, 1], color="0.55", linewidth=1, linestyle=":")
    # the first colour and dashes are those of known data, which is no curve here
    for number, side in enumerate(record.unknown, start=1):
        if (curve := own(side.roc, score)) is None:
            continue
        auroc = next((s.auroc for s in side.separation if s.score == curve.score), None)
        label = plot_text(side.name) + ("" if auroc is None else f": AUROC {auroc:.3f}")
        axes.plot(curve.unknown, curve.known, linewidth=1.8, label=label, **line_style(number))
    axes.set(xlim=(-0.01, 1), ylim=(0, 1.02))
    return with_legend(figure, axes)


def rejection_curves_figure(record: Evaluation, score: str | None = None) -> Figure:
    """Draw the accuracy on what is accepted as inputs are rejected, the maximum dashed."""
    title = f"{plot_text(record.method)}: accuracy when unknown-looking inputs are rejected"
    figure, axes = one_panel(title, "fraction rejected", "selective accuracy")
    for i, (lead, name, curve) in enumerate(_curves(record, score or record.score)):
        if curve is not None:
            colour, label = COLOURS[i % len(COLOURS)], f"{lead}{plot_text(name)}"
            axes.plot(curve.rejected, curve.accuracy, color=colour, label=label, linewidth=1.8)
            if i:
                axes.plot(curve.rejected, curve.maximum, color=colour, linewidth=1, linestyle="--")
    axes.set(xlim=(0, 1), ylim=(None, 1.01))
    return with_legend(figure, axes)


def unknown_html(context: ReportContext) -> Markup:
    """Return one table for all models, its terms, and figures of each evaluation."""
    evaluations = [(name, record) for name, record in context.unique(Evaluation) if record.unknown]
    if not evaluations:
        return Markup("")
    models_of: dict[tuple[str, str], list[str]] = {}
    for name, record in evaluations:
        for set_and_how in _attacks(record):
            models_of.setdefault(set_and_how, []).append(name)
    parts = [unknown_table(evaluations).html(), terms((name, METRICS[name]) for name in TERMS)]
    by_set = ((name, how, _models(models)) for (name, how), models in models_of.items())
    parts.append(paragraphs(f"{name} was generated for {m}: {how}" for name, how, m in by_set))
    for name, record in evaluations[:MAX_DRAWN]:
        parts.append(model_part(name, _drawn(name, record), len(evaluations)))
    return join([*parts, not_drawn(len(evaluations), "evaluations are")])


def _models(names: Sequence[str]) -> str:
    several = listed(names) if len(names) <= MAX_DRAWN else f"{len(names)} models"
    return several if len(names) == 1 else f"each of {several} separately"


def _drawn(name: str, record: Evaluation) -> Markup:
    parts, sets = [], ", ".join(side.name for side in record.unknown)
    if any(histogram.score == record.score for histogram in record.histograms):
        alt = f"Histograms of {record.score} on {record.known.name} and on {sets}."
        caption = "The less a set overlaps with known data, the better the score separates them."
        parts.append(figure(histogram_figure(record), alt, caption))
    if all(side.roc for side in record.unknown):
        aurocs = ", ".join(
            f"{side.name} {result.auroc:.3f}"
            for side in record.unknown
            if (result := own(side.separation, record.score)) and result.auroc is not None
        )
        alt = f"ROC curves of {record.score}; AUROC: {aurocs}."
        caption = (
            "Each point is a threshold: the unknown and the known inputs it accepts. Best is the "
            "upper left corner; the dotted line is chance."
        )
        parts.append(figure(roc_curves_figure(record), alt, caption))
    if len(record.known.misclassification) > 1:
        parts.append(details(f"AUROC of every score of {name}", scores_table(record).html()))
    return join(parts)


def rejection_html(context: ReportContext) -> Markup:
    """Return rejection curves of each evaluation, and a table of the areas under them."""
    evaluations = []
    for name, record in context.unique(Evaluation):
        drawn = _curves(record, record.score)
        curves = [(f"{lead}{data}", curve) for lead, data, curve in drawn if curve is not None]
        if len(curves) == len(drawn):
            evaluations.append((name, record, curves))
    if not evaluations:
        return Markup("")
    parts = [paragraphs(SELECTIVE)]
    for name, record, curves in evaluations[:MAX_DRAWN]:
        areas = (f"{data}: {curve.area:.3f} of {curve.maximum_area:.3f}" for data, curve in curves)
        alt = f"Selective accuracy by the fraction rejected. Areas: {'; '.join(areas)}."
        inside = figure(rejection_curves_figure(record), alt)
        parts.append(model_part(name, inside, len(evaluations)))
    rows: list[list[Cell]] = [
        [name, data, c.score, c.area, c.maximum_area, Percent(c.area / c.maximum_area)]
        for name, _, curves in evaluations
        for data, c in curves
    ]
    columns = ("model", "data", "score", "area", "theoretical maximum", "reached")
    table = Table("Area under each rejection curve", columns, rows)
    return join([*parts, not_drawn(len(evaluations), "evaluations are"), table.html()])


def _curves(record: Evaluation, score: str) -> list[tuple[str, str, Rejection | None]]:
    """Return the curve of known data, and "with " each unknown set, if the record has them."""
    unknown = [("with ", side.name, own(side.rejection, score)) for side in record.unknown]
    return [("", record.known.name, own(record.known.rejection, score)), *unknown]
