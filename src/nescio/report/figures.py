"""The style that all figures share, and how they are written to files."""

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from numpy.typing import ArrayLike

from nescio.errors import NescioError, check_path
from nescio.files import MADE_BY, atomic_write

Style = dict[str, Any]  # of matplotlib's artists
# Okabe and Ito's colours, which colour-blind readers can distinguish; known data has the first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
LINES = COLOURS[:6]  # yellow is too light for a line, and black is for references
DASHES: tuple[Any, ...] = ("-", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = "os^Dv"  # as dashes, for readers who see no colours
MAX_NAME = 40  # characters
# files name their maker and, to be the same each time, no date
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Creator": MADE_BY, "Date": None},
    "png": {"Software": MADE_BY},
    "pdf": {"Creator": MADE_BY, "CreationDate": None},
}


def plot_text(name: str) -> str:
    """Return a name for matplotlib: short, with `$` and a leading `_` shown as they are.

    >>> len(plot_text("a" * 100)) < 100
    True
    """
    if len(name) > MAX_NAME:
        name = f"{name[: MAX_NAME // 2]}…{name[1 - MAX_NAME // 2 :]}"
    hidden = name.startswith("_")  # matplotlib leaves such a name out of a legend
    return ("\u200a" if hidden else "") + name.replace("$", r"\$")


def line_style(number: int) -> Style:
    """Return the colour and dashes of a model's line.

    >>> line_style(0)["color"] == COLOURS[0]
    True
    """
    return {"color": LINES[number % len(LINES)], "linestyle": DASHES[number % len(DASHES)]}


def class_marker(label: int) -> dict[str, Any]:
    """Return the colour and marker of points of a class."""
    return {"color": COLOURS[label % len(COLOURS)], "marker": MARKERS[label % len(MARKERS)]}


def one_panel(title: str, xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    """Return a figure of one panel."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, loc="left", fontsize=11)
    despine(axes)
    return figure, axes


def despine(*panels: Axes, left: bool = False) -> None:
    """Hide the upper and right side of the frame, and with `left` also the left one.

    >>> figure = Figure()
    >>> despine(figure.add_subplot())
    """
    for axes in panels:
        axes.spines[["top", "right", *(["left"] if left else [])]].set_visible(False)


def title_left(figure: Figure, title: str, size: float = 11) -> None:
    """Set the figure's title at its left edge.

    >>> title_left(Figure(), "What the network knows")
    """
    figure.suptitle(title, x=0.01, ha="left", fontsize=size)


def annotate(
    axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write beside a point, `offset` printer's points away from it."""
    axes.annotate(text, at, offset, textcoords="offset points", **style)


def legend_below(
    figure: Figure, handles: Sequence[Any], labels: Sequence[str], size: float = 9
) -> None:
    """Put a legend under all panels; each row after the first makes the figure taller."""
    letter = size / 72  # inches; the handle and gaps of a column are five letters wide
    column = max((text_width(label, size) for label in labels), default=0.0) + 5 * letter
    columns = max(1, min(len(labels), int((figure.get_figwidth() - letter) / column)))
    style: Style = {"ncols": columns, "frameon": False, "fontsize": size}
    figure.legend(handles, labels, loc="outside lower center", **style)
    more = math.ceil(len(labels) / columns) - 1
    figure.set_figheight(figure.get_figheight() + more * 1.7 * letter)


def with_legend(figure: Figure, *panels: Axes) -> Figure:
    """Return the figure with a legend of its panels' labels, each once, below them.

    >>> figure = Figure()
    >>> panel = figure.add_subplot()
    >>> _ = panel.plot([0, 1], label="softmax")
    >>> figure = with_legend(figure, panel)
    """
    handles = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    legend_below(figure, list(handles.values()), list(handles))
    return figure


def draw_histograms(
    axes: Axes, edges: Sequence[float], sets: Sequence[tuple[str, ArrayLike]]
) -> None:
    """Draw histograms of named sets into one panel, known data first."""
    # five dashes and eight colours: forty sets before two look alike
    for colour, dashes, (name, heights) in zip(COLOURS * 5, cycle(DASHES), sets, strict=False):
        axes.stairs(heights, edges, fill=True, alpha=0.3, color=colour)
        style: Style = {"color": colour, "linestyle": dashes, "linewidth": 1.5}
        axes.stairs(heights, edges, label=plot_text(name), **style)


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Suppress matplotlib's warning of letters its font lacks: names are the user's choice."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text in a figure, in inches."""
    font = FontProperties(size=size)
    with ignore_missing_glyphs():
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def figure_format(path: str | os.PathLike[str]) -> str:
    """Return the format that a file name asks for; raise if no figure can be written there."""
    suffix = check_path("the figure to write", path).suffix.lower()
    if os.path.isdir(path):
        raise NescioError(f"{os.fspath(path)!r} is a folder; expected the path of a figure")
    if suffix[1:] not in METADATA:
        expected = ", ".join(f".{kind}" for kind in METADATA)
        raise NescioError(f"a figure's name must end in one of {expected}, got {os.fspath(path)!r}")
    return suffix[1:]


def save_figure(figure: Figure, path: str | os.PathLike[str], force: bool = False) -> None:
    """Write a figure in the format of the file's name, atomically and reproducibly.

    It may replace another figure of nescio's, and with `force` anything.

    >>> figure = Figure(figsize=(3, 2))
    >>> save_figure(figure, "figure.svg")
    """
    kind = figure_format(path)
    salt = mpl.rc_context({"svg.hashsalt": "nescio"})
    with atomic_write(path, force=force) as file, ignore_missing_glyphs(), salt:
        figure.savefig(file, format=kind, dpi=150, metadata=METADATA[kind])
