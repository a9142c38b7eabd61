"""Which runs are compared, and on what: the ground of every comparison.

Records may come in any order: those of one method are its runs. Where one method stands in several rows, as with and
without a penalty, a mapping from names to runs tells them apart.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TypeVar

from nescio.errors import NescioError, unknown_name
from nescio.metrics.percent import per_cent
from nescio.records import Evaluation, Rejection, Roc, Separation, UnknownSide
from nescio.report.tables import attack_in_words

Records = Evaluation | Sequence[Evaluation] | Mapping[str, Sequence[Evaluation]]
Runs = dict[str, list[Evaluation]]  # by the name that a legend shows
OfScore = TypeVar("OfScore", Separation, Rejection, Roc)


def over_runs(values: Sequence[float | None], share: bool = False, digits: int = 1) -> str:
    """A figure, with its standard deviation if there are several runs; a dash if it is undefined in any.

    Shares are percentages, with so many digits after the point.

    >>> over_runs([0.942, 0.95]), over_runs([0.5], share=True)
    ('0.946 ±0.006', '50.0%')
    """
    middle = mean(values)
    if middle is None:
        return "–"
    shown_mean = f"{per_cent(middle, digits)}%" if share else f"{middle:.3f}"
    if len(values) == 1:
        return shown_mean
    spread = stdev(value for value in values if value is not None)
    return f"{shown_mean} ±{100 * spread:.{digits}f}" if share else f"{shown_mean} ±{spread:.3f}"


def mean(values: Sequence[float | None]) -> float | None:
    """The mean, or None if any value is undefined."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if len(defined) == len(values) else None


def compared(
    records: Records, unknown: str | Sequence[str] | None = None
) -> tuple[Runs, list[str]]:
    """The runs of each method, and the unknown sets to compare them on; an error if they are not of the same data."""
    if isinstance(records, Mapping):
        runs = {name: list(group) for name, group in records.items()}
    else:
        runs = _runs([records] if isinstance(records, Evaluation) else records)
    every = [one for group in runs.values() for one in group]
    if not every or not all(runs.values()):
        raise NescioError("a comparison takes one or more evaluations of each method; given: none")
    shared = [side.name for side in every[0].unknown if all(_has(one, side.name) for one in every)]
    names = (
        [unknown]
        if isinstance(unknown, str)
        else list(dict.fromkeys(shared if unknown is None else unknown))
    )
    for name in names:
        for one in every:
            if not _has(one, name):
                raise unknown_name(
                    f"set in a record of {one.method}", name, [side.name for side in one.unknown]
                )
    if not names:
        given = "; ".join(
            f"{one.method}: {', '.join(side.name for side in one.unknown) or 'none'}"
            for one in every
        )
        raise NescioError(f"these records have no unknown data in common ({given})")
    data = dict.fromkeys(_data(one, names) for one in every)
    if len(data) > 1:
        raise NescioError(f"records on different data cannot be compared: {'; '.join(data)}")
    return runs, names


def _runs(records: Sequence[Evaluation]) -> Runs:
    """Records by method, in the order they came; a method judged by scores of several detectors is several."""
    pairs = list(dict.fromkeys((one.method, one.score) for one in records))
    methods = [method for method, _ in pairs]
    return {
        method if methods.count(method) == 1 else f"{method}, {score}": [
            one for one in records if (one.method, one.score) == (method, score)
        ]
        for method, score in pairs
    }


def _data(record: Evaluation, names: Sequence[str]) -> str:
    sides = [
        side_of(record, name) for name in names
    ]  # an attack may fail on more inputs of one model than of another
    sizes = ", ".join(
        f"{side.attack.tried if side.attack else side.inputs} of {side.name}" for side in sides
    )
    return f"{record.known.inputs} inputs of {record.known.name} with {sizes}"


def _has(record: Evaluation, name: str) -> bool:
    return any(side.name == name for side in record.unknown)


def side_of(record: Evaluation, name: str) -> UnknownSide:
    """What a record says of one unknown set."""
    return next(side for side in record.unknown if side.name == name)


def of_score(record: Evaluation, all_scores: Sequence[OfScore], score: str | None) -> OfScore:
    """What a record says of one score: of its own, unless another is named."""
    if not all_scores:
        raise older(record, "ROC curve")
    found = {one.score: one for one in all_scores}
    name = score or record.score
    if name not in found:
        raise unknown_name(f"score in a record of {record.method}", name, found)
    return found[name]


def older(record: Evaluation, what: str) -> NescioError:
    """The error for a record that lacks what later ones have."""
    return NescioError(
        f"a record of {record.method} has no {what}: it was written before nescio kept them; "
        "evaluate the model again"
    )


def notes(runs: Runs, sets: Sequence[str], score: str | None, conventions: str) -> list[str]:
    """What must be said under any table of a comparison: by what it judges, its terms, attacks and runs."""
    judged = {label: score or group[0].score for label, group in runs.items()}
    found = [f"Judged by: {', '.join(f'{label} by {name}' for label, name in judged.items())}."]
    found += conventions.splitlines()
    for name in sets:
        found += _attacks(runs, name)
    if any(len(group) > 1 for group in runs.values()):
        found.append("±: standard deviation over runs.")
    return found


def _attacks(runs: Runs, name: str) -> list[str]:
    """How an attack made a set and, where it keeps only what ended in a wrong class, of how many."""
    sides = {label: [side_of(one, name) for one in group] for label, group in runs.items()}
    attacks = {
        label: [side.attack for side in group if side.attack] for label, group in sides.items()
    }
    ways = {
        label: list(dict.fromkeys(map(attack_in_words, group)))
        for label, group in attacks.items()
        if group
    }
    if not ways:
        return []
    first = next(iter(ways.values()))
    if all(way == first for way in ways.values()):
        how = "; ".join(first)
    else:
        how = "; ".join(f"{label} by {' and '.join(way)}" for label, way in ways.items())
    every = [one for group in attacks.values() for one in group]
    lines = [
        f"Attack of {name} on {every[0].tried} inputs: {how}."
    ]  # as many for all that are compared
    if any(one.objective == "loss" for one in every):
        wrong = ", ".join(
            f"{label} {' / '.join(str(side.inputs) for side in group)}"
            for label, group in sides.items()
        )
        lines.append(f"Of these {every[0].tried}, ended in a wrong class and were judged: {wrong}.")
    return lines
