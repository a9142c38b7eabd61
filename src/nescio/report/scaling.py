"""Whether scores flag inputs that are scaled away: words, a table, a figure and its page part."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.records import Course, Direction, Scaling
from nescio.report.figures import LINES, Style, despine, plot_text, title_left, with_legend
from nescio.report.html import MAX_DRAWN, figure, heading, paragraphs
from nescio.report.records import ReportContext
from nescio.report.table import Cell, Percent, Styled, Table, join
from nescio.report.words import listed, plural, short_number, times

NEVER = Styled("never", 1e300)  # sorted behind every factor
GREY = "0.75"  # of the many lines behind the telling ones
GRADIENT_RANGE = 1e-16  # gradients are drawn down to this fraction of the largest
NOTES = (
    "Inputs are multiplied by a factor in one feature (ray: in all), in raw units. Inputs that "
    "are 0 in a feature cannot be scaled, and do not count.",
    "certain from: factor from which the median confidence stays above 99.9 %. confidence: its "
    "mean at the largest factor.",
    "Under each score: fraction of inputs it flags there. Its threshold accepts 95 % of the "
    "unscaled inputs; flagged by: the scores that flag at least half.",
)


def worst_first(record: Scaling) -> list[Direction]:
    """Return the directions by how little they are flagged; those that move nothing last."""

    def badness(direction: Direction) -> tuple[bool, int, float, float]:
        flagging = sum(course.notices for course in direction.scores or ())
        final = 0.0 if direction.confidence is None else direction.confidence[-1]
        certain = math.inf if direction.certain_from is None else direction.certain_from
        return direction.scores is None, flagging, certain, -final

    return sorted(record.directions, key=badness)


def scaling_words(record: Scaling) -> list[str]:
    """Return whether any score flags inputs that are scaled, by feature and as a whole."""
    largest = times(record.factors[-1])
    moved = [way for way in record.directions if way.scores is not None]
    features = [way for way in moved if way.feature is not None]
    words = []
    missed = [way.name for way in features if not any(s.notices for s in way.scores or ())]
    count = plural(len(features), "feature")
    if missed:
        names = listed([f"“{name}”" for name in missed[:3]])
        names += " and others" if len(missed) > 3 else ""
        which = f"{len(missed)} are flagged by no score: {names}."
        words.append(f"Of {count} scaled up to {largest}, {which}")
    elif features:
        words.append(f"Each of {count}, scaled up to {largest}, is flagged by at least one score.")
    for ray in moved:
        if ray.feature is None:
            flagging = [course.score for course in ray.scores or () if course.notices]
            by = listed(flagging) if flagging else "no score"
            words.append(f"Whole inputs scaled up to {largest} are flagged by {by}.")
    return words


def scaling_table(record: Scaling) -> Table:
    """Return for each feature, worst first, then rays: when the model is certain, who flags it."""
    scores = [gauge.score for gauge in record.gauges]
    rows: list[list[Cell]] = []
    for way in sorted(worst_first(record), key=lambda each: each.feature is None):
        if way.scores is None or way.confidence is None:
            zero = Styled("0 everywhere", style="dim")
            rows.append([way.name, *[None] * (2 + len(scores)), zero])
            continue
        flagged = [Percent(course.flagged[-1]) for course in way.scores]
        factor = way.certain_from
        since = NEVER if factor is None else Styled(f"×{short_number(factor)}", factor)
        confidence = Percent(way.confidence[-1])
        rows.append([way.name, since, confidence, *flagged, _flagged_by(way.scores)])
    largest = short_number(record.factors[-1])
    title = f"{record.method}: {record.inputs} inputs, scaled up to ×{largest}"
    columns = ["feature", "certain from", "confidence"]
    columns += [*(f"{score} flags" for score in scores), "flagged by"]
    return Table(title, columns, rows, NOTES)


def _flagged_by(courses: Sequence[Course]) -> Styled:
    flagging = [course.score.replace("_", " ") for course in courses if course.notices]
    if not flagging:
        return Styled("none", style="red")
    several = "all" if len(flagging) == len(courses) else f"{len(flagging)} of {len(courses)}"
    return Styled(flagging[0] if len(flagging) == 1 else several, style="green")


def scaling_figure(record: Scaling) -> Figure:
    """Draw each score's mean and gradient norm as inputs are scaled, a line for each direction."""
    gauges = record.gauges
    figure = Figure(figsize=(max(6.0, 1.2 + 3.1 * len(gauges)), 6.4), layout="constrained")
    panels = figure.subplots(2, len(gauges), sharex=True, squeeze=False)
    for number, gauge in enumerate(gauges):
        above, below = panels[:, number]
        _draw_score(record, number, above, below)
        dotted: Style = {"color": "black", "linewidth": 0.9, "linestyle": ":"}
        above.axhline(gauge.threshold, label="threshold that accepts 95 %", **dotted)
        above.set_title(plot_text(gauge.label), fontsize=10)
        below.set_xlabel("factor")
    panels[0, 0].set_ylabel("mean score")
    panels[1, 0].set_ylabel("mean ‖∇ₓ score‖₂")
    scores = f"scores of {record.inputs} inputs as they are scaled"
    title_left(figure, f"{plot_text(record.method)}: {scores}")
    return with_legend(figure, panels[0, 0])


