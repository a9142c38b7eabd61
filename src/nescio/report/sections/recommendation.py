"""Which detector suits a model, found without unknown data."""

from markupsafe import Markup

from nescio.records import Recommendation
from nescio.report.markup import heading, items, seconds, table
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.sentences import recommended

NOTE = (
    "Outliers were made from known inputs that no detector was fitted on. AUROC: chance that one scores above a "
    "known input, ties half. Seconds to fit and to score, without the model’s own time."
)


def section(given: ReportContext) -> Section | None:
    """A table for each recommendation, the best detector first."""
    found = given.told_apart(Recommendation)
    if not found:
        return None
    parts = []
    for name, record in found:
        kinds = list(record.ranking[0].auroc)
        rows = [
            (
                one.name,
                one.mean,
                one.worst,
                *(one.auroc.get(kind) for kind in kinds),
                seconds(one.seconds),
            )
            for one in record.ranking
        ]
        columns = ("detector", "mean AUROC", "worst AUROC", *kinds, "seconds")
        parts += [heading(name)] if len(found) > 1 else []
        parts += [
            paragraphs(recommended(record)),
            table(columns, rows, f"Ranked by {record.criterion}: {record.inputs} inputs each"),
        ]
        parts.append(items([f"{left} left out: {why}" for left, why in record.skipped.items()]))
    parts.append(paragraphs([NOTE]))
    return Section("recommendation", "The detector that suits it", Markup("").join(parts))
