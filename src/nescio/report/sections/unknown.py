"""How a model takes inputs that it should not know: distributions of its score, ROC curves, a table."""

from markupsafe import Markup

from nescio.records import Evaluation
from nescio.report.figures import histograms, rocs
from nescio.report.markup import Cell, apart, figure, more, percentage, table, terms
from nescio.report.own import own
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs
from nescio.report.sentences import listed
from nescio.report.tables import attack_in_words

COLUMNS = (
    "model",
    "unknown data",
    "inputs",
    "judged by",
    "mean confidence, %",
    "AUROC",
    "AUPR-In",
    "AUPR-Out",
    "FPR95, %",
)
TERMS = (
    ("score", "A number that a model gives each input: larger = less known."),
    (
        "mean confidence",
        "How sure the model says it is of these inputs, on average (MMC). Smaller is better.",
    ),
    (
        "AUROC",
        "Chance that an unknown input scores above a known one, ties half. 0.5 is a coin, 1 the best.",
    ),
    (
        "AUPR-In, -Out",
        "Average precision, in steps, with known inputs (In) or unknown ones (Out) as those to be found; "
        "it depends on how many there are of each. 1 is the best.",
    ),
    (
        "FPR95",
        "Share of unknown inputs accepted when 95 % of known ones are accepted; the threshold is an observed "
        "score, without interpolation. Smaller is better. Other figures in use have the same name.",
    ),
)


def section(given: ReportContext) -> Section | None:
    """One table for all, the terms beside it in words, and figures of each evaluation."""
    found = [(name, record) for name, record in given.told_apart(Evaluation) if record.unknown]
    if not found:
        return None
    rows = [row for name, record in found for row in _rows(name, record)]
    parts = [
        table(COLUMNS, rows, "Known against unknown inputs, by each model’s own score"),
        terms(TERMS),
        _attacks(found),
    ]
    for name, record in found[:DRAWN]:
        parts.append(apart(name, _drawn(name, record), len(found)))
    parts.append(left_out(len(found), "evaluations are"))
    return Section("unknown", "Known against unknown", Markup("").join(parts))


def _rows(name: str, record: Evaluation) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for side in record.unknown:
        one = own(side.separation, record.score)
        figures: tuple[Cell, ...] = (
            (None,) * 4
            if one is None
            else (one.auroc, one.aupr_in, one.aupr_out, percentage(one.fpr95))
        )
        rows.append(
            (
                name,
                side.name,
                side.inputs,
                one.score if one else None,
                percentage(side.mmc),
                *figures,
            )
        )
    return rows


def _attacks(found: list[tuple[str, Evaluation]]) -> Markup:
    """How sets were made that an attack made; alike ones of several models are told of once."""
    made: dict[tuple[str, str], list[str]] = {}
    for name, record in found:
        for side in record.unknown:
            if side.attack is not None:
                kept = (
                    ""
                    if side.inputs == side.attack.tried
                    else f"; {side.inputs} ended in a wrong class, and are judged"
                )
                how = f"{attack_in_words(side.attack)}, tried on {side.attack.tried} inputs{kept}."
                made.setdefault((side.name, how), []).append(name)
    return paragraphs(
        [
            f"{called} was made for {f'{names[0]} itself' if len(names) == 1 else _each(names)}: {how}"
            for (called, how), names in made.items()
        ]
    )


def _each(names: list[str]) -> str:
    return (
        f"each of {listed(names)} by itself"
        if len(names) <= DRAWN
        else f"each of {len(names)} models by itself"
    )


def _drawn(name: str, record: Evaluation) -> Markup:
    parts = []
    sets = ", ".join(side.name for side in record.unknown)
    if any(one.score == record.score for one in record.histograms):
        parts.append(
            figure(
                histograms(record),
                f"Histograms of {record.score} on {record.known.name} and on {sets}.",
                "The less a set overlaps with known data, the better it is told apart.",
            )
        )
    if all(side.roc for side in record.unknown):
        aurocs = ", ".join(
            f"{side.name} {one.auroc:.3f}"
            for side in record.unknown
            if (one := own(side.separation, record.score)) and one.auroc is not None
        )
        parts.append(
            figure(
                rocs(record),
                f"ROC curves of {record.score}; AUROC: {aurocs}.",
                "Each point is a threshold: how many unknown inputs it accepts, and how many known ones. The best goes "
                "through the upper left corner; the dotted line is a coin.",
            )
        )
    if len(record.known.misclassification) > 1:
        parts.append(more(f"AUROC of every score of {name}", _by_score(record)))
    return Markup("").join(parts)


def _by_score(record: Evaluation) -> Markup:
    rows = []
    for one in record.known.misclassification:
        cells = [
            next((found.auroc for found in side.separation if found.score == one.score), None)
            for side in record.unknown
        ]
        rows.append((one.score, *cells, one.auroc))
    return table(
        ("score", *(side.name for side in record.unknown), "right/wrong"),
        rows,
        "AUROC of every score",
    )
