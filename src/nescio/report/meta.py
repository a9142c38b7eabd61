"""What a meta-classifier looks at: its weights as a table and as bars."""

from matplotlib.figure import Figure
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nescio.errors import NescioError
from nescio.records import MetaWeights
from nescio.report.figures import COLOURS, shown
from nescio.report.tables import FIGURES

NOTE = "Weights are those of standardised features; above 0: the more, the less trust."


def learned_from(record: MetaWeights) -> str:
    """How many answers and unknown inputs taught it."""
    return f"{record.right} right and {record.wrong} wrong answers" + "".join(
        f", {count} of {name}" for name, count in record.unknown.items()
    )


def kept_weights(record: MetaWeights) -> dict[str, float]:
    """The features that count, the weightiest first; an error for a network, which has no weight for each."""
    if not isinstance(record, MetaWeights):
        raise NescioError(
            f"expected the record of a fitted MetaClassifier, not {record!r}; a detector that was loaded "
            "has none: save it too, by detector.record.save(path)"
        )
    if record.weights is None:
        raise NescioError(
            "a network has no single weight for a feature; fit a regression, such as kind='lasso', to "
            "see what counts"
        )
    pairs = zip(record.features, record.weights, strict=True)
    return {
        name: weight for name, weight in sorted(pairs, key=lambda pair: -abs(pair[1])) if weight
    }


def weights_table(record: MetaWeights) -> RenderableType:
    """The features that count, with their weights, the weightiest first, and what they were learned from."""
    found = kept_weights(record)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("feature", overflow="fold")
    table.add_column("weight", **FIGURES)
    for name, weight in found.items():
        table.add_row(Text(name), f"{weight:+.3f}")
    title = f"{record.kind}: {len(found)} of {len(record.features)} features count; learned from {learned_from(record)}"
    return Group(Text(title, style="bold"), table, Text(NOTE, style="dim"))


def weights_figure(record: MetaWeights, most: int = 30) -> Figure:
    """The weightiest features as bars: to the right those that speak against an answer."""
    found = dict(list(kept_weights(record).items())[:most])
    figure = Figure(figsize=(7, 1.2 + 0.24 * max(1, len(found))), layout="constrained")
    axes = figure.subplots()
    colours = [COLOURS[1] if weight > 0 else COLOURS[0] for weight in found.values()]
    axes.barh(range(len(found)), list(found.values()), color=colours, height=0.7)
    axes.set_yticks(range(len(found)), [shown(name) for name in found], fontsize=9)
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_xlabel("weight of the standardised feature  (above 0: the more, the less trust)")
    title = f"{record.kind}: {len(found)} of {len(record.features)} features"
    axes.set_title(
        title if len(found) < most else f"{title}, the weightiest", loc="left", fontsize=11
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure
