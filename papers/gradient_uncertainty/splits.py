"""The record that all tables and figure 2 share: networks trained on independent splits."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nescio import NescioError, derived_seed
from nescio.records import Stopwatch, to_plain
from papers.gradient_uncertainty.features import Features, split_features
from papers.gradient_uncertainty.plan import ALL, SplitPlan
from papers.gradient_uncertainty.rows import SINGLE, SetFeatures, all_rows
from papers.gradient_uncertainty.separations import ScoreValues, Separations, joined

MIN_ANSWERS = 10  # right ones, and wrong ones, that a meta-classifier learns from
SHOWN = ("entropy", "l2 norm", "minimum")  # in figure 2
KEPT = 500  # values of each set in the figure


def separations(
    plan: SplitPlan, splits: int, folder: Path, root: str | None = None, seed: int = 0
) -> Separations:
    """Return the record of all splits; each is written when done, and not made again."""
    records = []
    for split in range(splits):
        path = folder / f"split-{split}.json"
        settings = {**to_plain(plan), "split": split}
        if path.exists():
            record = Separations.load(path)
            if record.provenance.settings != settings or record.provenance.seed != seed:
                raise NescioError(
                    f"{str(path)!r} was made with other settings; choose another folder"
                )
        else:
            record = one_split(plan, split, folder, root, seed, settings)
            record.save(path)
        records.append(record)
    return joined(records)


def one_split(
    plan: SplitPlan,
    split: int,
    folder: Path,
    root: str | None,
    seed: int,
    settings: Mapping[str, Any],
) -> Separations:
    """Train a network on its part of the data, and evaluate all scores on all sets."""
    found = split_features(plan, split, folder, root, seed)
    if min(count := (int(found.correct.sum()), int((~found.correct).sum()))) < MIN_ANSWERS:
        raise NescioError(
            f"split {split} has {count[0]} right and {count[1]} wrong answers to learn from; "
            f"expected at least {MIN_ANSWERS} of each"
        )
    stopwatch = Stopwatch()
    rows = all_rows(plan, found, derived_seed(seed, "split", split))
    sets = SetFeatures(found.log, found.few, found.correct, plan.mixed).sets
    spreads = [ScoreValues(name, _values(sets, found.names.index(SINGLE[name]))) for name in SHOWN]
    origin = stopwatch.provenance(seed, dict(settings))
    return Separations(
        data=plan.data,
        network=plan.network,
        accuracy=(found.accuracy,),
        sets={name: (len(values),) for name, values in sets.items()},
        rows=tuple(rows),
        spreads=tuple(spreads),
        provenance=replace(origin, seconds=origin.seconds + found.seconds),
    )


def _values(sets: Features, column: int) -> dict[str, tuple[float, ...]]:
    """Some values of a column on each set, for a figure."""
    return {
        name: tuple(float(f"{v:.5g}") for v in values[:KEPT, column].tolist())
        for name, values in sets.items()
        if name != ALL
    }
