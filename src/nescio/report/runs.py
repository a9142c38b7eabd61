"""Which evaluations are compared, on which data, and what each says by which score."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from nescio.errors import NescioError, check_name
from nescio.records import Evaluation, Rejection, Roc, Separation, UnknownSide
from nescio.report.words import describe_attack

Records = Evaluation | Sequence[Evaluation] | Mapping[str, Sequence[Evaluation]]
Runs = dict[str, list[Evaluation]]  # by the name that a legend shows
ByScore = TypeVar("ByScore", Separation, Rejection, Roc)
ROUNDING = 1e-6  # relative difference of one network's metrics on the same data between evaluations


def compared(
    records: Records, unknown: str | Sequence[str] | None = None
) -> tuple[Runs, list[str]]:
    """Return the runs of each method and the unknown sets to compare them on.

    Records of one method are its runs; a mapping names its own groups. Raises if they are not of
    the same data.
    """
    if isinstance(records, Mapping):
        runs = {name: list(group) for name, group in records.items()}
    else:
        runs = _by_method([records] if isinstance(records, Evaluation) else records)
    every = [record for group in runs.values() for record in group]
    if not every or not all(runs.values()):
        raise NescioError("a comparison needs at least one evaluation of each method, got none")
    sets_of = {id(record): [side.name for side in record.unknown] for record in every}
    if unknown is None:
        first, *others = sets_of.values()
        unknown = [name for name in first if all(name in other for other in others)]
    names = [unknown] if isinstance(unknown, str) else list(dict.fromkeys(unknown))
    for name, record in itertools.product(names, every):
        check_name(f"set in a record of {record.method}", name, sets_of[id(record)])
    if not names:
        listed = (f"{run.method}: {', '.join(sets_of[id(run)]) or 'none'}" for run in every)
        raise NescioError(f"these records have no unknown data in common ({'; '.join(listed)})")
    data = dict.fromkeys(_describe_data(record, names) for record in every)
    if len(data) > 1:
        raise NescioError(f"records on different data cannot be compared: {'; '.join(data)}")
    return runs, names


def _by_method(records: Sequence[Evaluation]) -> Runs:
    """Group by method, and by score where one method is scored by several detectors."""
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    for record in records:
        groups.setdefault((record.method, record.score), []).append(record)
    methods = [method for method, _ in groups]
    names = (name if methods.count(name) == 1 else f"{name}, {score}" for name, score in groups)
    return dict(zip(names, groups.values(), strict=True))


def _describe_data(record: Evaluation, names: Sequence[str]) -> str:
    sizes = ", ".join(f"{size(side_of(record, name))} of {name}" for name in names)
    return f"{record.known.inputs} inputs of {record.known.name} with {sizes}"


def size(side: UnknownSide) -> int:
    """Return the inputs of a set, or those an attack was tried on: it may fail on some."""
    return side.attack.tried if side.attack else side.inputs


def side_of(record: Evaluation, name: str) -> UnknownSide:
    """Return what a record says of one unknown set.

    >>> side_of(nescio.evaluate(net, known.test, ["far"]), "far").inputs
    500
    """
    return next(side for side in record.unknown if side.name == name)


def of_score(record: Evaluation, results: Sequence[ByScore], score: str | None = None) -> ByScore:
    """Return the result by a score, by default the record's own; raise if there is none.

    >>> record = nescio.evaluate(net, known.test, ["far"], scores=["entropy", "energy"])
    >>> of_score(record, record.unknown[0].separation, "energy").score
    'energy'
    """
    by_name = {result.score: result for result in results}
    kind = f"score in a record of {record.method}"
    return by_name[check_name(kind, score or record.score, by_name)]


def own(results: Sequence[ByScore], score: str) -> ByScore | None:
    """Return the result by a model's own score, else by the first one; None if there is none."""
    return next((result for result in results if result.score == score), next(iter(results), None))


def own_auroc(record: Evaluation, results: Sequence[Separation]) -> float | None:
    """Return the AUROC by a model's own score."""
    result = own(results, record.score)
    return None if result is None else result.auroc


def failed_attacks(record: Evaluation) -> dict[str, int]:
    """Return how many attacks were tried, by the name of each set that is empty as all failed."""
    tried = record.provenance.settings.get("resisted")
    counts = tried.items() if isinstance(tried, dict) else ()
    return {name: count for name, count in counts if isinstance(count, int)}


def notes(runs: Runs, sets: Sequence[str], score: str | None) -> list[str]:
    """Return what must be said under a comparison: scores, attacks and runs."""
    scores = ", ".join(f"{label} by {score or group[0].score}" for label, group in runs.items())
    lines = [f"Scored: {scores}."]
    for name in sets:
        lines += _attack_notes(runs, name)
    if any(len(group) > 1 for group in runs.values()):
        lines.append("±: standard deviation over runs.")
    return lines


def _attack_notes(runs: Runs, name: str) -> list[str]:
    """Return how an attack made a set and, where only inputs now misclassified count, how many."""
    sides = {label: [side_of(record, name) for record in group] for label, group in runs.items()}
    attacks = [side.attack for group in sides.values() for side in group if side.attack]
    if not attacks:
        return []
    ways = {}
    for label, group in sides.items():
        if described := [describe_attack(side.attack) for side in group if side.attack]:
            ways[label] = list(dict.fromkeys(described))
    first = next(iter(ways.values()))
    how = "; ".join(f"{label} by {' and '.join(way)}" for label, way in ways.items())
    if all(way == first for way in ways.values()):
        how = "; ".join(first)
    lines = [f"Attack of {name} on {attacks[0].tried} inputs: {how}."]  # as many for all
    if any(attack.objective == "loss" for attack in attacks):
        counts = {label: [str(side.inputs) for side in group] for label, group in sides.items()}
        by_label = ", ".join(f"{label} {' / '.join(inputs)}" for label, inputs in counts.items())
        lines.append(f"Misclassified after the attack, and evaluated: {by_label}.")
    return lines


def merge_runs(records: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the runs among evaluations on the same known data.

    Evaluations of one network on different unknown sets are merged into one, with all the sets.
    """
    runs: list[Evaluation] = []
    for record in records:
        same = next((i for i, run in enumerate(runs) if _same_network(run, record)), None)
        if same is None:
            runs.append(record)
        else:
            runs[same] = _merge(runs[same], record)
    return runs


def _same_network(one: Evaluation, other: Evaluation) -> bool:
    """Compare metrics in which no two trainings agree to so many digits."""
    return (one.score, one.known.accuracy) == (other.score, other.known.accuracy) and all(
        math.isclose(getattr(one.known, name), getattr(other.known, name), rel_tol=ROUNDING)
        for name in ("mmc", "nll", "brier")
    )


def _merge(first: Evaluation, second: Evaluation) -> Evaluation:
    """Return the first with what only the second has."""
    names = {side.name for side in first.unknown}
    more = (side for side in second.unknown if side.name not in names)
    origin = first.provenance
    if failed := {**failed_attacks(second), **failed_attacks(first)}:
        origin = replace(origin, settings={**origin.settings, "resisted": failed})
    confidence = first.confidence
    if confidence and second.confidence and confidence.edges == second.confidence.edges:
        counts = {**second.confidence.counts, **confidence.counts}
        confidence = replace(confidence, counts=counts)
    return replace(first, unknown=(*first.unknown, *more), confidence=confidence, provenance=origin)
