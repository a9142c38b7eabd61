"""Records as figures."""

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from nescio.errors import NescioError, unknown_name
from nescio.files import MADE_BY, atomic_write
from nescio.records import Evaluation, History
from nescio.report.own import own

# Okabe and Ito's colours, which colour-blind readers can tell apart; known data is always the first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
DASHES: tuple[Any, ...] = (
    "-",
    "-.",
    ":",
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
)  # for those who see no colours
# whose figures they are and, since they are to be the same each time, no date
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Creator": MADE_BY, "Date": None},
    "png": {"Software": MADE_BY},
    "pdf": {"Creator": MADE_BY, "CreationDate": None},
}
SUFFIXES = tuple(f".{kind}" for kind in METADATA)
LONGEST = 40  # characters of a name


def shown(name: str) -> str:
    """A name from data, as a figure can show it: no `$` begins a formula, no `_` hides it, and what is long is cut."""
    if len(name) > LONGEST:
        name = f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"
    hidden = name.startswith("_")  # matplotlib leaves such a name out of a legend
    return ("\u200a" if hidden else "") + name.replace("$", r"\$")


@contextmanager
def any_letters() -> Iterator[None]:
    """A block in which matplotlib does not warn of letters that its font lacks: names are the user's to choose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def text_width(text: str, size: float) -> float:
    """How wide a figure shows a line, in inches."""
    with any_letters():
        width, _, _ = text_to_path.get_text_width_height_descent(
            text, FontProperties(size=size), ismath=False
        )
    return float(width) / 72


def legend_below(
    figure: Figure, handles: Sequence[Any], labels: Sequence[str], size: float
) -> None:
    """A legend under all panels, in as many columns as there is room for; each further row makes the figure taller."""
    letter = size / 72  # inches; the mark and the gaps of a column are five of them wide
    column = max((text_width(label, size) for label in labels), default=0.0) + 5 * letter
    columns = max(1, min(len(labels), int((figure.get_figwidth() - letter) / column)))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=size
    )
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
    draw_shares(
        axes,
        found[score].edges,
        [
            (record.known.name if side == "known" else side, np.array(counts) / max(1, sum(counts)))
            for side, counts in found[score].counts.items()
        ],
    )
    return _explained(figure, axes)


def draw_shares(axes: Any, edges: Sequence[float], sets: Sequence[tuple[str, ArrayLike]]) -> None:
    """Histograms of named sets in one panel, known data first, each with its name for the legend."""
    # five dashes and eight colours: forty sets before two look alike
    for colour, dashes, (name, heights) in zip(_colours(), cycle(DASHES), sets, strict=False):
        axes.stairs(heights, edges, fill=True, alpha=0.3, color=colour)
        axes.stairs(
            heights, edges, color=colour, label=shown(name), linewidth=1.5, linestyle=dashes
        )


def rejections(record: Evaluation, score: str | None = None) -> Figure:
    """Accuracy of what is kept as the least known inputs are rejected, with the best that could be reached, dashed."""
    score = score or record.score
    figure, axes = _axes(
        f"{shown(record.method)}: accuracy when the least known are rejected",
        "share rejected",
        "accuracy of the rest",
    )
    sides = [
        (record.known.name, record.known.rejection),
        *((side.name, side.rejection) for side in record.unknown),
    ]
    for colour, (name, curves) in zip(_colours(), sides, strict=False):
        if (curve := own(curves, score)) is None:
            continue
        label = shown(name) if name == record.known.name else f"with {shown(name)}"
        axes.plot(curve.rejected, curve.accuracy, color=colour, label=label, linewidth=1.8)
        if name != record.known.name:
            axes.plot(curve.rejected, curve.maximum, color=colour, linewidth=1, linestyle="--")
    axes.set_xlim(0, 1)
    axes.set_ylim(top=1.01)
    return _explained(figure, axes)


def rocs(record: Evaluation, score: str | None = None) -> Figure:
    """Which shares of unknown and of known inputs are accepted, a line for each unknown set with its AUROC."""
    score = score or record.score
    figure, axes = _axes(
        f"{shown(record.method)}: known against unknown, by {shown(score)}",
        "unknown inputs accepted",
        "known inputs accepted",
    )
    axes.plot([0, 1], [0, 1], color="0.55", linewidth=1, linestyle=":")
    # known data has the first look everywhere, and is no line here
    for colour, dashes, side in zip(
        _colours()[1:], islice(cycle(DASHES), 1, None), record.unknown, strict=False
    ):
        if (curve := own(side.roc, score)) is None:
            continue
        auroc = next((one.auroc for one in side.separation if one.score == curve.score), None)
        area = "" if auroc is None else f": AUROC {auroc:.3f}"
        axes.plot(
            curve.unknown,
            curve.known,
            color=colour,
            linestyle=dashes,
            linewidth=1.8,
            label=f"{shown(side.name)}{area}",
        )
    axes.set(xlim=(-0.01, 1), ylim=(0, 1.02))
    return _explained(figure, axes)


def calibration(records: Sequence[tuple[str, Evaluation]]) -> Figure:
    """How often each model is right, and how sure it says it is, as two marks on one line."""
    figure = Figure(figsize=(7, 1.5 + 0.36 * len(records)), layout="constrained")
    axes = figure.subplots()
    for height, (_, record) in enumerate(records):
        right, sure = record.known.accuracy, record.known.mmc
        axes.plot([right, sure], [height, height], color="0.6", linewidth=2, zorder=1)
        axes.plot(
            [right],
            [height],
            "o",
            color=COLOURS[0],
            markersize=9,
            label=None if height else "accuracy",
        )
        axes.plot(
            [sure],
            [height],
            "D",
            color=COLOURS[1],
            markersize=7,
            label=None if height else "mean confidence",
        )
    axes.set_yticks(range(len(records)), [shown(name) for name, _ in records])
    axes.set_ylim(len(records) - 0.5, -0.5)  # the first on top
    values = [value for _, record in records for value in (record.known.accuracy, record.known.mmc)]
    axes.set_xlim(
        max(-0.01, min(values) - 0.05), min(1.01, max(values) + 0.05)
    )  # a small gap should look small
    axes.xaxis.set_major_formatter(
        lambda value, _: f"{100 * value:g} %" if -1e-9 < value < 1 + 1e-9 else ""
    )
    axes.set_xlabel("share of known inputs")
    axes.spines[["top", "right"]].set_visible(False)
    return _explained(figure, axes)


def training(record: History, name: str) -> Figure:
    """Loss and accuracy epoch by epoch, on training and, dashed, on validation data."""
    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    epochs = [one.epoch for one in record.epochs]
    panels = figure.subplots(1, 2)
    for axes, what in zip(panels, ("loss", "accuracy"), strict=True):
        marker = "o" if len(epochs) == 1 else ""
        axes.plot(
            epochs,
            [getattr(one, what) for one in record.epochs],
            marker=marker,
            linestyle="-",
            color=COLOURS[0],
            linewidth=1.8,
            label="training",
        )
        held = [getattr(one, f"validation_{what}") for one in record.epochs]
        if None not in held:
            axes.plot(
                epochs,
                held,
                marker=marker,
                linestyle="--",
                color=COLOURS[1],
                linewidth=1.8,
                label="validation",
            )
        if record.best_epoch is not None:
            axes.axvline(
                record.best_epoch, color="0.5", linewidth=1, linestyle=":", label="best epoch"
            )
        axes.set(xlabel="epoch", ylabel=what)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        legend_below(figure, handles, labels, size=9)
    figure.suptitle(f"{shown(name)}: training", x=0.01, ha="left", fontsize=11)
    return figure


def figure_format(path: str | os.PathLike[str]) -> str:
    """The format that a file's name asks for, or the error for a file that no figure can be written to."""
    if os.path.isdir(path):
        raise NescioError(
            f"{os.fspath(path)!r} is a folder; expected the path of a figure to write"
        )
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise NescioError(f"a figure ends in {', '.join(SUFFIXES)}, not {os.fspath(path)!r}")
    return suffix[1:]


def save_figure(figure: Figure, path: str | os.PathLike[str], force: bool = False) -> None:
    """Write a figure in the format of the file's name; the file is whole or not there, and the same each time.

    It takes the place of a figure of nescio's, and with `force` of anything.
    """
    kind = figure_format(path)
    about = METADATA[kind]
    with (
        atomic_write(path, force=force) as file,
        any_letters(),
        mpl.rc_context({"svg.hashsalt": "nescio"}),
    ):
        figure.savefig(file, format=kind, dpi=150, metadata=about)


def _axes(title: str, across: str, up: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=across, ylabel=up)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _explained(figure: Figure, axes: Any) -> Figure:
    """A figure of one panel with its legend below, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    legend_below(figure, handles, labels, size=9)
    return figure


def _colours() -> Sequence[str]:
    return COLOURS * 4
