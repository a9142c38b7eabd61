"""Detectors against each other, on unknown data."""

from markupsafe import Markup

from nescio.records import Contest
from nescio.report.markup import Cell, heading, items, percentage, seconds, table
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.sentences import contested

NOTE = (
    "AUROC: chance that an unknown input scores above a known one, ties half. FPR95: share of unknown inputs "
    "accepted when 95 % of known inputs are accepted. Times are with the model’s own."
)


def section(given: ReportContext) -> Section | None:
    """A table for each contest, the best detector first."""
    found = given.told_apart(Contest)
    if not found:
        return None
    parts = []
    for name, record in found:
        parts += [heading(name)] if len(found) > 1 else []
        parts += [paragraphs(contested(record)), _table(record)]
        parts.append(items([f"{left} left out: {why}" for left, why in record.skipped.items()]))
        parts.append(
            paragraphs([f"{NOTE} The model alone: {record.model_seconds_per_1000:.3g} s per 1000."])
        )
    return Section("contest", "Detectors against each other", Markup("").join(parts))


def _table(record: Contest) -> Markup:
    sets = list(record.unknown)
    columns = [
        "detector",
        "mean AUROC",
        *(f"AUROC: {name}" for name in sets),
        *(f"FPR95: {name}, %" for name in sets),
        "fit, s",
        "s per 1000",
    ]
    rows: list[list[Cell]] = [
        [
            one.name,
            one.mean,
            *(one.auroc[name] for name in sets),
            *(percentage(one.fpr95[name]) for name in sets),
            seconds(one.fit_seconds),
            seconds(one.seconds_per_1000),
        ]
        for one in record.contestants
    ]
    return table(
        columns, rows, f"Detectors on {record.method}: {record.known} known inputs against others"
    )
