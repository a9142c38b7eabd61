"""Several models on the same data."""

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from nescio.records import Evaluation, UnknownSide
from nescio.report.comparison import confidence_figure, rejection_figure, roc_figure
from nescio.report.markup import Cell, Shown, figure, heading, items, more, percentage, table
from nescio.report.runs import compared, mean, of_score, over_runs, side_of
from nescio.report.runs import notes as said_below
from nescio.report.section import ReportContext, Section
from nescio.report.standings import Rivals, rivals
from nescio.report.tables import CONVENTIONS

MOST = 12  # models in a figure


def section(given: ReportContext) -> Section | None:
    """A table of all models that were judged on the same data, and figures of them together."""
    groups = [shared for group in rivals(given) if (shared := _comparable(group))]
    if not groups:
        return None
    parts = []
    for group in groups:
        if len(groups) > 1:
            parts.append(heading(next(iter(group.values()))[0].known.name))
        parts.append(_compared(group))
    return Section("side-by-side", "Side by side", Markup("").join(parts))


def _comparable(group: Rivals) -> Rivals | None:
    """Those that have all unknown sets, in equal sizes, of the first that is not alone in that; None if all are.

    Each is judged by the score it is paired with, which a record need not have.
    """
    judged = {name: list(map(_judged, runs)) for name, runs in group.items()}
    for sets in dict.fromkeys(
        _sizes(one) for runs in judged.values() for one in runs if one.unknown
    ):
        found = {
            name: [_narrowed(one, sets) for one in runs if sets <= _sizes(one)]
            for name, runs in judged.items()
        }
        same = {name: runs for name, runs in found.items() if runs}
        if len(same) > 1:
            return same
    return None


def _judged(record: Evaluation) -> Evaluation:
    """A record without the sets that were judged by other scores than its own."""
    own = tuple(
        side for side in record.unknown if any(one.score == record.score for one in side.separation)
    )
    return replace(record, unknown=own)


def _narrowed(record: Evaluation, sets: frozenset[tuple[str, int]]) -> Evaluation:
    """A record without other sets than these."""
    return replace(record, unknown=tuple(side for side in record.unknown if _size(side) in sets))


def _has(record: Evaluation, what: str) -> bool:
    """Whether a record says so much of every unknown set, by its own score."""
    return all(
        any(one.score == record.score for one in getattr(side, what)) for side in record.unknown
    )


def _sizes(record: Evaluation) -> frozenset[tuple[str, int]]:
    return frozenset(map(_size, record.unknown))


def _size(side: UnknownSide) -> tuple[str, int]:
    """A set with the inputs in it; an attack may have failed on more inputs of one model than of another."""
    return side.name, side.attack.tried if side.attack else side.inputs


def _compared(group: Rivals) -> Markup:
    _, sets = compared(group)
    known = next(iter(group.values()))[0].known
    main: list[list[Cell]] = [
        [
            name,
            len(runs),
            _share([one.known.accuracy for one in runs]),
            _share([one.known.mmc for one in runs]),
            *_aurocs(runs, sets),
        ]
        for name, runs in group.items()
    ]
    columns = (
        "model",
        "runs",
        "accuracy, %",
        "mean confidence, %",
        *(f"AUROC: {name}" for name in sets),
    )
    accepted = table(
        ("model", *sets),
        [[name, *_accepted(runs, sets)] for name, runs in group.items()],
        "FPR95, %: share of each set accepted when 95 % of known inputs are accepted",
    )
    sure = table(
        ("model", known.name, *sets),
        [[name, *_sure(runs, sets)] for name, runs in group.items()],
        "Mean confidence, %: how sure each is of each set",
    )
    parts = [
        table(columns, main, f"{known.name} against unknown sets"),
        more("FPR95 and mean confidence", accepted + sure),
        items(said_below(group, sets, None, CONVENTIONS)),
    ]
    few = dict(list(group.items())[:MOST])
    names = ", ".join(few)
    every = [one for runs in few.values() for one in runs]
    if all(_has(one, "roc") for one in every):
        parts.append(
            figure(
                roc_figure(few),
                f"ROC curves of {names}, a panel for each of {', '.join(sets)}; AUROC is in the table.",
                "The nearer to the upper left corner, the better.",
            )
        )
    if all(_has(one, "rejection") for one in every):
        parts.append(
            figure(
                rejection_figure(few),
                f"Rejection curves of {names}, a panel for each of {', '.join(sets)}.",
                "Accuracy of what is kept as the least known are rejected; dashed the theoretical maximum.",
            )
        )
    if all(one.confidence and {"known", *sets} <= set(one.confidence.counts) for one in every):
        parts.append(
            figure(
                confidence_figure(few),
                f"How confident {names} are of {known.name} and of {', '.join(sets)}.",
                "Known data should stand on the right, everything else on the left.",
            )
        )
    if len(group) > MOST:
        parts.append(items([f"{len(group) - MOST} more models are in the table only."]))
    return Markup("").join(parts)


def _aurocs(runs: list[Evaluation], sets: list[str]) -> list[Cell]:
    found = [
        [of_score(one, side_of(one, name).separation, None).auroc for one in runs] for name in sets
    ]
    return [Shown(over_runs(values), mean(values)) for values in found]


def _accepted(runs: list[Evaluation], sets: list[str]) -> list[Cell]:
    return [
        _share([of_score(one, side_of(one, name).separation, None).fpr95 for one in runs])
        for name in sets
    ]


def _sure(runs: list[Evaluation], sets: list[str]) -> list[Cell]:
    return [
        _share([one.known.mmc for one in runs]),
        *(_share([side_of(one, name).mmc for one in runs]) for name in sets),
    ]


def _share(values: Sequence[float | None]) -> Shown:
    middle = percentage(mean(values))
    if middle is None:
        return Shown("–", None)
    spread = over_runs(values, share=True).partition(" ")[2]
    return Shown(f"{middle.text} {spread}".rstrip(), middle.value)
