"""The page's summary: which model is best at what, and what each knows, in plain sentences."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from nescio.metrics.percent import percent
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
from nescio.report.audit import MAJORITY, audit_words, far_away_words
from nescio.report.comparison import by_known_data
from nescio.report.decision import decision_words, detector_name, fitted_words
from nescio.report.feature_audit import feature_words
from nescio.report.html import heading, items, level_within, model_part, paragraphs
from nescio.report.ranking import ranking_words, recommendation_words
from nescio.report.records import ReportContext
from nescio.report.runs import Runs, failed_attacks, own, own_auroc, side_of
from nescio.report.scaling import scaling_words
from nescio.report.table import join, mean
from nescio.report.words import describe_set, listed

GOOD_ECE, FAIR_ECE = 0.02, 0.05
EXCELLENT, GOOD, FAIR, POOR = 0.99, 0.9, 0.7, 0.55  # AUROC
MIN_ERRORS = 10  # wrong answers, below which nothing is concluded from them
NO_THRESHOLD = (
    "These records hold no threshold. The command “nescio recommend” finds a detector for the "
    "model and sets its threshold."
)


def verdict_html(context: ReportContext) -> Markup:
    """Return which model is best at what, then what to know about each before relying on it."""
    names = dict.fromkeys(name for name, _ in context.records)
    cards = {name: answers for name in names if (answers := _answers(context, name))}
    parts = []
    if best := standings(context):
        titles = map(heading, best) if len(best) > 1 else [Markup("")]
        lead = (title + items(best[data]) for title, data in zip(titles, best, strict=True))
        parts.append(Markup("<div class=lead>{}</div>").format(join(lead)))
    level = level_within(len(cards))
    for name, answers in cards.items():
        answered = (heading(title, level) + paragraphs(said) for title, said in answers.items())
        inside = join(Markup("<div class=card>{}</div>").format(answer) for answer in answered)
        inside = Markup("<div class=cards>{}</div>").format(inside)
        parts.append(model_part(name, inside, len(cards)))
    return join(parts)


def _answers(context: ReportContext, name: str) -> dict[str, list[str]]:
    """Return what is known of one model, by question; unanswered questions are left out."""
    own_records = ReportContext(tuple(pair for pair in context.records if pair[0] == name))
    of = own_records.of
    runs = [group[name] for group in by_known_data(own_records)]
    decisions = [decision_words(record) for _, record in of(Decision)]
    rankings = [ranking_words(record) for _, record in of(Contest)]
    threshold = _once([*_detectors(own_records), *decisions, *rankings])
    if of(Evaluation) and not any(map(of, (Fitted, Recommendation, Decision))):
        threshold.append(NO_THRESHOLD)
    far_away = [
        *([far_away_words(record), *audit_words(record)] for _, record in of(Audit)),
        *(feature_words(record) for _, record in of(FeatureAudit)),
        *(scaling_words(record) for _, record in of(Scaling)),
    ]
    answers = {
        "Known inputs": _once(map(known_words, runs)),
        "Unknown inputs": _once(map(unknown_words, runs)),
        "Far away from the data": _once(far_away),
        "Which threshold to use": threshold,
    }
    return {title: sentences for title, sentences in answers.items() if sentences}


def _detectors(context: ReportContext) -> list[list[str]]:
    """Return which detector to use: the recommended one, if any, and the other fitted ones."""
    best = [record for _, record in context.of(Recommendation)]
    chosen = {(record.detector, record.calibrated) for record in best}
    recommended = best[0].detector if best else None
    fitted = [record for _, record in context.of(Fitted)]
    others = [record for record in fitted if (detector_name(record), record.inputs) not in chosen]
    words = (fitted_words(record, recommended) for record in others)
    return [*map(recommendation_words, best), *words]


def _once(answers: Iterable[list[str]]) -> list[str]:
    """Return all sentences, each once."""
    return list(dict.fromkeys(sentence for sentences in answers for sentence in sentences))


def known_words(runs: Sequence[Evaluation]) -> list[str]:
    """Return what runs of one model do on known data."""
    known = runs[0].known
    metrics = ("accuracy", "mmc", "ece")
    means = [fmean(getattr(run.known, metric) for run in runs) for metric in metrics]
    several = f", mean of {len(runs)} runs" if len(runs) > 1 else ""
    sentences = [
        f"Accuracy on {known.name} ({known.inputs} inputs): {percent(means[0])}{several}.",
        f"Its mean confidence is {percent(means[1])}. {_calibration(*means)}",
    ]
    auroc = mean([own_auroc(run, run.known.misclassification) for run in runs])
    if auroc is not None:
        wrong = sum(round((1 - run.known.accuracy) * run.known.inputs) for run in runs)
        sentences.append(_misclassification(auroc, wrong))
    return sentences


def points(fraction: float) -> str:
    """Return a difference of fractions in percentage points."""
    return f"{100 * fraction:.1f} percentage points"


def _calibration(accuracy: float, confidence: float, ece: float) -> str:
    off = f"on average it differs from the accuracy by {points(ece)} (ECE)"
    if ece <= FAIR_ECE:
        return f"It is {'well' if ece <= GOOD_ECE else 'fairly'} calibrated: {off}."
    too_high, too_low = confidence - accuracy > ece / 2, accuracy - confidence > ece / 2
    way = ", mostly too high" if too_high else ", mostly too low" if too_low else ""
    return f"Do not rely on it: {off}{way}."


def _misclassification(auroc: float, wrong: int) -> str:
    often = f"than a correct one {percent(auroc)} of the time"
    if wrong < MIN_ERRORS:
        subject = "Its only wrong answer has" if wrong == 1 else f"Its {wrong} wrong answers have"
        few = "so few do not show whether confidence reveals errors"
        return f"{subject} a lower confidence {often}; {few}."
    how = "hardly" if auroc < FAIR else "often" if auroc < GOOD else "mostly"
    looks = f"one of its {wrong} wrong answers looks less certain {often}"
    return f"Its confidence {how} reveals errors: {looks}."


def unknown_words(runs: Sequence[Evaluation]) -> list[str]:
    """Return what runs of one model do on unknown inputs: the best and the worst set."""
    aurocs, failed = mean_aurocs(runs), _failed_words(runs)
    if not aurocs:
        return failed
    worst, best = min(aurocs, key=aurocs.__getitem__), max(aurocs, key=aurocs.__getitem__)
    last = _separation(worst, aurocs[worst])
    sentences = [last[0].upper() + last[1:]]
    if worst != best:
        first = "Best" if aurocs[best] >= FAIR else "Least bad"
        sentences = [f"{first}: {_separation(best, aurocs[best])}", f"Worst: {last}"]
    if len(aurocs) > 2:
        well = sum(value >= GOOD for value in aurocs.values())
        kinds = f"Of {len(aurocs)} kinds of unknown inputs"
        sentences.append(f"{kinds}, {well or 'none'} have an AUROC of at least {GOOD}.")
    sides = [side_of(run, worst) for run in runs]
    results = [own(side.separation, run.score) for run, side in zip(runs, sides, strict=True)]
    accepted = mean([None if result is None else result.fpr95 for result in results])
    confidence, usual = fmean(side.mmc for side in sides), fmean(run.known.mmc for run in runs)
    last = f"Mean confidence on {describe_set(worst)}: {percent(confidence)}"
    last += f", on known inputs {percent(usual)}"
    if accepted is not None:
        last += "; a threshold that accepts 95 % of known inputs accepts "
        last += f"{percent(accepted)} of them"
    return [*sentences, f"{last}.", *failed]


def _failed_words(runs: Sequence[Evaluation]) -> list[str]:
    """Return attacks that all failed, and in how many runs."""
    tried: dict[str, list[int]] = {}
    for run in runs:
        for name, count in failed_attacks(run).items():
            tried.setdefault(name, []).append(count)
    return [
        f"{name}: none of {sum(counts)} attacks succeeded"
        f"{f' in {len(counts)} of {len(runs)} runs' if len(counts) < len(runs) else ''}."
        for name, counts in tried.items()
    ]


def mean_aurocs(runs: Sequence[Evaluation]) -> dict[str, float]:
    """Return the mean AUROC on each unknown set that all runs have, by the model's own score."""
    aurocs = {}
    for side in runs[0].unknown:
        if all(side.name in [other.name for other in run.unknown] for run in runs):
            each = [own_auroc(run, side_of(run, side.name).separation) for run in runs]
            if (value := mean(each)) is not None:
                aurocs[side.name] = value
    return aurocs


