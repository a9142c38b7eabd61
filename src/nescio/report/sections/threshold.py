"""Which threshold, what it promises, and what the promise was worth on test data."""

from markupsafe import Markup

from nescio.metrics.percent import percent
from nescio.records import Decision, Fitted, Recommendation
from nescio.report.decision import decision_figure, decision_words, threshold_words
from nescio.report.markup import Cell, apart, figure, heading, percentage, table
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.sentences import detector_of, recommended


def section(given: ReportContext) -> Section | None:
    """Recommendations, fitted detectors, and what detectors decided."""
    parts = [_recommended(name, record) for name, record in given.told_apart(Recommendation)]
    decisions = given.told_apart(Decision)
    told = {name for name, _ in decisions}  # by these what is promised, and what is not
    parts += [_fitted(name, record, name in told) for name, record in given.told_apart(Fitted)]
    if len(decisions) > 1:
        parts.append(_side_by_side(decisions))
    parts += [_decided(name, record, len(decisions)) for name, record in decisions]
    return (
        Section("threshold", "Which threshold, and what it promises", Markup("").join(parts))
        if parts
        else None
    )


def _recommended(name: str, record: Recommendation) -> Markup:
    return heading(f"{name}: a detector that was recommended") + paragraphs(recommended(record))


def _fitted(name: str, record: Fitted, told: bool) -> Markup:
    words = [
        threshold_words(
            detector_of(record), record.thresholds, f"{record.inputs:,} inputs of {record.data}"
        )
    ]
    if record.taught is not None:
        words.append(f"It learned from {record.taught}.")
    if not told:
        words += [f"Promised: {record.promise}."] if record.promise else []
        words.append(f"{record.uncovered}.")
    parts = [Markup("<h3>{}: a detector that was fitted</h3>").format(name), paragraphs(words)]
    if len(record.thresholds) > 1:
        rows: list[list[Cell]] = [
            list(pair) for pair in zip(record.classes, record.thresholds, strict=False)
        ]
        parts.append(
            table(
                ["class", "threshold"],
                rows,
                "Inputs of a class are refused above its threshold.",
                4,
            )
        )
    return Markup("").join(parts)


def _side_by_side(decisions: list[tuple[str, Decision]]) -> Markup:
    sets = list(dict.fromkeys(one.name for _, record in decisions for one in record.unknown))
    columns = [
        "model",
        "detector",
        "promised, %",
        "guaranteed, %",
        "known accepted, %",
        "right of accepted, %",
    ]
    rows: list[list[Cell]] = []
    for name, record in decisions:
        refused = {one.name: percentage(one.refused) for one in record.unknown}
        shares = map(
            percentage, (record.accept, record.bound, record.accepted, record.accepted_accuracy)
        )
        rows.append([name, record.detector, *shares, *(refused.get(one) for one in sets)])
    return table(
        [*columns, *(f"{one} refused, %" for one in sets)],
        rows,
        "Detectors side by side on test data.",
        1,
    )


def _decided(name: str, record: Decision, of: int) -> Markup:
    alt = f"Bars: share accepted of {record.known} {percent(record.accepted)}" + "".join(
        f", of {one.name} {percent(1 - one.refused)}" for one in record.unknown
    )
    inside = paragraphs(decision_words(record)) + figure(decision_figure(record), alt)
    title = f"{name}: what it was worth on test data"
    return apart(title, inside, of) if of > 1 else heading(title) + inside
