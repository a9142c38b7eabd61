"""What a model does far away from its data: along rays, along each feature, and what is proved of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup
from matplotlib.figure import Figure

from nescio.metrics.percent import percent
from nescio.records import Audit, FeatureAudit, Fitted, Map, Monotonicity, Regions, Scaling
from nescio.report.markup import Cell, Shown, apart, figure, heading, percentage, table
from nescio.report.overconfidence import audit_figure, noun, times, verdict
from nescio.report.per_feature import (
    explained,
    nearest_first,
    per_feature_cells,
    per_feature_figure,
)
from nescio.report.scaling import COLUMNS, scaling_cells, scaling_figure, worst_first
from nescio.report.section import DRAWN, ReportContext, Section, left_out, paragraphs

MOST = 40  # features that a figure shows; the table has all
ENDS = 10  # classes that rays end in
GREY = "0.75"  # of the many lines behind the telling ones


def section(given: ReportContext) -> Section | None:
    """Audits at infinity, of features, of scaling, of regions and of monotonicity."""
    audits = given.told_apart(Audit)
    parts = [_side_by_side(audits)] if len(audits) > 1 else []
    parts += [
        _audit(name, record, _classes(given, name, record), len(audits))
        for name, record in audits[:DRAWN]
    ]
    parts += [left_out(len(audits), "models are")]
    moved = [(name, record) for name, record in given.told_apart(FeatureAudit) if record.features]
    parts += [_features(name, record) for name, record in moved[:DRAWN]]
    parts += [_scaling(name, record) for name, record in given.told_apart(Scaling)[:DRAWN]]
    parts += [_regions(name, record) for name, record in given.told_apart(Regions)]
    parts += [_monotone(name, record) for name, record in given.told_apart(Monotonicity)]
    return (
        Section("infinity", "Far away from the data", body)
        if (body := Markup("").join(parts))
        else None
    )


def _side_by_side(audits: Sequence[tuple[str, Audit]]) -> Markup:
    columns = [
        "model",
        "how it is known",
        "rays proved to end certain, %",
        "rays proved to end not knowing, %",
        "median factor until certain",
        "certain as they are, %",
        "put back into the box: overconfident, %",
    ]
    known = {
        "affine": "proved, by its affine laws",
        "kernels": "proved, by its kernels",
        "unknown": "measured only",
    }
    rows: list[list[Cell]] = []
    for name, one in audits:
        shares = (one.ends_certain, one.ends_unknown, one.at_once, one.overconfident)
        certain, unknown, at_once, bold = map(percentage, shares)
        rows.append([name, known[one.law], certain, unknown, one.median_factor, at_once, bold])
    scaled = (
        "Points drawn by chance in the box of the data"
        if all(one.drawn for _, one in audits)
        else "Inputs"
    )
    return table(
        columns,
        rows,
        f"{scaled}, scaled to infinity; a dash is what does not apply, or never happens.",
        2,
    )


def _classes(given: ReportContext, name: str, record: Audit) -> Sequence[str]:
    """What the classes of an audited model are called by another record of its name, if one does; else numbers."""
    named = (
        one.classes
        for called, one in given.records
        if called == name and isinstance(one, FeatureAudit | Fitted | Map)
    )
    found = next((classes for classes in named if len(classes) == record.classes), None)
    return found or [
        f"class {label}" for label in range(len(record.ends_in or ()))
    ]  # a damaged count may be anything


def _audit(name: str, record: Audit, classes: Sequence[str], of: int) -> Markup:
    drawn = figure(audit_figure(record), f"{name}. {_rays_in_words(record)}", _caption(record))
    inside = paragraphs([*verdict(record), _ground(record)]) + drawn + _endings(record, classes)
    return apart(f"{name}: on the way to infinity", inside, of)


def _caption(record: Audit) -> str:
    law = (
        ", dashed the law that holds at infinity"
        if any(ray.asymptote for ray in record.rays)
        else ""
    )
    more = "" if record.unknown_factors is None else ", or know nothing any more,"
    what = f"{noun(record)}s"
    return (
        f"Left: the confidence in some {what} as they are scaled{law}. Right: how many of all {what} are "
        f"certain{more} by then."
    )


def _ground(record: Audit) -> str:
    """What of the verdict is proved, and what is only measured."""
    if record.law == "unknown":
        return (
            "All of this is measured: the network is neither piecewise affine nor made of kernels, so confidences "
            "were computed at growing factors, and beyond the last of them anything may happen."
        )
    if record.law == "kernels":
        return (
            "That it ends not knowing is proved: every kernel falls with the distance to its centroid, and a "
            "factor is given after which no centroid is near again. When it is certain on the way was measured "
            "by a scan."
        )
    exact = f"{percent(record.proved)} of the factors are exact, the others measured"
    if record.proved in (0, 1):
        exact = "all factors are exact" if record.proved else "the factors were measured by a scan"
    each = " of each draw" if record.draws > 1 else ""
    return (
        f"Where rays end is proved, not measured: the network is piecewise affine, so one affine law{each} holds "
        f"along every ray from some factor on for ever, and decides. As to when {noun(record)}s turn certain, "
        f"{exact}."
    )


def _rays_in_words(record: Audit) -> str:
    """The figure for those who do not see it."""
    ends, what = [ray.confidence[-1] for ray in record.rays], f"{noun(record)}s"
    if not ends:
        return (
            f"Share of {record.trials:,} {what} that are certain, by the factor they are scaled by"
        )
    low, high = (f"{bound(ends):.3g}" for bound in (min, max))
    last = max(ray.factors[-1] for ray in record.rays)
    end = (
        "all end above 0.99"
        if min(ends) > 0.99
        else f"they end between {low} and {high}"
        if low != high
        else (f"all end at {low}")
    )
    return (
        f"Confidence of {len(ends)} {what} as they are scaled by 1 to {_plain(last)}; {end}. Beside it, the share "
        f"of {record.trials:,} {what} that have become certain: {percent(record.reached)} at last."
    )


def _plain(factor: float) -> str:
    return f"{float(f'{factor:.3g}'):,.10g}"


def _endings(record: Audit, classes: Sequence[str]) -> Markup:
    if record.ends_in is None or not any(record.ends_in):
        return Markup("")
    counts = sorted(
        ((count, label) for label, count in enumerate(record.ends_in) if count), reverse=True
    )
    rows: list[list[Cell]] = [
        [classes[label], count, percentage(count / record.trials)] for count, label in counts[:ENDS]
    ]
    more = f" The {ENDS} most frequent of {len(counts)}." if len(counts) > ENDS else ""
    return table(["class", "directions", "%"], rows, f"Where rays end certain.{more}", 1)


def _features(name: str, record: FeatureAudit) -> Markup:
    drawn = replace(record, features=tuple(nearest_first(record)[:MOST]))
    more = (
        f" The nearest {MOST} of {len(record.features)} features."
        if len(record.features) > MOST
        else ""
    )
    columns, rows = per_feature_cells(record)
    return Markup("<h3>{}: one feature at a time</h3>{}{}{}{}").format(
        name,
        paragraphs([_nearest(record)]),
        figure(
            per_feature_figure(drawn),
            _bars_in_words(record),
            f"How far {_median_row(record)} must be moved along one feature.{more} Bars are as long as that is in "
            "spreads; the numbers beside them are in the feature’s own unit.",
        ),
        table(columns, rows, "The nearest first.", 2),
        paragraphs([" ".join(explained(record).split())]),
    )


def _nearest(record: FeatureAudit) -> str:
    first, cells = nearest_first(record)[0], per_feature_cells(record)[1][0]
    rows = f"Of {record.rows:,} rows {percent(record.already)} are answered with a confidence of "
    rows += f"{percent(record.confidence)} as they are."
    sides = [
        (way, one.text)
        for way, one in (("lower", cells[3]), ("higher", cells[6]))
        if isinstance(one, Shown)
    ]
    ways = [
        f"{way} by {distance}" for way, distance in sides if distance not in ("never", "already")
    ]
    if not ways:
        return rows
    there = "no longer knows anything" if record.eps is not None else "is certain"
    return (
        f"{rows} The nearest feature is {first.name}: with it moved {' or '.join(ways)}, the model {there} in "
        f"{_median_row(record)}."
    )


def _median_row(record: FeatureAudit) -> str:
    return (
        "the median row"
        if record.eps is not None
        else "the median of the rows it is not yet certain of"
    )


def _bars_in_words(record: FeatureAudit) -> str:
    names = ", ".join(one.name for one in nearest_first(record)[:3])
    return (
        f"Bars: how far each of {len(record.features)} features must be moved down (left) or up (right), in "
        f"standard deviations, until the model is sure or, of kernels, unsure; nearest are {names}."
    )


def _scaling(name: str, record: Scaling) -> Markup:
    columns, rows = scaling_cells(record)
    return Markup("<h3>{}: do scores notice?</h3>{}{}{}{}").format(
        name,
        paragraphs([_noticed(record)]),
        figure(
            _lean(scaling_figure(record)),
            _curves_in_words(record),
            "Above: the mean of each score. Below: how steeply it still changes; what falls to nothing notices "
            "nothing any more.",
        ),
        table(columns, rows, "Least noticed first.", 1),
        paragraphs([" ".join(COLUMNS.split())]),
    )


def _noticed(record: Scaling) -> str:
    moved = [one for one in worst_first(record) if one.scores is not None]
    missed = [one.name for one in moved if not any(course.notices for course in one.scores or ())]
    start = f"{record.inputs:,} test inputs were scaled up to {times(record.factors[-1])}. "
    if not missed:
        return f"{start}Along each of {len(moved)} directions at least one score notices."
    named = ", ".join(missed[:5]) + (f" and {len(missed) - 5} more" if len(missed) > 5 else "")
    return f"{start}Along {len(missed)} of {len(moved)} directions no score notices: {named}."


def _curves_in_words(record: Scaling) -> str:
    scores = ", ".join(gauge.label for gauge in record.gauges)
    return (
        f"Curves of {scores}: the mean over {record.inputs:,} inputs and the size of its gradient, as inputs are "
        f"scaled up to {times(record.factors[-1])}. {_noticed(record)}"
    )


def _lean(made: Figure) -> Figure:
    """With the many grey lines as one picture within the figure, which would else weigh most of the page."""
    for axes in made.axes:
        axes.set_rasterization_zorder(0)
        for line in axes.lines:
            if line.get_color() == GREY:
                line.set_zorder(-1)
    return made


def _regions(name: str, record: Regions) -> Markup:
    ends = "All of them end somewhere; those that decide what it says at infinity lie outside."
    if record.unbounded:
        ends = f"{record.unbounded:,} of them never end: these decide what it says at infinity."
    words = (
        f"In the window that is drawn under Maps it has {record.count:,} linear regions, on each of which it is "
        f"one affine function. {ends}"
    )
    return heading(f"{name}: linear regions") + paragraphs([words])


def _monotone(name: str, record: Monotonicity) -> Markup:
    return Markup("<h3>{}: is it monotonic?</h3>{}").format(
        name, paragraphs(list(_monotone_words(record)))
    )


def _monotone_words(record: Monotonicity) -> Iterator[str]:
    total, kept = len(record.features), len(record.monotone_features)
    box = "a box that goes on for ever on some side" if record.partially_unbounded else "a box"
    yield (
        f"Looked at {record.points:,} points of {box}: along {kept} of {total} features every class's probability "
        "was only seen to rise, or only to fall. This is a sampled test, and no proof."
    )
    if (found := record.counter_example) is not None:
        slopes = " and ".join(f"{slope:.3g}" for slope in found.slopes)
        kind = "slopes of both signs" if len(found.slopes) > 1 else "no slope"
        yield (
            f"That it is not monotonic everywhere is proved: along feature {found.feature} the probability of class "
            f"{found.label} has {kind} ({slopes})."
        )