def _separation(name: str, auroc: float) -> str:
    what = describe_set(name)
    ways = (
        (EXCELLENT, f"it recognises {what} nearly without fail"),
        (GOOD, f"it mostly recognises {what}"),
        (FAIR, f"it often recognises {what}, but not reliably"),
        (POOR, f"it hardly recognises {what}"),
        (1 - POOR, f"it does not recognise {what} at all"),
        (0.0, f"it takes {what} for more familiar than known inputs"),
    )
    how = next(words for least, words in ways if auroc >= least)
    return f"{how}. One of them scores above a known input {percent(auroc)} of the time."


def standings(context: ReportContext) -> dict[str, list[str]]:
    """Return which model is best at what, by the data they are compared on."""
    names = [name for name, _ in context.of(Audit)]
    audits = list(zip(names, context.unique(Audit), strict=True))
    sentences = {}
    for group in by_known_data(context):
        known = next(iter(group.values()))[0].known
        best = [*_best_known(group), *_best_unknown(group)] if len(group) > 1 else []
        far = _limits([audit for name, audit in audits if name in group])
        sentences[f"{known.name}, {known.inputs:,} inputs"] = best + far
        audits = [(name, audit) for name, audit in audits if name not in group]
    sentences["Far away"] = _limits([audit for _, audit in audits])
    return {data: said for data, said in sentences.items() if said}