def _draw_score(record: Scaling, number: int, above: Axes, below: Axes) -> None:
    """Draw one score: telling features in colour, the others grey behind them, the ray black."""
    features = [way for way in record.directions if way.feature is not None]
    rays = [way for way in record.directions if way.feature is None]
    grey: Style = {"color": GREY, "linewidth": 0.7}
    styles = [(feature, grey) for feature in features]
    for way, colour in zip(_telling(record), LINES, strict=False):
        styles.append((way, {"color": colour, "linewidth": 1.8, "label": plot_text(way.name)}))
    black: Style = {"color": "black", "linewidth": 1.8, "linestyle": "--"}
    styles += [(way, {**black, "label": plot_text(way.name)}) for way in rays]
    for direction, style in styles:
        if direction.scores is not None:
            course = direction.scores[number]
            above.plot(record.factors, course.mean, **style)
            gradients = np.maximum(course.gradient_mean, np.finfo(float).tiny)
            below.plot(record.factors, gradients, **style)
    above.set_xscale("log")
    below.set_yscale("log")  # a vanished gradient leaves through the floor
    heights = [y for line in below.lines for y in np.asarray(line.get_ydata(), float)] or [1.0]
    below.set_ylim(max(max(heights) * GRADIENT_RANGE, min(heights)) / 3, max(heights) * 3)
    despine(above, below)
    above.margins(x=0)
    below.margins(x=0)


def _telling(record: Scaling) -> list[Direction]:
    """Return all features that move if they are few, else those flagged least and most."""
    features = (way for way in worst_first(record) if way.feature is not None)
    moved = [feature for feature in features if feature.scores is not None]
    half = len(LINES) // 2
    return moved if len(moved) <= len(LINES) else moved[:half] + moved[-half:]


def scaling_html(context: ReportContext) -> Markup:
    """Return words, figure and table of each record."""
    return join(_html(name, record) for name, record in context.unique(Scaling)[:MAX_DRAWN])


def _html(name: str, record: Scaling) -> Markup:
    words, drawn = scaling_words(record), scaling_figure(record)
    for axes in drawn.axes:  # the many grey lines, most of the bytes, become one bitmap
        axes.set_rasterization_zorder(0)
        for line in axes.lines:
            if line.get_color() == GREY:
                line.set_zorder(-1)
    scores = ", ".join(gauge.label for gauge in record.gauges)
    alt = f"Curves of {scores}: mean and gradient norm as inputs are scaled. {' '.join(words)}"
    caption = "Above: mean of each score. Below: its gradient; where it vanishes nothing reacts."
    parts = heading(f"{name}: do scores flag scaled inputs?") + paragraphs(words)
    return parts + figure(drawn, alt, caption) + scaling_table(record).html()
