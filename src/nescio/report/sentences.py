"""What records say, in plain sentences: each is computed, and none says more than its record holds."""

from collections.abc import Sequence
from statistics import fmean

from nescio.metrics.percent import percent
from nescio.records import (
    Audit,
    AuditedFeature,
    Contest,
    Evaluation,
    FeatureAudit,
    Fitted,
    Recommendation,
    Scaling,
    Separation,
)
from nescio.records.detector import UNCOVERED
from nescio.report.folded import resisted
from nescio.report.overconfidence import times
from nescio.report.overconfidence import verdict as far_verdict
from nescio.report.own import own
from nescio.report.per_feature import nearest_first
from nescio.report.runs import mean, side_of

SETS = {  # of `nescio evaluate --unknown`, in words
    "unseen": "classes that it never learned",
    "noise": "noise",
    "uniform": "uniform noise",
    "normal": "normal noise",
    "permuted": "inputs whose values were shuffled",
    "far": "inputs far away from its data",
    "adversarial_noise": "noise made to fool it",
    "adversarial_samples": "inputs changed to fool it",
}
HONEST, FAIR = 0.02, 0.05  # ECE up to which confidence is as good as its word, or a fair guide
SURELY, MOSTLY, OFTEN, BARELY = (
    0.99,
    0.9,
    0.7,
    0.55,
)  # AUROC from which on a set is told apart so well
FEW = 10  # wrong answers, below which nothing is made of them
LEAST = 0.5  # a larger share of directions is most of them; only where it is all, none are named


def in_words(name: str) -> str:
    """A set of data as a reader meets it.

    >>> in_words("unseen"), in_words("mnist")
    ('classes that it never learned (unseen)', '“mnist”')
    """
    return (
        f"{SETS[name]} ({name})"
        if name in SETS and SETS[name] != name
        else SETS.get(name, f"“{name}”")
    )


