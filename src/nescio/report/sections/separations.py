"""Many scores against many sets, over splits of the data: a paper's tables."""

from statistics import fmean, stdev

from markupsafe import Markup

from nescio.records import Separations
from nescio.report.markup import Shown, figure, more, table
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.separations import MEASURES, violin_figure
from nescio.report.separations import heading as told


def section(given: ReportContext) -> Section | None:
    """A table of AUROC, in per cent, for each record, others on demand, and how scores are spread."""
    found = given.told_apart(Separations)
    if not found:
        return None
    parts = []
    for name, record in found:
        parts.append(paragraphs([f"{name}: {told(record)}"]))
        for measure, title in MEASURES.items():
            made = _table(record, measure, title)
            parts.append(made if measure == "auroc" else more(title, made))
        if record.spreads:
            scores = ", ".join(spread.score for spread in record.spreads)
            parts.append(figure(violin_figure(record), f"How {scores} are spread on each set."))
    return Section("separations", "Scores against sets", Markup("").join(parts))


def _table(record: Separations, measure: str, title: str) -> Markup:
    sets = list(dict.fromkeys(name for row in record.rows for name in row.against))
    rows = [
        (
            row.name,
            row.group,
            *(
                _cell(getattr(row.against[name], measure)) if name in row.against else None
                for name in sets
            ),
        )
        for row in record.rows
    ]
    return table(
        ("score", "group", *sets),
        rows,
        f"{title}, %: right answers against each set, mean ± standard deviation",
    )


def _cell(values: tuple[float, ...]) -> Shown:
    spread = f" ±{100 * stdev(values):.2f}" if len(values) > 1 else ""
    return Shown(f"{100 * fmean(values):.2f}{spread}", fmean(values))
