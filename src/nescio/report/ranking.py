"""Detectors compared on one model, with or without unknown data: words, tables, page parts."""

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup
from rich.console import Group, RenderableType

from nescio.metrics.percent import percent
from nescio.records import Contest, Recommendation
from nescio.records.detector import UNCOVERED
from nescio.report.html import heading, items, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Percent, Table, auroc_cell, join, seconds_cell
from nescio.report.words import definitions, describe_set, listed

BEST = {0: "bold"}  # the first row


def ranking_words(record: Contest) -> list[str]:
    """Return which detector was best on the unknown data."""
    best = record.contestants[0]
    sets = listed([describe_set(name) for name in record.unknown])
    count = len(record.contestants)
    return [f"Of {count} detectors, {best.name} is best on {sets}: mean AUROC {best.mean:.3f}."]


def ranking_table(record: Contest) -> Table:
    """Return AUROC and FPR95 of each detector on each set, the best mean first, and its cost."""
    aurocs, costs = _columns(record)
    rows: list[list[Cell]] = []
    for contestant in record.contestants:
        row: list[Cell] = [contestant.name, auroc_cell(contestant.mean)]
        row += [auroc_cell(contestant.auroc[name]) for name in record.unknown]
        row += [Percent(contestant.fpr95[name]) for name in record.unknown]
        times = contestant.fit_seconds, contestant.seconds_per_1000
        rows.append([*row, *map(seconds_cell, times)])
    title = f"Detectors on {record.method}: {record.known} known inputs against unknown sets"
    model = f"{record.model_seconds_per_1000:.3g} s per 1000 inputs"
    notes = [f"{name} skipped: {why}" for name, why in record.skipped.items()]
    notes += [*definitions("AUROC", "FPR95"), f"Times include the model's own, {model}."]
    return Table(title, ("detector", *aurocs, *costs), rows, notes, row_styles=BEST)


def _columns(record: Contest) -> tuple[list[str], list[str]]:
    aurocs = ["mean AUROC", *(f"AUROC: {name}" for name in record.unknown)]
    return aurocs, [*(f"FPR95: {name}" for name in record.unknown), "fit, s", "s per 1000"]


def ranking_tables(record: Contest) -> RenderableType:
    """Return the ranking for a terminal: AUROC first, FPR95 and cost in a table of their own."""
    table, (aurocs, costs) = ranking_table(record), _columns(record)
    others = replace(table.without(*aurocs), title="FPR95, and time needed")
    return Group(replace(table.without(*costs), notes=()), others)


def recommendation_words(record: Recommendation) -> list[str]:
    """Return which detector suits the model, and what its threshold guarantees.

    >>> found = nescio.recommend(net, known.test, candidates=["energy"])
    >>> print(recommendation_words(found.record)[0].partition(" (")[0])
    Recommended: energy
    """
    best = next((r for r in record.ranking if r.name == record.detector), record.ranking[0])
    hardest = min(best.auroc, key=best.auroc.__getitem__)
    why = f"{record.criterion} {best.mean:.3f}, best of {len(record.ranking)} detectors"
    worst = f"{best.worst:.3f} on “{hardest}”, its hardest"
    words = [f"Recommended: {record.detector} ({why}; {worst})."]
    accept = record.provenance.settings.get("accept")
    if isinstance(accept, float):
        words.append(
            f"Its threshold was set by {record.calibrated} known inputs. Guarantee (exchangeable "
            f"inputs): a new known input is accepted with probability at least {accept:g}."
        )
        rejected = (f"{name} {percent(value)}" for name, value in (best.refused or {}).items())
        outliers = f"; of these outliers it rejects: {', '.join(rejected)}" if best.refused else ""
        words.append(f"{UNCOVERED}{outliers}.")
    return words


def recommendation_table(record: Recommendation) -> Table:
    """Return AUROC of each detector on synthetic outliers, the best first.

    >>> found = nescio.recommend(net, known.test, candidates=["energy", "max_prob"])
    >>> recommendation_table(found.record).columns[:2]
    ('detector', 'mean AUROC')
    """
    kinds = list(record.ranking[0].auroc)
    rows: list[list[Cell]] = []
    for ranked in record.ranking:
        row: list[Cell] = [ranked.name, auroc_cell(ranked.mean), auroc_cell(ranked.worst)]
        row += [auroc_cell(ranked.auroc.get(kind)) for kind in kinds]
        rows.append([*row, seconds_cell(ranked.seconds)])
    columns = ("detector", "mean AUROC", "worst AUROC", *kinds, "seconds")
    best = record.ranking[0].mean
    title = f"Recommended: {record.detector} ({record.criterion} {best:.3f})"
    title += f"; {record.inputs} inputs each"
    notes = [f"{name} skipped: {why}" for name, why in record.skipped.items()]
    notes += [
        f"Outliers are made from known inputs that no detector was fitted on: {', '.join(kinds)}.",
        *definitions("AUROC"),
        "Seconds to fit and to score, without the model's own time.",
    ]
    return Table(title, columns, rows, notes, row_styles=BEST)


def ranking_html(context: ReportContext) -> Markup:
    """Return the words and table of each ranking on unknown data."""
    records = context.unique(Contest)
    return _html([(n, ranking_words(record), ranking_table(record)) for n, record in records])


def recommendation_html(context: ReportContext) -> Markup:
    """Return the words and table of each recommendation."""
    records = context.unique(Recommendation)
    return _html([(n, recommendation_words(r), recommendation_table(r)) for n, r in records])


def _html(rankings: Sequence[tuple[str, list[str], Table]]) -> Markup:
    parts = []
    for name, words, table in rankings:
        parts += [heading(name)] if len(rankings) > 1 else []
        parts += [paragraphs(words), replace(table, notes=()).html(), items(table.notes)]
    return join(parts)