def listed(words: Sequence[str]) -> str:
    """Words in a row: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def points(share: float) -> str:
    """A difference of shares, in percentage points."""
    return f"{100 * share:.1f} percentage points"


def knows(runs: Sequence[Evaluation]) -> list[str]:
    """What runs of one model on the same data make of the inputs they should know."""
    known = runs[0].known
    right, sure, off = (
        fmean(getattr(one.known, name) for one in runs) for name in ("accuracy", "mmc", "ece")
    )
    several = f", in the mean of {len(runs)} runs" if len(runs) > 1 else ""
    told = [
        f"It answers {percent(right)} of {known.inputs} inputs of {known.name} rightly{several}."
    ]
    told.append(
        f"It says that it is {percent(sure)} sure on average. {_calibrated(right, sure, off)}"
    )
    doubts = mean([_auroc(one.known.misclassification, one) for one in runs])
    if doubts is not None:
        told.append(
            _doubts(doubts, sum(round((1 - one.known.accuracy) * one.known.inputs) for one in runs))
        )
    return told


def _calibrated(right: float, sure: float, off: float) -> str:
    if off <= HONEST:
        return f"That can be taken at its word: its confidence is off by {points(off)}."
    if off <= FAIR:
        return f"That is a fair guide: its confidence is off by {points(off)}."
    way = (
        ", and mostly too high"
        if sure - right > off / 2
        else ", and mostly too low"
        if right - sure > off / 2
        else ""
    )
    return f"Do not take it at its word: its confidence is off by {points(off)}{way}."


def _doubts(auroc: float, wrong: int) -> str:
    if (
        wrong < FEW
    ):  # the figure stands in the tables, so that here, too, it is given for what it is
        return (
            f"{_wrong(wrong)} less certain than a right one {percent(auroc)} of the time; so few do not show "
            "whether it doubts where it errs."
        )
    how = (
        "It often doubts where it errs"
        if auroc >= OFTEN
        else "Its doubts hardly tell where it errs"
    )
    if auroc >= MOSTLY:
        how = "It doubts where it errs"
    return f"{how}: one of its {wrong} wrong answers looks less certain than a right one {percent(auroc)} of the time."


def _wrong(count: int) -> str:
    return "Its only wrong answer looks" if count == 1 else f"Its {count} wrong answers look"


def meets_unknown(runs: Sequence[Evaluation]) -> list[str]:
    """What runs of one model on the same data make of inputs they should not know: the best and the worst set."""
    found, told = separated(runs), _resisted(runs)
    if not found:
        return told
    worst, best = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    sentences = [_noticed(worst, found[worst])]
    if worst != best:
        first = "Best" if found[best] >= OFTEN else "Least bad"
        sentences = [f"{first}: {_noticed(best, found[best])}", f"Worst: {sentences[0]}"]
    if len(found) > 2:
        well = sum(value >= MOSTLY for value in found.values())
        sentences.append(
            f"It was shown {len(found)} kinds of unknown inputs: for {well or 'none'} of them an input "
            f"looks less familiar than a known one at least {percent(MOSTLY)} of the time."
        )
    sides = [side_of(one, worst) for one in runs]
    found_by = [own(side.separation, one.score) for one, side in zip(runs, sides, strict=True)]
    passed = mean([None if one is None else one.fpr95 for one in found_by])
    sure, usual = fmean(side.mmc for side in sides), fmean(one.known.mmc for one in runs)
    last = f"Of {in_words(worst)} it is {percent(sure)} sure on average, of known inputs {percent(usual)}"
    if passed is not None:
        last += f"; with a threshold that accepts 95 % of known inputs, {percent(passed)} of them are accepted too"
    return [*sentences, f"{last}.", *told]


def _resisted(runs: Sequence[Evaluation]) -> list[str]:
    """Attacks that came to nothing; where others of the runs did not resist them, in how many that is so."""
    tried: dict[str, list[int]] = {}
    for one in runs:
        for name, count in resisted(one).items():
            tried.setdefault(name, []).append(count)
    return [
        f"{name}: none of {sum(counts)} attacks made the model err"
        f"{f' in {len(counts)} of {len(runs)} runs' if len(counts) < len(runs) else ''}."
        for name, counts in tried.items()
    ]


def separated(runs: Sequence[Evaluation]) -> dict[str, float]:
    """AUROC on each unknown set that all runs have, by the score that the model is paired with; the mean of runs."""
    shared = [
        side.name
        for side in runs[0].unknown
        if all(any(other.name == side.name for other in one.unknown) for one in runs)
    ]
    found = {}
    for name in shared:
        value = mean([_auroc(side_of(one, name).separation, one) for one in runs])
        if value is not None:
            found[name] = value
    return found


def _auroc(found: Sequence[Separation], record: Evaluation) -> float | None:
    one = own(found, record.score)
    return None if one is None else one.auroc


def _noticed(name: str, auroc: float) -> str:
    what = in_words(name)
    ways = (
        (SURELY, f"it tells {what} from what it knows nearly without fail"),
        (MOSTLY, f"it mostly tells {what} from what it knows"),
        (OFTEN, f"it often notices {what}, but cannot be relied on to"),
        (BARELY, f"it hardly notices {what}"),
        (1 - BARELY, f"it does not notice {what} at all"),
        (0.0, f"it takes {what} for more familiar than what it knows"),
    )
    how = next(words for least, words in ways if auroc >= least)
    return (
        f"{how}. One of them looks less familiar than a known input {percent(auroc)} of the time."
    )


def far_away(record: Audit) -> list[str]:
    """What a model does on the way to infinity: a judgement, and what it stands on."""
    return [judged_far(record), *far_verdict(record)]


def judged_far(record: Audit) -> str:
    """What a model does far away, in one sentence."""
    if record.law == "affine":
        if record.ends_certain == 1:
            return f"Far away it is sure of whatever it is shown, along all {record.trials:,} directions tried."
        return (
            "Far away it becomes certain along most directions."
            if (record.ends_certain or 0.0) > LEAST
            else "Far away it does not become certain along most directions."
        )
    if record.law == "kernels":
        if record.ends_unknown == 1:
            return f"Far away it says that it does not know, along all {record.trials:,} directions tried."
        return (
            "Far away it says along most directions that it does not know."
            if (record.ends_unknown or 0.0) > LEAST
            else "Far away it is not proved to say that it does not know, along most directions."
        )
    return (
        "Far away it was seen to become certain along most directions."
        if record.reached > LEAST
        else "Far away it was not seen to become certain along most directions."
    )


def scaled(record: Scaling) -> list[str]:
    """Whether any score notices inputs that are scaled away, feature by feature and as a whole."""
    largest = times(record.factors[-1])
    features = [
        one for one in record.directions if one.feature is not None and one.scores is not None
    ]
    told = []
    if features:
        missed = [
            one.name for one in features if not any(course.notices for course in one.scores or ())
        ]
        if missed:
            some = listed([f"“{name}”" for name in missed[:3]]) + (
                " and others" if len(missed) > 3 else ""
            )
            told.append(
                f"Of {len(features)} features that were scaled up to {largest}, {len(missed)} went unnoticed "
                f"by every score: {some}."
            )
        else:
            told.append(
                f"Each of {len(features)} features, scaled up to {largest}, is noticed by at least one score."
            )
    for ray in record.directions:
        if ray.feature is None and ray.scores is not None:
            noticing = [course.score for course in ray.scores if course.notices]
            by = f"by {listed(noticing)}" if noticing else "by no score"
            told.append(f"Whole inputs scaled up to {largest} are noticed {by}.")
    return told


def moved(record: FeatureAudit) -> list[str]:
    """The feature along which a model is nearest to being certain or, of kernels, to not knowing."""
    feature = next(iter(nearest_first(record)), None)
    if feature is None:
        return []
    kernels = feature.lower.unknown is not None
    goal = (
        "know nothing from there on"
        if kernels
        else f"reach a confidence of {percent(record.confidence)}"
    )
    row = "the median row" if kernels else "the median of the rows it is not yet so sure of"
    told = (
        []
        if kernels
        else [f"As they are, it is so sure of {percent(record.already)} of {record.rows} rows."]
    )
    if (way := _nearest_way(feature)) is None:
        return [f"No single feature, moved however far, makes it {goal} in {row}.", *told]
    word, distance, spreads = way
    if distance == 0:
        return [f"The median row needs no move for it to {goal}.", *told]
    apart = "" if spreads is None else f", {spreads:.3g} of its standard deviations"
    return [
        f"The least that a single feature has to be wrong for it to {goal}, in {row}: “{feature.name}” {word} by "
        f"{distance:.3g}{apart}.",
        *told,
    ]


def _nearest_way(feature: AuditedFeature) -> tuple[str, float, float | None] | None:
    ways = []
    for word, side in (("lower", feature.lower), ("higher", feature.higher)):
        found = side.unknown or side.certain
        if found.median is not None:
            ways.append((word, found.median, found.spreads))
    return min(ways, key=lambda way: way[1]) if ways else None


def detector_of(record: Fitted) -> str:
    """What a fitted detector goes by: its name or, of a threshold, that of its score."""
    score = record.settings.get("score")
    return score if record.detector == "threshold" and isinstance(score, str) else record.detector


def fitted(record: Fitted, beside: str | None = None) -> list[str]:
    """Which threshold was settled, on what, and what it promises; `beside` names the detector that is recommended."""
    one = len(record.thresholds) == 1
    what = (
        f"threshold, {record.thresholds[0]:.6g}, was"
        if one
        else "thresholds, one for each class, were"
    )
    lead = (
        "Use the detector that was"
        if beside is None
        else f"If not {beside}, there is a detector that was"
    )
    return [
        f"{lead} fitted on {detector_of(record)}: its {what} settled by {record.inputs} inputs of "
        f"{record.data}.",
        f"What that promises: {record.promise}.",
    ]


def recommended(record: Recommendation) -> list[str]:
    """Which detector was found to suit the model, and what its threshold promises."""
    best = next((one for one in record.ranking if one.name == record.detector), record.ranking[0])
    hardest = min(best.auroc, key=best.auroc.__getitem__)
    told = [
        f"Use {record.detector}: of {len(record.ranking)} detectors it was the best by {record.criterion}, "
        f"{best.mean:.3f}; against what it is worst at, “{hardest}”, it has {best.worst:.3f}."
    ]
    accept = record.provenance.settings.get("accept")
    if isinstance(accept, float):
        told.append(
            f"Its threshold was settled by {record.calibrated} known inputs, so that a new known input, drawn "
            f"as these were, is accepted with a probability of at least {accept:g}."
        )
        refused = ", ".join(
            f"{name} {percent(value)}" for name, value in (best.refused or {}).items()
        )
        told.append(
            f"{UNCOVERED}{f'; of the outliers it was tried on it refuses: {refused}' if refused else ''}."
        )
    return told


def contested(record: Contest) -> list[str]:
    """Which detector won, against the data it was shown."""
    best = record.contestants[0]
    against = listed([in_words(name) for name in record.unknown])
    return [
        f"Of {len(record.contestants)} detectors tried against {against}, {best.name} told known from unknown "
        f"best: AUROC {best.mean:.3f} in the mean."
    ]
