"""Records as figures."""

import math
import os
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from numpy.typing import ArrayLike

from nescio.atomic import replacing
from nescio.errors import NescioError, unknown_name
from nescio.records import Evaluation

# Okabe and Ito's colours, which colour-blind readers can tell apart; known data is always the first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
DASHES: tuple[Any, ...] = ("-", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))  # for those who see no colours
SUFFIXES = (".svg", ".png", ".pdf")
LONGEST = 40  # characters of a name


def shown(name: str) -> str:
    """A name from data, as a figure can show it: no `$` begins a formula, no `_` hides it, and what is long is cut."""
    if len(name) > LONGEST:
        name = f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"
    hidden = name.startswith("_")  # matplotlib leaves such a name out of a legend
    return ("\u200a" if hidden else "") + name.replace("$", r"\$")


def text_width(text: str, size: float) -> float:
    """How wide a figure shows a line, in inches."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return float(width) / 72


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str], size: float) -> None:
    """A legend under all panels, in as many columns as there is room for; each further row makes the figure taller."""
    letter = size / 72  # inches; the mark and the gaps of a column are five of them wide
    column = max((text_width(label, size) for label in labels), default=0.0) + 5 * letter
    columns = max(1, min(len(labels), int((figure.get_figwidth() - letter) / column)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=size)
    more = math.ceil(len(labels) / columns) - 1
    figure.set_figheight(figure.get_figheight() + more * 1.7 * letter)


def histograms(record: Evaluation, score: str | None = None) -> Figure:
    """How a score is distributed on known data and on each unknown set."""
    score = score or record.score
    found = {histogram.score: histogram for histogram in record.histograms}
    if score not in found:
        raise unknown_name("score of this record", score, found)
    figure, axes = _axes(
        f"{shown(record.method)}: how unknown each set looks to it",
        f"{shown(score)}  (larger = less known)",
        "share of inputs",
    )
    draw_shares(axes, found[score].edges, [
        (record.known.name if side == "known" else side, np.array(counts) / max(1, sum(counts)))
        for side, counts in found[score].counts.items()
    ])  # fmt: skip
    axes.legend(frameon=False)
    return figure


def draw_shares(axes: Any, edges: Sequence[float], sets: Sequence[tuple[str, ArrayLike]]) -> None:
    """Histograms of named sets in one panel, known data first, each with its name for the legend."""
    # five dashes and eight colours: forty sets before two look alike
    for colour, dashes, (name, heights) in zip(_colours(), cycle(DASHES), sets, strict=False):
        axes.stairs(heights, edges, fill=True, alpha=0.3, color=colour)
        axes.stairs(heights, edges, color=colour, label=shown(name), linewidth=1.5, linestyle=dashes)


def rejections(record: Evaluation, score: str | None = None) -> Figure:
    """Accuracy of what is kept as the least known inputs are rejected, with the best that could be reached, dashed."""
    score = score or record.score
    figure, axes = _axes(
        f"{shown(record.method)}: accuracy when the least known are rejected", "share rejected", "accuracy of the rest"
    )
    sides = [(record.known.name, record.known.rejection), *((side.name, side.rejection) for side in record.unknown)]
    for colour, (name, curves) in zip(_colours(), sides, strict=False):
        curve = next((one for one in curves if one.score == score), curves[0])
        label = shown(name) if name == record.known.name else f"with {shown(name)}"
        axes.plot(curve.rejected, curve.accuracy, color=colour, label=label, linewidth=1.8)
        if name != record.known.name:
            axes.plot(curve.rejected, curve.maximum, color=colour, linewidth=1, linestyle="--")
    axes.set_xlim(0, 1)
    axes.set_ylim(top=1.01)
    axes.legend(frameon=False, loc="best")
    return figure


def figure_format(path: str | os.PathLike[str]) -> str:
    """The format that a file's name asks for, or the error for a file that no figure can be written to."""
    if os.path.isdir(path):
        raise NescioError(f"{os.fspath(path)!r} is a folder; expected the path of a figure to write")
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise NescioError(f"a figure ends in {', '.join(SUFFIXES)}, not {os.fspath(path)!r}")
    return suffix[1:]


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of the file's name; the file is whole or not there."""
    kind = figure_format(path)
    with replacing(path) as file:
        figure.savefig(file, format=kind, dpi=150)


def _axes(title: str, across: str, up: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=across, ylabel=up)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _colours() -> Sequence[str]:
    return COLOURS * 4
