"""How a model was trained, and how settings were found."""

from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import History, Selection
from nescio.report.figures import training
from nescio.report.markup import Cell, figure, heading, percentage, seconds, table
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs
from nescio.report.selection import selection_figure
from nescio.report.selection import verdict as chosen

COLUMNS = (
    "model",
    "method",
    "epochs",
    "steps",
    "last loss",
    "accuracy, %",
    "validation accuracy, %",
    "best epoch",
    "ended",
    "seconds",
)
TRIED = ("value", "accuracy, %", "AUROC", "seconds", "remark")


def section(given: ReportContext) -> Section | None:
    """Loss and accuracy epoch by epoch, and what was tried before."""
    parts = []
    if found := [(name, record) for name, record in given.told_apart(History) if record.epochs]:
        rows = [_row(name, record) for name, record in found]
        said = [i for i in range(len(COLUMNS)) if any(row[i] is not None for row in rows)]
        parts.append(
            table(
                [COLUMNS[i] for i in said],
                [[row[i] for i in said] for row in rows],
                "Training runs",
            )
        )
        for name, record in found[:DRAWN]:
            first, last = record.epochs[0], record.epochs[-1]
            alt = (
                f"{name}: loss and accuracy over {len(record.epochs)} epochs, from {first.loss:.3g} to "
                f"{last.loss:.3g} and from {percent(first.accuracy)} to {percent(last.accuracy)}."
            )
            parts.append(figure(training(record, name), alt))
        parts.append(left_out(len(found), "runs are"))
    for name, one in given.told_apart(Selection):
        tried = [
            (
                trial.value,
                percentage(trial.accuracy),
                trial.auroc,
                seconds(trial.seconds),
                trial.failed or ("chosen" if trial.value == one.value else ""),
            )
            for trial in one.trials
        ]
        words = chosen(one)
        parts += [
            heading(f"{name}: {one.setting}"),
            paragraphs([f"{words}."]),
            figure(selection_figure(one), f"{words}."),
            table(TRIED, tried, f"Values of {one.setting} tried, by {one.criterion}"),
        ]
    return Section("history", "Training", Markup("").join(parts)) if parts else None


def _row(name: str, record: History) -> tuple[Cell, ...]:
    last = record.epochs[-1]
    return (
        name,
        record.method,
        len(record.epochs),
        record.steps,
        last.loss,
        percentage(last.accuracy),
        percentage(last.validation_accuracy),
        record.best_epoch,
        "early" if record.stopped_early else "as planned",
        seconds(record.provenance.seconds),
    )
