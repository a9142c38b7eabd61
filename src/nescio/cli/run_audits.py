"""All audits of one run: records and figures in a folder, tables and a verdict to print."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.markup import escape
from torch import Tensor

from nescio.audit import overconfidence, per_feature, regions_in, scaling
from nescio.audit.affine.plane import CrowdedError
from nescio.audit.budget import Budget
from nescio.audit.inputs import box_of
from nescio.data import Known
from nescio.files import FIGURE, check_replaceable
from nescio.methods.method import Method
from nescio.progress import bar
from nescio.records import Audit, Record
from nescio.report.audit import audit_figure, audit_tables
from nescio.report.feature_audit import feature_figure, feature_table
from nescio.report.figures import save_figure
from nescio.report.regions import regions_figure
from nescio.report.scaling import scaling_figure, scaling_table
from nescio.store.run import AUDIT, FEATURES, REGIONS, SCALING

MAX_REGIONS = 20_000  # linear regions to draw
WRITING_FRACTION = 0.05  # of a budget, for figures and files
MEASURING_FRACTION = 0.5  # of an audit's part of it; the other half is for proofs
NO_TIME = 1e-9  # seconds
KINDS = {AUDIT: "Audit", SCALING: "Scaling", FEATURES: "FeatureAudit", REGIONS: "Regions"}


@dataclass(frozen=True)
class RunAudits:
    """All audits of a trained model, and the folder for their records and figures.

    The budget is for all of them: each takes as many rows or trials as it can measure in half of
    its time, and proves what it can in the rest.
    """

    folder: Path
    model: Method
    known: Known
    features: Sequence[int | str] | None = None
    scores: Sequence[str] | None = None
    rows: int = 200
    trials: int = 10_000
    limit: int | None = None
    budget: Budget | None = None
    scaled: bool = True
    batch_size: int = 1024
    seed: int = 0
    written: list[str] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)  # by the name of the file

    def run(self) -> Iterator[RenderableType]:
        """Yield what to print, as it is found; the verdict comes near the end."""
        tabular, plane = self.known.kind == "tabular", self.known.shape == (2,)
        for name in [AUDIT, *[SCALING] * self.scaled, *[FEATURES] * tabular, *[REGIONS] * plane]:
            check_replaceable(self.folder / name, f"{KINDS[name]} record")
            check_replaceable((self.folder / name).with_suffix(".svg"), FIGURE)
        self.folder.mkdir(parents=True, exist_ok=True)
        time_left = (self.budget or Budget(None)).part(1 - WRITING_FRACTION)
        x, _ = self.known.test.take(slice(0, self.rows))
        names = self.known.features if tabular else None
        columns: dict[str, Any] = {"features": self.features, "names": names}
        if self.scaled:
            yield from self._scaling(x, time_left.part(0.25), **columns)
        if tabular:
            yield from self._per_feature(x, time_left.part(0.4), **columns)
        far = self._overconfidence(time_left.part(0.6 if plane else 1.0))
        yield audit_tables(far, self.known.classes)
        yield from _fewer("trials", far.trials, self.trials)
        if plane and far.law == "affine" and far.draws == 1:
            yield self._regions(time_left)
        yield escape(f"\nSaved: {', '.join(self.written)}")

    def _scaling(self, x: Tensor, budget: Budget, **columns: Any) -> Iterator[RenderableType]:
        columns |= {"scores": self.scores, "batch_size": self.batch_size, "seed": self.seed}
        scale = partial(scaling, self.model, **columns)
        count = _affordable(budget, len(x), lambda n: scale(x=x[:n], progress=False))
        record = scale(x=x[:count])
        self._save(SCALING, record, scaling_figure(record))
        yield scaling_table(record)
        yield from _fewer("rows", count, len(x))

    def _per_feature(self, x: Tensor, budget: Budget, **columns: Any) -> Iterator[RenderableType]:
        columns |= {"classes": self.known.classes, "seed": self.seed}
        move = partial(per_feature, self.model, **columns)
        measuring = budget.part(MEASURING_FRACTION)
        count = _affordable(measuring, len(x), lambda n: move(x=x[:n], limit=0, progress=False))
        record = move(x=x[:count], limit=self.limit, budget=budget)
        self._save(FEATURES, record, feature_figure(record))
        yield feature_table(record)
        yield from _fewer("rows", count, len(x))

    def _overconfidence(self, budget: Budget) -> Audit:
        shoot = partial(overconfidence, self.model, box=box_of(self.known), seed=self.seed)
        quick = partial(shoot, rays=0, progress=False)
        # without any time, rays that could be followed are left out, and others are not
        probe = partial(quick, trials=2, limit=self.limit, budget=NO_TIME)
        provable = self.budget is None or probe().unfollowed
        measuring = budget.part(MEASURING_FRACTION if provable else 1 - WRITING_FRACTION)
        count = _affordable(measuring, self.trials, lambda n: quick(trials=n, limit=0))
        record = shoot(trials=count, limit=self.limit, budget=budget)
        self._save(AUDIT, record, audit_figure(record))
        return record

    def _regions(self, budget: Budget) -> str:
        window = _window(self.known)
        try:
            record = regions_in(self.model, window, self.known, limit=MAX_REGIONS, budget=budget)
        except CrowdedError as error:
            return f"Linear regions around the data are not drawn: {escape(str(error))}.\n"
        self._save(REGIONS, record, regions_figure(record))
        return f"{record.count} linear regions around the data, {record.unbounded} unbounded.\n"

    def _save(self, name: str, record: Record, figure: Figure) -> None:
        path = self.folder / name
        record.save(path)
        self.records[path.stem] = record
        save_figure(figure, path.with_suffix(".svg"))
        self.written.extend([str(path), str(path.with_suffix(".svg"))])


def _affordable(budget: Budget, total: int, work: Callable[[int], Any]) -> int:
    """Return how many items the budget allows."""
    with bar(None, "see what fits the budget") as shown:

        def step(count: int) -> None:
            work(count)
            shown.advance(count)

        return budget.affordable(total, step)


def _fewer(what: str, count: int, wanted: int) -> Iterator[str]:
    """Say that the budget was not enough for all, if so."""
    if count < wanted:
        yield f"Of {wanted:,} {what} the budget allowed {count:,}.\n"


def _window(known: Known) -> list[tuple[float, float]]:
    """Return a square around the data, half as wide again."""
    low, high = box_of(known)
    middle, half = (low + high) / 2, 0.75 * float((high - low).max())
    return [(at - half, at + half) for at in middle.tolist()]
