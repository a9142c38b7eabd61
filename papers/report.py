"""The HTML report of records of the papers: nescio's, with sections of their own."""

from collections.abc import Sequence

from markupsafe import Markup

from nescio.report import SECTIONS, ReportContext, Section, heading, items, join, paragraphs
from papers.duq.measured import measured_html
from papers.duq.timings import timings_html
from papers.gradient_uncertainty.separations import separations_html
from papers.pages import claims_table, deviations_table, number, numbers_table
from papers.pages import heading as heading_of
from papers.relu_overconfidence.radius import radius_html
from papers.reproduction import Comparison, Reproduction


def reproductions_html(context: ReportContext) -> Markup:
    """Return how near we came, then each experiment: numbers, claims, settings and remarks."""
    records = [record for _, record in context.of(Reproduction)]
    summary = [sentence for record in records for sentence in reproduced(record)]
    return join([items(summary) if summary else "", *map(_experiment, records)])


def _experiment(record: Reproduction) -> Markup:
    runs = "1 run" if record.seeds == 1 else f"{record.seeds} runs"
    tables = [
        numbers_table(record, "The paper’s numbers and ours"),
        claims_table(record, "What the paper says"),
        deviations_table(record, "What is not as in the paper"),
    ]
    parts = [
        heading(heading_of(record)),
        paragraphs([f"Scale: {record.scale}, {runs}, {record.provenance.seconds:.0f} s."]),
        Markup("<p><code>{}</code></p>").format(record.command),
        *(table.html() for table in tables if table.rows),
    ]
    return join([*parts, items(record.remarks) if record.remarks else ""])


def reproduced(record: Reproduction) -> list[str]:
    """Return how near a paper's figures and claims ours came, in sentences."""
    sentences, what = [], f"{record.item} of paper {record.paper}"
    beside = sum(one.paper is not None for one in record.compared)
    if beside:
        sentences.append(
            f"{what} ({record.title}): {beside} figures stand beside the paper’s; "
            f"{farthest(record.compared)}."
        )
    if record.claims:
        verdicts = [claim.holds for claim in record.claims]
        unclear = f"; of {verdicts.count(None)} they cannot tell" if None in verdicts else ""
        holding = f"{verdicts.count(True)} of {len(verdicts)} claims hold in our runs"
        sentences.append(f"{what}: {holding}{unclear}.")
    return sentences


def farthest(compared: Sequence[Comparison]) -> str:
    """Return which figure is farthest from the paper's, for each unit.

    >>> farthest([Comparison("error", 1.0, 1.5, unit="%"), Comparison("mmc", 99.0, 98.9, unit="%")])
    'the farthest apart, by 0.50 percentage points, is “error”'
    """
    apart: dict[str, list[tuple[float, str]]] = {}
    for one in compared:
        if one.paper is not None:
            apart.setdefault(one.unit, []).append((abs(one.ours - one.paper), one.what))
    parts = []
    for unit, distances in apart.items():
        far, what = max(distances, key=lambda pair: pair[0])
        those = f"of those {f'in {unit}' if unit else 'without a unit'}, " if len(apart) > 1 else ""
        shown = f"{number(far, unit)} {'percentage points' if unit == '%' else unit}".rstrip()
        parts.append(f"{those}the farthest apart, by {shown}, is “{what}”")
    return "; ".join(parts)


# the paper's numbers first, then what nescio shows of any record; provenance is last
ALL_SECTIONS = (
    Section("reproductions", "The papers’ results, made again", (reproductions_html,)),
    *SECTIONS[:-1],
    Section("radius", "How far is far enough", (radius_html,)),
    Section("separations", "Scores against sets", (separations_html,)),
    Section("measured", "Other measurements", (measured_html,)),
    Section("timings", "How long it takes", (timings_html,)),
    SECTIONS[-1],
)
