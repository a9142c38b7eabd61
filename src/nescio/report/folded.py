"""Several evaluations of one network as one: judged in two goes, on other unknown sets, it is no second run."""

import math
from collections.abc import Sequence
from dataclasses import replace

from nescio.records import Evaluation, Histogram

ROUNDING = 1e-6  # relative, by which one network's figures on the same data may differ from one go to the next


def folded(records: Sequence[Evaluation]) -> list[Evaluation]:
    """The runs among evaluations on the same known data: those of one network are one, with the sets of all of them."""
    runs: list[Evaluation] = []
    for record in records:
        same = next((i for i, one in enumerate(runs) if _of_one_network(one, record)), None)
        if same is None:
            runs.append(record)
        else:
            runs[same] = _together(runs[same], record)
    return runs


def resisted(record: Evaluation) -> dict[str, int]:
    """How many attacks were tried, by the name of each set that is not there since none of them made the model err."""
    found = record.provenance.settings.get("resisted")
    return (
        {name: tried for name, tried in found.items() if isinstance(tried, int)}
        if isinstance(found, dict)
        else {}
    )


def _of_one_network(one: Evaluation, other: Evaluation) -> bool:
    """No two trainings agree in all of these, to so many digits."""
    return (one.score, one.known.accuracy) == (other.score, other.known.accuracy) and all(
        math.isclose(getattr(one.known, name), getattr(other.known, name), rel_tol=ROUNDING)
        for name in ("mmc", "nll", "brier")
    )


def _together(first: Evaluation, second: Evaluation) -> Evaluation:
    """The first with what only the second has."""
    there = {side.name for side in first.unknown}
    origin = first.provenance
    if held := {**resisted(second), **resisted(first)}:
        origin = replace(origin, settings={**origin.settings, "resisted": held})
    return replace(
        first,
        unknown=(*first.unknown, *(side for side in second.unknown if side.name not in there)),
        confidence=_counted(first.confidence, second.confidence),
        provenance=origin,
    )


def _counted(first: Histogram | None, second: Histogram | None) -> Histogram | None:
    """Counts of both; only the first's where their bins differ."""
    if first is None or second is None or first.edges != second.edges:
        return first
    return replace(first, counts={**second.counts, **first.counts})
