"""How often a model is right, and how often it says so."""

from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import Evaluation, Temperature
from nescio.report.figures import calibration
from nescio.report.markup import Cell, figure, percentage, table, terms
from nescio.report.reliability import FEW, reliability_figure
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs
from nescio.report.temperature import WARNING

COLUMNS = (
    "model",
    "method",
    "known data",
    "inputs",
    "classes",
    "accuracy, %",
    "mean confidence, %",
    "ECE, %",
    "NLL",
    "Brier",
    "AUROC right/wrong",
)
HEATED = (
    "model",
    "inputs",
    "temperature",
    "accuracy, %",
    "NLL before",
    "NLL after",
    "ECE before, %",
    "ECE after, %",
)
MOST = 24  # models in the figure
TERMS = (
    ("accuracy", "Share of known inputs given their own class."),
    (
        "mean confidence",
        "How sure the model says it is of its answers, on average (MMC). Near the accuracy is good.",
    ),
    (
        "ECE",
        "By how much confidence and accuracy differ, on average over 15 bins of confidence. Smaller is better.",
    ),
    (
        "NLL, Brier",
        "How far the probabilities are from the truth; Brier is from 0 to 2. Smaller is better.",
    ),
    (
        "AUROC right/wrong",
        "Chance that a wrong answer looks less certain than a right one, ties half. 0.5 is a coin, 1 "
        "the best; a dash where nothing was wrong.",
    ),
)


def section(given: ReportContext) -> Section | None:
    """A table of all evaluations, with the gap between confidence and accuracy drawn, and what temperatures did."""
    parts = []
    if found := given.told_apart(Evaluation):
        parts += [
            _table(found),
            terms(TERMS),
        ]
    for data in dict.fromkeys(record.known.name for _, record in found):
        binned = [
            (name, record)
            for name, record in found
            if record.known.name == data and record.known.reliability is not None
        ]
        parts += (
            [_reliability(data, binned[:DRAWN]), left_out(len(binned), "models are")]
            if binned
            else []
        )
    if len(found) > 1:
        drawn = found[:MOST]
        alt = "; ".join(
            f"{name}: right {percent(one.known.accuracy)}, sure {percent(one.known.mmc)}"
            for name, one in drawn
        )
        parts.append(
            figure(
                calibration(drawn),
                f"Accuracy beside mean confidence. {alt}.",
                "A model whose confidence is right has both marks in one place. To the right of accuracy "
                "it is too sure of itself, to the left too modest.",
            )
        )
    if heated := given.told_apart(Temperature):
        rows = [
            (
                name,
                record.inputs,
                record.temperature,
                percentage(record.accuracy),
                record.nll_before,
                record.nll_after,
                percentage(record.ece_before),
                percentage(record.ece_after),
            )
            for name, record in heated
        ]
        parts += [
            table(HEATED, rows, "Temperatures, and what they set right"),
            paragraphs([WARNING]),
        ]
    return (
        Section("accuracy", "Accuracy and calibration", Markup("").join(parts)) if parts else None
    )


def _reliability(data: str, binned: list[tuple[str, Evaluation]]) -> Markup:
    names, records = zip(*binned, strict=True)
    gaps = "; ".join(f"{name}: {percent(record.known.ece)}" for name, record in binned)
    return figure(
        reliability_figure(records, names),
        f"Accuracy against confidence on {data}. By how much they differ on average: {gaps}.",
        f"{data}: on the diagonal a confidence means what it says; below it a model is too sure of itself, "
        f"above it too modest. Faint marks are of fewer than {FEW} inputs each.",
    )


def _table(found: list[tuple[str, Evaluation]]) -> Markup:
    """All evaluations; what they have in common, or in their names, has no column."""
    rows = [_row(name, record) for name, record in found]
    said = {
        "method": all(name.rpartition("/")[2] == record.method for name, record in found),
        "known data": len({record.known.name for _, record in found}) == 1,
    }
    kept = [i for i, column in enumerate(COLUMNS) if not said.get(column, False)]
    on = f"On {found[0][1].known.name}" if said["known data"] else "On inputs it should know"
    return table([COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows], on)


def _row(name: str, record: Evaluation) -> tuple[Cell, ...]:
    known = record.known
    wrong = next((one.auroc for one in known.misclassification if one.score == record.score), None)
    return (
        name,
        record.method,
        known.name,
        known.inputs,
        record.classes,
        percentage(known.accuracy),
        percentage(known.mmc),
        percentage(known.ece),
        known.nll,
        known.brier,
        wrong,
    )
