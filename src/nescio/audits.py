"""All audits of one run: records and figures in a folder, tables and a verdict to be printed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import RenderableType

from nescio.audit import per_feature, scaling
from nescio.data import Known
from nescio.methods.method import Method
from nescio.records import Record
from nescio.report.figures import save_figure
from nescio.report.per_feature import per_feature_figure, per_feature_table
from nescio.report.scaling import scaling_figure, scaling_table
from nescio.runs import FEATURES, SCALING


def audit_run(
    folder: Path,
    model: Method,
    known: Known,
    *,
    features: Sequence[int | str] | None = None,
    scores: Sequence[str] | None = None,
    rows: int = 200,
    trials: int = 10_000,
    limit: int = 400,
    scaled: bool = True,
    batch_size: int = 1024,
    seed: int = 0,
) -> Iterator[RenderableType]:
    """What is to be printed, piece by piece as it is found; the verdict comes last, where a reader looks first."""
    folder.mkdir(parents=True, exist_ok=True)
    x, _ = known.test.take(slice(0, rows))
    table = known.kind == "tabular"
    names = known.features if table else None
    saved: list[Path] = []

    def keep(name: str, record: Record, figure: Figure) -> None:
        record.save(folder / name)
        save_figure(figure, (folder / name).with_suffix(".svg"))
        saved.extend([folder / name, (folder / name).with_suffix(".svg")])

    if scaled:
        measured = scaling(model, x, features=features, names=names, scores=scores, batch_size=batch_size, seed=seed)
        keep(SCALING, measured, scaling_figure(measured))
        yield scaling_table(measured)
    if table:
        moved = per_feature(model, x, features=features, names=names, classes=known.classes, limit=limit, seed=seed)
        keep(FEATURES, moved, per_feature_figure(moved))
        yield per_feature_table(moved)
