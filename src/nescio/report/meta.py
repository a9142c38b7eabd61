"""The weights of a meta-classifier: a table, bars and their page part."""

from markupsafe import Markup
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.records import MetaWeights
from nescio.report.figures import COLOURS, despine, plot_text
from nescio.report.html import MAX_DRAWN, figure, heading, not_drawn, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Styled, Table, join

NOTE = "Weights of standardised features; positive: higher values make the answer less trusted."


def _learned_from(record: MetaWeights) -> str:
    unknown = "".join(f", {count} of {name}" for name, count in record.unknown.items())
    return f"{record.right} correct and {record.wrong} wrong answers{unknown}"


def nonzero_weights(record: MetaWeights) -> dict[str, float]:
    """Return the features with a weight, the largest first; raise for a network."""
    if not isinstance(record, MetaWeights):
        raise NescioError(
            f"expected the record of a fitted MetaClassifier, got {record!r}; a loaded detector "
            "has none: save it as well, with detector.record.save(path)"
        )
    if record.weights is None:
        hint = "fit a regression, such as kind='lasso', to see what counts"
        raise NescioError(f"a network has no single weight for a feature; {hint}")
    pairs = zip(record.features, record.weights, strict=True)
    ordered = sorted(pairs, key=lambda pair: -abs(pair[1]))
    return {name: weight for name, weight in ordered if weight}


def weights_table(record: MetaWeights) -> Table:
    """Return the nonzero weights, the largest first, and what they were learned from.

    >>> detector = nescio.MetaClassifier(net, features=["entropy", "l2"])
    >>> noise = nescio.data.noise.samples("uniform", known.test, 200)
    >>> table = weights_table(detector.fit(known.test, unknown={"uniform": noise}).record)
    """
    weights = nonzero_weights(record)
    counts = f"{len(weights)} of {len(record.features)} features have a weight"
    title = f"{record.kind}: {counts}; learned from {_learned_from(record)}"
    rows = [(name, Styled(f"{weight:+.3f}", weight)) for name, weight in weights.items()]
    return Table(title, ("feature", "weight"), rows, [NOTE])


def weights_figure(record: MetaWeights, most: int = 30) -> Figure:
    """Draw the largest weights as bars: to the right those that speak against an answer.

    >>> detector = nescio.MetaClassifier(net, features=["entropy", "l2"])
    >>> noise = nescio.data.noise.samples("uniform", known.test, 200)
    >>> figure = weights_figure(detector.fit(known.test, unknown={"uniform": noise}).record)
    """
    weights = dict(list(nonzero_weights(record).items())[:most])
    figure = Figure(figsize=(7, 1.2 + 0.24 * max(1, len(weights))), layout="constrained")
    axes = figure.subplots()
    colours = [COLOURS[1] if weight > 0 else COLOURS[0] for weight in weights.values()]
    axes.barh(range(len(weights)), list(weights.values()), color=colours, height=0.7)
    axes.set_yticks(range(len(weights)), [plot_text(name) for name in weights], fontsize=9)
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_xlabel("weight of the standardised feature  (positive: less trust)")
    title = f"{record.kind}: {len(weights)} of {len(record.features)} features"
    title += ", the largest weights" if len(weights) == most else ""
    axes.set_title(title, loc="left", fontsize=11)
    despine(axes, left=True)
    axes.tick_params(axis="y", length=0)
    return figure


def meta_html(context: ReportContext) -> Markup:
    """Return the weights of each meta-classifier."""
    records, parts = context.unique(MetaWeights), []
    for i, (name, record) in enumerate(records):
        parts += [heading(name)] if len(records) > 1 else []
        if record.weights is None:
            words = f"{record.kind}, learned from {_learned_from(record)}: a network, which has no "
            parts.append(paragraphs([f"{words}single weight for a feature."]))
            continue
        table = weights_table(record)
        parts.append(paragraphs([f"{table.title}."]))
        if weights := nonzero_weights(record):
            first = next(iter(weights))
            alt = f"{name}: the largest weight is that of {first}, {weights[first]:+.3f}."
            parts += [figure(weights_figure(record), alt)] if i < MAX_DRAWN else []
            parts.append(Table(NOTE, table.columns, table.rows).html())
    return join([*parts, not_drawn(len(records), "meta-classifiers are")])
