"""Which of several models is best at what."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from nescio.metrics.percent import percent
from nescio.records import Audit, Evaluation
from nescio.report.folded import folded
from nescio.report.section import ReportContext
from nescio.report.sentences import LEAST, in_words, listed, points, separated

Rivals = dict[str, list[Evaluation]]  # by name: runs of one model


def rivals(given: ReportContext) -> list[Rivals]:
    """Evaluations that were made on the same known data, together; those of one name are its runs.

    Evaluations of one and the same network are not: they are folded into one.
    """
    together: dict[tuple[str, int], Rivals] = {}
    for name, record in given.of(Evaluation):
        data = record.known.name, record.known.inputs
        together.setdefault(data, {}).setdefault(name, []).append(record)
    return [
        {name: folded(records) for name, records in group.items()} for group in together.values()
    ]


def standings(given: ReportContext) -> dict[str, list[str]]:
    """Who is best at what, in sentences, by the data they are of; none if there is no one to be better than."""
    audits = list(zip([name for name, _ in given.of(Audit)], given.told_apart(Audit), strict=True))
    told = {}
    for group in rivals(given):
        known = next(iter(group.values()))[0].known
        judged = _known(group) + _unknown(group) if len(group) > 1 else []
        told[f"{known.name}, {known.inputs:,} inputs"] = judged + _far(
            [one for name, one in audits if name in group]
        )
        audits = [(name, one) for name, one in audits if name not in group]
    told["Far away"] = _far([one for _, one in audits])
    return {data: sentences for data, sentences in told.items() if sentences}


def _known(group: Rivals) -> list[str]:
    data = next(iter(group.values()))[0].known.name
    right = {name: fmean(one.known.accuracy for one in runs) for name, runs in group.items()}
    off = {name: -fmean(one.known.ece for one in runs) for name, runs in group.items()}
    return [
        f"Most right answers on {data}: {_ahead(right, percent)}.",
        f"The most honest confidence: {_ahead(off, lambda value: f'off by {points(-value)}')}.",
    ]


def _unknown(group: Rivals) -> list[str]:
    found = {name: separated(runs) for name, runs in group.items()}
    shared = [
        name for name in next(iter(found.values())) if all(name in one for one in found.values())
    ]
    if not shared:
        return []
    average = {name: fmean(one[side] for side in shared) for name, one in found.items()}
    what = (
        in_words(shared[0])
        if len(shared) == 1
        else f"{len(shared)} kinds of unknown inputs, in the mean"
    )
    told = [f"Best at telling known inputs from {what}: {_ahead(average, _area)}."]
    leader = max(average, key=average.__getitem__)
    for side in shared if len(shared) > 1 else ():
        here = {name: one[side] for name, one in found.items()}
        top = max(here, key=here.__getitem__)
        if _area(here[top]) != _area(here[leader]):
            told.append(
                f"Against {in_words(side)}, though, {top} is best: {_area(here[top])} to {leader}’s "
                f"{here[leader]:.3f}."
            )
    return told


def _area(value: float) -> str:
    return f"AUROC {value:.3f}"


def _ahead(values: Mapping[str, float], shown: Callable[[float], str]) -> str:
    """Those with the largest value, as far as it is shown, and who is last."""
    top = shown(max(values.values()))
    first = [name for name, value in values.items() if shown(value) == top]
    if len(first) == len(values):
        return f"{listed(first)} alike ({top})"
    last = min(values, key=values.__getitem__)
    return f"{listed(first)} ({top}); worst: {last} ({shown(values[last])})"


def _far(audits: Sequence[tuple[str, Audit]]) -> list[str]:
    """Who ends how far away."""
    ends: dict[str, list[str]] = {}
    for name, record in audits:
        ends.setdefault(_end(record), []).append(name)
    return [f"{end}: {listed(names)}." for end, names in ends.items()] if len(audits) > 1 else []


def _end(record: Audit) -> str:
    certain, unknown = record.ends_certain or 0.0, record.ends_unknown or 0.0
    if record.law == "kernels" and unknown > LEAST:
        return f"Proved to end far away not knowing, along {_which(unknown)}"
    if record.law == "affine" and certain > LEAST:
        return f"Proved to end far away certain, along {_which(certain)}"
    if record.law == "affine" and record.end_confidence is not None:
        return (
            f"Proved not to become certain far away along most directions, but {percent(record.end_confidence[2])} "
            "sure in the median"
        )
    return "Not proved to end far away one way or the other"


def _which(share: float) -> str:
    return "every direction tried" if share == 1 else "most directions"
