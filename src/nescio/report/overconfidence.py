"""What a model does on the way to infinity: a verdict in words, a table and a figure."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nescio.metrics.percent import percent
from nescio.records import Audit, Ray
from nescio.report.figures import COLOURS, legend_below, shown
from nescio.report.tables import FIGURES, new_table

ENDS = 5  # classes that rays end in, the most frequent first
BENDS = 60  # breakpoints of a ray that are drawn as dots; more would hide the line


def verdict(record: Audit) -> list[str]:
    """What a person should know, in sentences; the first says it all."""
    told = {"affine": _affine, "kernels": _kernels, "unknown": _measured}[record.law](record)
    return [*told, *_put_back(record), *_left_out(record)]


def _affine(record: Audit) -> list[str]:
    certain = record.ends_certain or 0.0
    whole = (
        f"Along {percent(certain)} of {_directions(record)} this network is proved to end certain"
    )
    sentences = [f"{whole}, whatever lies there; {_reaches(record)}."]
    if certain < 1 and record.end_confidence is not None:
        least, _, median, _, _ = record.end_confidence
        among = f"Its {record.draws} draws need not agree there: the" if record.draws > 1 else "The"
        sentences.append(
            f"{among} confidence at infinity is at least {percent(least)}, and {percent(median)} in the "
            "median."
        )
    return sentences


def _kernels(record: Audit) -> list[str]:
    share = record.ends_unknown or 0.0
    low = (
        f"at a confidence below {percent(record.eps)}"
        if record.method == "duq"
        else (f"with every probability within {percent(record.eps)} of 1/{record.classes}")
    )
    sentence = f"Along {percent(share)} of {_directions(record)} this network is proved to end not knowing, {low}"
    if record.unknown_factor is not None:
        latest = "" if record.unknown_exact == 1 else " at the latest"
        sentence += f"; the median {noun(record)} does so {_from(record.unknown_factor)}{latest}"
    return [sentence + ".", f"On the way {_reaches(record)}."]


def _measured(record: Audit) -> list[str]:
    return [
        f"This network is not piecewise affine: of what it does far away along {_directions(record)} nothing is "
        "proved.",
        f"As far as a scan saw, {_reaches(record)}.",
    ]


def noun(record: Audit) -> str:
    """What is scaled, in a word: nobody meets a point that was drawn by chance as an input."""
    return "point" if record.drawn else "input"


def _directions(record: Audit) -> str:
    through = ", through points drawn by chance in the box of the data," if record.drawn else ""
    return f"{record.trials:,} directions{through}"


def _reaches(record: Audit) -> str:
    """How far inputs are scaled until the model is certain."""
    bar, what = percent(record.certain), noun(record)
    if record.median_factor is None:
        never = "never reaches" if record.proved == 1 else "was not seen to reach"
        some = (
            f", but {percent(record.reached)} of them do" if record.reached else ", nor any other"
        )
        return f"the median {what} {never} a confidence of {bar}{some}"
    if record.median_factor == 1:
        return f"{percent(record.at_once)} of the {what}s have a confidence of {bar} as they are"
    measured = (
        ""
        if record.proved == 1
        else " (measured)"
        if record.proved == 0
        else (f" ({percent(record.proved)} of the factors are proved, the others measured)")
    )
    return f"the median {what} needs to be scaled {times(record.median_factor)} for a confidence of {bar}{measured}"


def _put_back(record: Audit) -> list[str]:
    if record.overconfident is None or record.reached == 0:
        return []
    return [
        f"Scaled so far and projected back into the box of the data, {percent(record.overconfident)} of the "
        f"{noun(record)}s are answered with a confidence above {percent(record.bold)}."
    ]


def _left_out(record: Audit) -> list[str]:
    """What a budget has left to be proved."""
    if not record.unfollowed or record.budget is None:
        return []
    share = record.proved if record.unknown_exact is None else record.unknown_exact
    proved = round(share * record.trials)
    return [
        f"Factors proved: {proved:,}; {'measured' if record.unknown_exact is None else 'only late enough'}: "
        f"{record.trials - proved:,}. {more_time(record.budget)}"
    ]


def more_time(seconds: float) -> str:
    """That a longer budget proves more.

    >>> more_time(60.0), more_time(600.0)
    ('A budget of more than 60 s proves more.', 'A budget of more than 10 min proves more.')
    """
    told = f"{seconds / 60:g} min" if seconds > 120 and seconds % 60 == 0 else f"{seconds:.3g} s"
    return f"A budget of more than {told} proves more."


def _from(factor: float) -> str:
    return "as it is, and for ever" if factor == 1 else f"for ever when scaled {times(factor)}"


def times(factor: float) -> str:
    """A factor in words, to three digits at most.

    >>> times(6.123), times(17782.8), times(1.0004)
    ('6.12 times', '17,800 times', '1.00 times')
    """
    return f"{factor:.2f} times" if factor < 10 else f"{float(f'{factor:.3g}'):,.10g} times"


def audit_tables(record: Audit, classes: Sequence[str] = ()) -> RenderableType:
    """The verdict, and the classes in which certain rays end; `classes` are their names."""
    first, *others = verdict(record)
    parts: list[RenderableType] = [Text(first, style="bold"), *map(Text, others)]
    if record.ends_in is not None and any(record.ends_in):
        parts.append(_endings(record.ends_in, record.trials, classes))
    return Group(*parts)


def _endings(counts: Sequence[int], trials: int, classes: Sequence[str]) -> Table:
    table = new_table("where rays end")
    table.add_column("class", overflow="fold")
    table.add_column("directions", **FIGURES)
    ordered = sorted(range(len(counts)), key=lambda label: -counts[label])
    for label in ordered[:ENDS]:
        if counts[label]:
            table.add_row(
                Text(classes[label] if label < len(classes) else str(label)),
                percent(counts[label] / trials),
            )
    if rest := sum(counts[label] for label in ordered[ENDS:]):
        table.add_row(
            Text(f"{sum(counts[label] > 0 for label in ordered[ENDS:])} others"),
            percent(rest / trials),
        )
    return table


def audit_figure(record: Audit) -> Figure:
    """The confidence along some rays with its breakpoints and its limit, and how many inputs are certain so far."""
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, ray in zip(COLOURS, record.rays, strict=False):
        _draw_ray(left, ray, colour)
    left.axhline(record.certain, color="0.4", linewidth=0.8, linestyle=":")
    least = 0.0 if record.law == "kernels" else 1 / record.classes
    left.set(xscale="log", ylim=(least - 0.02, 1.02), xlabel="factor", ylabel="confidence")
    left.set_title(f"{len(record.rays)} of the {noun(record)}s", loc="left", fontsize=10)
    _draw_shares(right, record)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
        low, high = axes.get_xlim()
        axes.xaxis.set_major_formatter(_plainly)
        axes.xaxis.set_minor_formatter(_plainly if high < 100 * low else NullFormatter())
    named = {
        label: handle
        for axes in (left, right)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }  # each once
    legend_below(figure, list(named.values()), list(named), size=9)
    drawn = " drawn in the box of the data" if record.drawn else ""
    title = (
        f"{shown(record.method)}: {record.trials:,} {noun(record)}s{drawn} on the way to infinity"
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _plainly(factor: float, _: int | None = None) -> str:
    """A factor at a tick: short axes have some between powers of ten, of which only the simplest are told."""
    digits = f"{factor:.0e}"
    return (
        f"{factor:,.10g}"
        if digits[0] in "125" and factor < 1e5
        else f"{factor:.0e}"
        if digits[0] == "1"
        else ""
    )


def _draw_ray(axes: Axes, ray: Ray, colour: str) -> None:
    axes.plot(ray.factors, ray.confidence, color=colour, linewidth=1.6)

    def height(factor: float) -> float:
        return float(np.interp(math.log(factor), np.log(ray.factors), ray.confidence))

    key: dict[str, Any] = {
        "color": "black",
        "linestyle": "none",
    }  # of what is in the legend once for all rays
    if ray.breakpoints:
        dots = (
            ray.breakpoints
            if len(ray.breakpoints) <= BENDS
            else ray.breakpoints[:: len(ray.breakpoints) // BENDS + 1]
        )
        axes.plot(dots, [height(dot) for dot in dots], ".", color=colour, markersize=4)
        axes.plot([], [], ".", markersize=4, label="where the network's law changes", **key)
    for factor, marker, label in (
        (ray.certain_from, "^", "certain for the first time"),
        (ray.unknown_from, "v", "knows nothing from here on"),
        (ray.start, "|", "from here on this law for ever"),
    ):
        if factor is not None:
            axes.plot(
                [factor], [height(factor)], marker, color=colour, markersize=7, markeredgewidth=1.4
            )
            axes.plot([], [], marker, markersize=7, label=label, **key)
    if ray.asymptote is not None:
        axes.plot(
            ray.factors, ray.asymptote, color=colour, linewidth=0.9, linestyle="--", alpha=0.8
        )
        axes.plot([], [], color="black", linewidth=0.9, linestyle="--", label="the law at infinity")


def _draw_shares(axes: Axes, record: Audit) -> None:
    """The share of inputs that are certain, or have stopped being so for ever, by factor."""
    curves = [(record.factors, COLOURS[0], f"share certain ({percent(record.certain)})")]
    if record.unknown_factors is not None:
        curves.append((record.unknown_factors, COLOURS[1], "share that knows nothing any more"))
    largest = max(
        (value for factors, _, _ in curves for value in factors if value is not None), default=1.0
    )
    for factors, colour, label in curves:
        known = [value for value in factors if value is not None]
        if not known:
            label += ": none"
        shares = np.linspace(0, 1, len(factors))[: len(known)]
        far = [*known, max(10.0, 2 * largest)]
        axes.step(
            far,
            [*shares, shares[-1] if len(shares) else 0.0],
            where="post",
            color=colour,
            linewidth=1.8,
            label=label,
        )
    axes.set(xscale="log", ylim=(-0.02, 1.04), xlabel="factor", ylabel=f"share of {noun(record)}s")
    axes.set_title("how many so far", loc="left", fontsize=10)
