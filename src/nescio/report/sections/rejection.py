"""How right a model is on what it keeps, when it may say that it does not know."""

from markupsafe import Markup

from nescio.records import Evaluation, Rejection
from nescio.report.figures import rejections
from nescio.report.markup import apart, figure, percentage, table
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs

COLUMNS = ("model", "data", "judged by", "area", "theoretical maximum", "reached, %")
WORDS = (
    "The inputs that look least known are rejected first. What is kept should be answered ever more rightly; an "
    "unknown input that is kept always counts as wrong.",
    "Dashed is the theoretical maximum: a model that is right on all known inputs, and rejects every unknown one "
    "before them.",
)


def section(given: ReportContext) -> Section | None:
    """Curves of each evaluation, and a table of the areas under them."""
    found = [(name, record) for name, record in given.told_apart(Evaluation) if _curves(record)]
    if not found:
        return None
    parts = [paragraphs(WORDS)]
    for name, record in found[:DRAWN]:
        alt = "; ".join(
            f"{data}: {curve.area:.3f} of {curve.maximum_area:.3f}"
            for data, curve in _curves(record)
        )
        drawn = figure(
            rejections(record),
            f"Accuracy of what is kept, by the share rejected. Areas under the curves: {alt}.",
        )
        parts.append(apart(name, drawn, len(found)))
    parts.append(left_out(len(found), "evaluations are"))
    rows = [
        (
            name,
            data,
            curve.score,
            curve.area,
            curve.maximum_area,
            percentage(curve.area / curve.maximum_area),
        )
        for name, record in found
        for data, curve in _curves(record)
    ]
    parts.append(table(COLUMNS, rows, "Area under each rejection curve"))
    return Section("rejection", "When it may reject", Markup("").join(parts))


def _curves(record: Evaluation) -> list[tuple[str, Rejection]]:
    """By the model's own score, on known data and with each unknown set; none if the record lacks any of them."""
    sides = [
        (record.known.name, record.known.rejection),
        *((f"with {side.name}", side.rejection) for side in record.unknown),
    ]
    if not all(curves for _, curves in sides):
        return []
    return [
        (name, next((one for one in curves if one.score == record.score), curves[0]))
        for name, curves in sides
    ]