def _best_known(group: Runs) -> list[str]:
    data = next(iter(group.values()))[0].known.name
    accuracy = {name: fmean(run.known.accuracy for run in runs) for name, runs in group.items()}
    ece = {name: -fmean(run.known.ece for run in runs) for name, runs in group.items()}
    return [
        f"Highest accuracy on {data}: {_leaders(accuracy, percent)}.",
        f"Best calibrated: {_leaders(ece, lambda value: f'off by {points(-value)}')}.",
    ]


def _best_unknown(group: Runs) -> list[str]:
    aurocs = {name: mean_aurocs(runs) for name, runs in group.items()}
    first, *others = aurocs.values()
    shared = [name for name in first if all(name in of_sets for of_sets in others)]
    if not shared:
        return []
    average = {name: fmean(of_sets[side] for side in shared) for name, of_sets in aurocs.items()}
    several = f"{len(shared)} kinds of unknown inputs, on average"
    what = describe_set(shared[0]) if len(shared) == 1 else several
    sentences = [f"Best at recognising {what}: {_leaders(average, _auroc)}."]
    leader = max(average, key=average.__getitem__)
    for side in shared if len(shared) > 1 else ():
        here = {name: of_sets[side] for name, of_sets in aurocs.items()}
        top = max(here, key=here.__getitem__)
        if _auroc(here[top]) != _auroc(here[leader]):
            sentences.append(
                f"On {describe_set(side)}, however, {top} is best: {_auroc(here[top])} against "
                f"{here[leader]:.3f} of {leader}."
            )
    return sentences


def _auroc(value: float) -> str:
    return f"AUROC {value:.3f}"


def _leaders(values: Mapping[str, float], shown: Callable[[float], str]) -> str:
    """Return the models with the largest value, as far as it is shown, and the last one."""
    top = shown(max(values.values()))
    first = [name for name, value in values.items() if shown(value) == top]
    if len(first) == len(values):
        return f"{listed(first)}, all equal ({top})"
    last = min(values, key=values.__getitem__)
    return f"{listed(first)} ({top}); worst: {last} ({shown(values[last])})"


def _limits(audits: Sequence[tuple[str, Audit]]) -> list[str]:
    """Return which models have which limit far away, if there are several."""
    limits: dict[str, list[str]] = {}
    for name, record in audits if len(audits) > 1 else ():
        certain, unknown = record.ends_certain or 0.0, record.ends_unknown or 0.0
        which = "every direction tried" if 1 in (certain, unknown) else "most directions"
        limit = "Nothing proved about the limit far away"
        if record.law == "kernels" and unknown > MAJORITY:
            limit = f"Provably uncertain far away along {which}"
        elif record.law == "affine" and certain > MAJORITY:
            limit = f"Confidence provably → 1 far away along {which}"
        elif record.law == "affine" and record.end_confidence is not None:
            limit = "Confidence provably does not → 1 far away along most directions, but its "
            limit += f"median limit is {percent(record.end_confidence[2])}"
        limits.setdefault(limit, []).append(name)
    return [f"{limit}: {listed(names)}." for limit, names in limits.items()]
