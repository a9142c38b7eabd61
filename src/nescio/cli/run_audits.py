"""All audits of one run: records and figures in a folder, tables and a verdict to be printed."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.markup import escape

from nescio.audit import overconfidence, per_feature, regions_in, scaling
from nescio.audit.affine.plane import CrowdedError
from nescio.audit.budget import Budget
from nescio.audit.inputs import box_of
from nescio.data import Known
from nescio.files import FIGURE, check_replaceable
from nescio.methods.method import Method
from nescio.progress import bar
from nescio.records import Audit, FeatureAudit, Record, Regions, Scaling
from nescio.report.audit import audit_figure, audit_tables
from nescio.report.feature_audit import feature_figure, feature_table
from nescio.report.figures import save_figure
from nescio.report.regions import regions_figure
from nescio.report.scaling import scaling_figure, scaling_table
from nescio.store.run import AUDIT, FEATURES, REGIONS, SCALING

MOST = 20_000  # linear regions that are drawn
WRITING = 0.05  # share of a budget that figures and files take
NO_TIME = 1e-9  # seconds
MEASURING = 0.5  # share of what each audit has of it in which it is to measure, so that it can prove in the other half


def audit_run(
    folder: Path,
    model: Method,
    known: Known,
    *,
    features: Sequence[int | str] | None = None,
    scores: Sequence[str] | None = None,
    rows: int = 200,
    trials: int = 10_000,
    limit: int | None = None,
    budget: Budget | None = None,
    scaled: bool = True,
    batch_size: int = 1024,
    seed: int = 0,
) -> Iterator[RenderableType]:
    """What is to be printed, piece by piece as it is found; the verdict stands near the end.

    A budget is for all of it: each audit takes as many rows or trials as it can measure in half of its share, and
    proves what it can in the rest.
    """
    _check_places(folder, known, scaled)
    folder.mkdir(parents=True, exist_ok=True)
    time_left = (Budget(None) if budget is None else budget).part(1 - WRITING)
    table, plane = known.kind == "tabular", known.shape == (2,)
    names = known.features if table else None
    written: list[str] = []
    x, _ = known.test.take(slice(0, rows))

    def keep(name: str, record: Record, figure: Figure) -> None:
        path = folder / name
        record.save(path)
        save_figure(figure, path.with_suffix(".svg"))
        written.extend([str(path), str(path.with_suffix(".svg"))])

    if scaled:
        scale = partial(
            scaling,
            model,
            features=features,
            names=names,
            scores=scores,
            batch_size=batch_size,
            seed=seed,
        )
        count = _affordable(
            time_left.part(0.25), len(x), lambda some: scale(x[:some], progress=False)
        )
        noticed = scale(x[:count])
        keep(SCALING, noticed, scaling_figure(noticed))
        yield scaling_table(noticed)
        yield from _fewer("rows", count, len(x))
    if table:
        move = partial(
            per_feature, model, features=features, names=names, classes=known.classes, seed=seed
        )
        share = time_left.part(0.4)
        count = _affordable(
            share.part(MEASURING), len(x), lambda some: move(x[:some], limit=0, progress=False)
        )
        moved = move(x[:count], limit=limit, budget=share)
        keep(FEATURES, moved, feature_figure(moved))
        yield feature_table(moved)
        yield from _fewer("rows", count, len(x))
    share, scatter = (
        time_left.part(0.6 if plane else 1.0),
        partial(overconfidence, model, box=box_of(known), seed=seed),
    )
    # with no time at all, rays that could be followed are left out, and others are not
    provable = (
        budget is None
        or scatter(trials=2, limit=limit, budget=NO_TIME, rays=0, progress=False).unfollowed
    )
    count = _affordable(
        share.part(MEASURING if provable else 1 - WRITING),
        trials,
        lambda some: scatter(trials=some, limit=0, rays=0, progress=False),
    )
    far = scatter(trials=count, limit=limit, budget=share)
    keep(AUDIT, far, audit_figure(far))
    yield audit_tables(far, known.classes)
    yield from _fewer("trials", count, trials)
    if plane and far.law == "affine" and far.draws == 1:
        try:
            drawn = regions_in(model, _window(known), known, limit=MOST, budget=time_left)
        except CrowdedError as error:
            yield f"Linear regions around the data are not drawn: {escape(str(error))}.\n"
        else:
            keep(REGIONS, drawn, regions_figure(drawn))
            yield f"{drawn.count} linear regions around the data, {drawn.unbounded} of which go on to infinity.\n"
    yield escape(f"\nSaved: {', '.join(written)}")


def _check_places(folder: Path, known: Known, scaled: bool) -> None:
    """An error, before the work, if something that others wrote stands where records and figures will."""
    kinds = {
        SCALING: Scaling if scaled else None,
        FEATURES: FeatureAudit if known.kind == "tabular" else None,
        AUDIT: Audit,
        REGIONS: Regions if known.shape == (2,) else None,
    }
    for name, kind in kinds.items():
        if kind is not None:
            check_replaceable(folder / name, f"{kind.__name__} record")
            check_replaceable((folder / name).with_suffix(".svg"), FIGURE)


def _affordable(budget: Budget, total: int, work: Callable[[int], Any]) -> int:
    """How many items the budget allows, while a bar says that this is being found out."""
    with bar(None, "see what fits the budget") as shown:

        def step(count: int) -> None:
            work(count)
            shown.advance(count)

        return budget.affordable(total, step)


def _fewer(what: str, count: int, wanted: int) -> Iterator[str]:
    """That a budget was not enough for all, if so."""
    if count < wanted:
        yield f"Of {wanted:,} {what} the budget allowed {count:,}.\n"


def _window(known: Known) -> list[tuple[float, float]]:
    """A square around the data, half as wide again."""
    low, high = box_of(known)
    middle, half = (low + high) / 2, 0.75 * float((high - low).max())
    return [(at - half, at + half) for at in middle.tolist()]
