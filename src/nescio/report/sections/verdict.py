"""The verdict, in plain words: what is known, what is made of the unknown, what happens far away, which threshold."""

from collections.abc import Iterable

from markupsafe import Markup

from nescio.records import (
    Audit,
    Contest,
    Decision,
    Evaluation,
    FeatureAudit,
    Fitted,
    Recommendation,
    Scaling,
)
from nescio.report import sentences
from nescio.report.decision import decision_words
from nescio.report.markup import apart, heading, items, level_within
from nescio.report.section import ReportContext, Section, paragraphs
from nescio.report.standings import rivals, standings

WITHOUT = (
    "These records hold no threshold. The command “nescio recommend” finds a detector that suits the model, and "
    "settles its threshold."
)


def section(given: ReportContext) -> Section | None:
    """Of all models given, who is best at what; then of each what a person should know before relying on it."""
    names = list(dict.fromkeys(name for name, _ in given.records))
    cards = {name: made for name in names if (made := _cards(given, name))}
    parts = []
    if best := standings(given):
        lead = [
            (heading(data) if len(best) > 1 else Markup("")) + items(told)
            for data, told in best.items()
        ]
        parts.append(Markup("<div class=lead>{}</div>").format(Markup("").join(lead)))
    level = level_within(len(cards))
    for name, made in cards.items():
        inside = Markup("").join(
            Markup("<div class=card>{}{}</div>").format(heading(title, level), paragraphs(told))
            for title, told in made.items()
        )
        parts.append(apart(name, Markup("<div class=cards>{}</div>").format(inside), len(cards)))
    return Section("verdict", "In plain words", Markup("").join(parts)) if parts else None


def _cards(given: ReportContext, name: str) -> dict[str, list[str]]:
    """What is to be said of one model, by question; questions that no record answers are left out."""
    own = ReportContext(tuple(pair for pair in given.records if pair[0] == name))
    runs = [group[name] for group in rivals(own)]
    answers = {
        "What it knows": _all(sentences.knows(one) for one in runs),
        "What it makes of unknown inputs": _all(sentences.meets_unknown(one) for one in runs),
        "What it does far away": [
            *_all(sentences.far_away(record) for _, record in own.of(Audit)),
            *_all(sentences.moved(record) for _, record in own.of(FeatureAudit)),
            *_all(sentences.scaled(record) for _, record in own.of(Scaling)),
        ],
        "Which threshold to use": [
            *_detectors(own),
            *_all(decision_words(record) for _, record in own.of(Decision)),
            *_all(sentences.contested(record) for _, record in own.of(Contest)),
        ],
    }
    if own.of(Evaluation) and not any(map(own.of, (Fitted, Recommendation, Decision))):
        answers["Which threshold to use"].append(WITHOUT)
    return {title: told for title, told in answers.items() if told}


def _detectors(own: ReportContext) -> list[str]:
    """Which detector to use: the one that is recommended, if there is one, and what others there are."""
    best = [record for _, record in own.of(Recommendation)]
    beside = best[0].detector if best else None
    chosen = {(record.detector, record.calibrated) for record in best}
    others = [
        one for _, one in own.of(Fitted) if (sentences.detector_of(one), one.inputs) not in chosen
    ]
    return [
        *_all(map(sentences.recommended, best)),
        *_all(sentences.fitted(one, beside) for one in others),
    ]


def _all(found: Iterable[list[str]]) -> list[str]:
    """All sentences, each once."""
    return list(dict.fromkeys(one for told in found for one in told))
