"""What a model does as inputs are scaled to infinity: words, tables, a figure and its page part."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from rich.console import Group, RenderableType
from rich.text import Text

from nescio.metrics.percent import percent
from nescio.records import Audit, FeatureAudit, Fitted, Map, Ray
from nescio.report.figures import COLOURS, Style, despine, plot_text, title_left, with_legend
from nescio.report.html import MAX_DRAWN, figure, model_part, not_drawn, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Percent, Table, join
from nescio.report.words import short_number, times

MAJORITY = 0.5  # fraction of directions above which they are most of them
MAX_CLASSES = 10  # that rays end in, the most frequent first
MAX_BREAKPOINTS = 60  # of a ray that are drawn as dots; more would hide the line
BASIS = {"affine": "proved, by affine maps", "kernels": "proved, by kernels", "unknown": "measured"}


def audit_words(record: Audit) -> list[str]:
    """Return the verdict in sentences; the first says it all.

    >>> record = nescio.audit.overconfidence(net, known.test.inputs[:5], trials=5)
    >>> print(audit_words(record)[0].partition(";")[0])
    Along 100.0 % of 5 directions the confidence of this network provably → 1 as the input is scaled
    """
    words = _affine(record) if record.law == "affine" else _kernels(record)
    if record.law == "unknown":
        first = f"This network is not piecewise affine: along {_directions(record)} nothing is "
        words = [f"{first}proved about its limit.", f"As far as measured, {_reaches(record)}."]
    back = "projected back into the box of the data"
    bold = f"of the {_noun(record)}s are answered with a confidence above {percent(record.bold)}"
    if record.overconfident is not None and record.reached:
        words.append(f"Scaled that far and {back}, {percent(record.overconfident)} {bold}.")
    if (ever := record.ever_overconfident) is not None:
        words.append(f"At one factor or another, {percent(ever)} {bold} when {back}.")
    if record.unfollowed and record.budget is not None:
        exact = record.proved if record.unknown_exact is None else record.unknown_exact
        proved = round(exact * record.trials)
        others = "measured" if record.unknown_exact is None else "upper bounds only"
        counts = f"Factors proved: {proved:,}; {others}: {record.trials - proved:,}."
        words.append(f"{counts} {more_time(record.budget)}")
    return words


def far_away_words(record: Audit) -> str:
    """Return what a model does far away, in one sentence."""
    everywhere = f"along all {record.trials:,} directions tried"
    if record.law == "affine":
        if record.ends_certain == 1:
            return f"Far away its confidence tends to 1 for any input, {everywhere}."
        tends = "tends" if (record.ends_certain or 0.0) > MAJORITY else "does not tend"
        return f"Far away its confidence {tends} to 1 along most directions."
    if record.law == "kernels":
        if record.ends_unknown == 1:
            return f"Far away it reports that it does not know, {everywhere}."
        most = (record.ends_unknown or 0.0) > MAJORITY
        reports = "reports" if most else "is not proved to report"
        return f"Far away it {reports} that it does not know, along most directions."
    seen = "was" if record.reached > MAJORITY else "was not"
    return f"Far away it {seen} observed to become certain along most directions."


def _affine(record: Audit) -> list[str]:
    certain = record.ends_certain or 0.0
    first = f"Along {percent(certain)} of {_directions(record)} the confidence of this network "
    words = [f"{first}provably → 1 as the input is scaled; {_reaches(record)}."]
    if certain < 1 and record.end_confidence is not None:
        least, _, median, _, _ = record.end_confidence
        limit = f"confidence in the limit is at least {percent(least)}, median {percent(median)}"
        several = f"Its {record.draws} samples need not agree there: the"
        words.append(f"{several if record.draws > 1 else 'The'} {limit}.")
    return words


def _kernels(record: Audit) -> list[str]:
    eps = percent(record.eps)
    low = {
        "kernel": f"with a confidence below {eps}",
        "softmax": f"with every probability within {eps} of 1/{record.classes}",
        None: f"with a confidence at most {eps} above its least",
    }[record.confidence_kind]
    first = f"Along {percent(record.ends_unknown or 0.0)} of {_directions(record)} this network "
    first += f"provably ends uncertain, {low}"
    if record.unknown_factor is not None:
        latest = "" if record.unknown_exact == 1 else " at the latest"
        scaled = f"when scaled {times(record.unknown_factor)} or more"
        start = "unscaled and at any larger factor" if record.unknown_factor == 1 else scaled
        first += f"; the median {_noun(record)} does so {start}{latest}"
    return [f"{first}.", f"Before that, {_reaches(record)}."]


def _noun(record: Audit) -> str:
    return "point" if record.drawn else "input"


def _directions(record: Audit) -> str:
    through = ", through random points in the box of the data," if record.drawn else ""
    return f"{record.trials:,} directions{through}"


def _reaches(record: Audit) -> str:
    """Return how far inputs are scaled until the model is certain."""
    level, noun = percent(record.certain), _noun(record)
    if record.median_factor is None:
        never = "never reaches" if record.proved == 1 else "was not observed to reach"
        reached = f"but {percent(record.reached)} of them do"
        some = reached if record.reached else "nor does any other"
        return f"the median {noun} {never} a confidence of {level}, {some}"
    if record.median_factor == 1:
        return f"{percent(record.at_once)} of the {noun}s have a confidence of {level} unscaled"
    some = f" ({percent(record.proved)} of the factors are proved, the others measured)"
    basis = {0.0: " (measured)", 1.0: ""}.get(record.proved, some)
    factor = times(record.median_factor)
    return f"the median {noun} must be scaled {factor} for a confidence of {level}{basis}"


def more_time(seconds: float) -> str:
    """Return that a longer budget proves more.

    >>> more_time(60.0), more_time(600.0)
    ('A budget of more than 60 s proves more.', 'A budget of more than 10 min proves more.')
    """
    budget = f"{seconds / 60:g} min" if seconds > 120 and not seconds % 60 else f"{seconds:.3g} s"
    return f"A budget of more than {budget} proves more."


def audit_tables(record: Audit, classes: Sequence[str] = ()) -> RenderableType:
    """Return the verdict, and the classes in which rays end certain; `classes` are their names."""
    (first, *others), table = audit_words(record), _classes_table(record, classes)
    return Group(Text(first, style="bold"), *map(Text, others), *([table] if table else []))


def _classes_table(record: Audit, classes: Sequence[str]) -> Table | None:
    """Return the classes in which rays end certain, the most frequent first."""
    names = dict(enumerate(classes))
    counted = [(label, count) for label, count in enumerate(record.ends_in or ()) if count]
    ends = sorted(counted, key=lambda end: -end[1])
    named = [(names.get(label, f"class {label}"), count) for label, count in ends[:MAX_CLASSES]]
    if others := ends[MAX_CLASSES:]:
        named.append((f"{len(others)} others", sum(count for _, count in others)))
    rows = [(name, count, Percent(count / record.trials)) for name, count in named]
    columns = ["class", "directions", "fraction"]
    return Table("Classes in which rays end certain", columns, rows) if rows else None


def audit_figure(record: Audit) -> Figure:
    """Draw confidence along some rays with breakpoints and limits, and how many are certain.

    >>> figure = audit_figure(nescio.audit.overconfidence(net, known.test.inputs[:5], trials=5))
    """
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, ray in zip(COLOURS, record.rays, strict=False):
        _draw_ray(left, ray, colour)
    left.axhline(record.certain, color="0.4", linewidth=0.8, linestyle=":")
    least = 0.0 if record.law == "kernels" else 1 / record.classes
    left.set(xscale="log", ylim=(least - 0.02, 1.02), xlabel="factor", ylabel="confidence")
    left.set_title(f"{len(record.rays)} of the {_noun(record)}s", loc="left", fontsize=10)
    _draw_fractions(right, record)
    despine(left, right)
    for axes in (left, right):
        axes.margins(x=0)
        low, high = axes.get_xlim()
        axes.xaxis.set_major_formatter(_tick)
        axes.xaxis.set_minor_formatter(_tick if high < 100 * low else NullFormatter())
    box = " drawn in the box of the data" if record.drawn else ""
    what = f"{record.trials:,} {_noun(record)}s{box}"
    title_left(figure, f"{plot_text(record.method)}: {what}, scaled to infinity")
    return with_legend(figure, left, right)


def _tick(factor: float, _: int | None = None) -> str:
    """Label powers of ten and, of small factors, 2 and 5 times them."""
    digits = f"{factor:.0e}"
    if digits[0] in "125" and factor < 1e5:
        return f"{factor:,.10g}"
    return digits if digits[0] == "1" else ""


def _draw_ray(axes: Axes, ray: Ray, colour: str) -> None:
    axes.plot(ray.factors, ray.confidence, color=colour, linewidth=1.6)

    def height(factor: float) -> float:
        return float(np.interp(math.log(factor), np.log(ray.factors), ray.confidence))

    key: Style = {"color": "black", "linestyle": "none"}  # in the legend once for all rays
    if ray.breakpoints:
        dots = ray.breakpoints[:: (len(ray.breakpoints) - 1) // MAX_BREAKPOINTS + 1]
        axes.plot(dots, [height(dot) for dot in dots], ".", color=colour, markersize=4)
        axes.plot([], [], ".", markersize=4, label="breakpoint: the affine map changes", **key)
    for factor, marker, label in (
        (ray.certain_from, "^", "certain for the first time"),
        (ray.unknown_from, "v", "uncertain from here on"),
        (ray.start, "|", "one affine map from here on"),
    ):
        if factor is not None:
            mark: Style = {"color": colour, "markersize": 7, "markeredgewidth": 1.4}
            axes.plot([factor], [height(factor)], marker, **mark)
            axes.plot([], [], marker, markersize=7, label=label, **key)
    if ray.asymptote is not None:
        dashed: Style = {"linewidth": 0.9, "linestyle": "--"}
        axes.plot(ray.factors, ray.asymptote, color=colour, alpha=0.8, **dashed)
        axes.plot([], [], color="black", label="the affine map at infinity", **dashed)


def _draw_fractions(axes: Axes, record: Audit) -> None:
    """Draw the fraction of inputs that are certain, or uncertain from there on, by factor."""
    curves = [(record.factors, COLOURS[0], f"fraction certain ({percent(record.certain)})")]
    if record.unknown_factors is not None:
        curves.append((record.unknown_factors, COLOURS[1], "fraction uncertain from there on"))
    every = [value for factors, _, _ in curves for value in factors if value is not None]
    for factors, colour, label in curves:
        known = [value for value in factors if value is not None]
        y = np.linspace(0, 1, len(factors))[: len(known)]
        x = [*known, max(10.0, 2 * max(every, default=1.0))]
        label += "" if known else ": none"
        style: Style = {"color": colour, "linewidth": 1.8, "label": label}
        axes.step(x, [*y, y[-1] if len(y) else 0.0], where="post", **style)
    ylabel = f"fraction of {_noun(record)}s"
    axes.set(xscale="log", ylim=(-0.02, 1.04), xlabel="factor", ylabel=ylabel)
    axes.set_title("how many up to a factor", loc="left", fontsize=10)


def audit_html(context: ReportContext) -> Markup:
    """Return a table of several audits, and words, figure and classes of each."""
    audits = context.unique(Audit)
    parts = [_comparison_table(audits).html()] if len(audits) > 1 else []
    for name, record in audits[:MAX_DRAWN]:
        inside = paragraphs([*audit_words(record), _basis_words(record)])
        inside += _figure_html(name, record)
        kinds = FeatureAudit | Fitted | Map  # which have names of its classes
        others = (r for other, r in context.records if other == name and isinstance(r, kinds))
        named = (record.classes for record in others)
        classes = next((names for names in named if len(names) == record.classes), ())
        inside += table.html() if (table := _classes_table(record, classes)) else ""
        parts.append(model_part(f"{name}: scaled to infinity", inside, len(audits)))
    return join([*parts, not_drawn(len(audits), "models are")])


def _figure_html(name: str, record: Audit) -> Markup:
    what, later = f"{_noun(record)}s", " or uncertain from there on"
    certain = f"certain{'' if record.unknown_factors is None else later}"
    dashed = any(ray.asymptote for ray in record.rays)
    limit = ", dashed the affine map at infinity" if dashed else ""
    caption = f"Left: confidence in some {what} as they are scaled{limit}. "
    caption += f"Right: the fraction of all {what} that are {certain} by then."
    alt = f"{name}. Fraction of {record.trials:,} {what} that become certain as they are scaled: "
    alt += f"{percent(record.reached)} in the end."
    if ends := [ray.confidence[-1] for ray in record.rays]:
        last = short_number(max(ray.factors[-1] for ray in record.rays))
        between = f"they end between {min(ends):.3g} and {max(ends):.3g}"
        alt += f" Confidence in {len(ends)} {what} as they are scaled by 1 to {last}; {between}."
    return figure(audit_figure(record), alt, caption)


def _comparison_table(audits: Sequence[tuple[str, Audit]]) -> Table:
    columns = ["model", "basis", "confidence provably → 1", "provably ends uncertain"]
    columns += ["median factor until certain", "certain unscaled", "projected back: overconfident"]
    columns, rows = [*columns, "at one factor or another"], []
    for name, audit in audits:
        limits = map(Percent, (audit.ends_certain, audit.ends_unknown))
        others = map(Percent, (audit.at_once, audit.overconfident, audit.ever_overconfident))
        rows.append((name, BASIS[audit.law], *limits, audit.median_factor, *others))
    drawn = all(audit.drawn for _, audit in audits)
    what = "Random points in the box of the data" if drawn else "Inputs"
    title = f"{what}, scaled to infinity; a dash is what does not apply, or never happens."
    return Table(title, columns, rows, digits=2)


def _basis_words(record: Audit) -> str:
    """Return what of the verdict is proved, and what is measured."""
    if record.law == "unknown":
        return (
            "All of this is measured: the network is neither piecewise affine nor made of kernels, "
            "so its confidence was computed at growing factors; beyond these anything may happen."
        )
    if record.law == "kernels":
        return (
            "That it ends uncertain is proved: every kernel decreases with the distance to its "
            "centroid, and beyond the factor given no centroid is near again. Where it is certain "
            "before that was measured."
        )
    whole = {0.0: "the factors were measured", 1.0: "all factors are exact"}
    some = f"{percent(record.proved)} of the factors are exact, the others measured"
    exact = whole.get(record.proved, some)
    each = " of each sample" if record.draws > 1 else ""
    return (
        "The limits are proved, not measured: the network is piecewise affine, so along every ray "
        f"one affine map{each} holds for all larger factors and determines the limit. As to when "
        f"{_noun(record)}s become certain, {exact}."
    )
