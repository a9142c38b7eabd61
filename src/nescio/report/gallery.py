"""Images under attack: a row of what it starts from, and one of what it ends in for each model."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.metrics.percent import percent
from nescio.records import Gallery, GalleryRow
from nescio.records.images import Image
from nescio.report.figures import COLOURS, shown, text_width

CELL = 0.95  # inches that an image is wide
LINE = 0.14  # inches that a line of what is said under it is high
NARROWEST = 5.0  # inches that a figure is wide, for its title
LETTERS = 7.5  # their size, in points
WRONG = COLOURS[1]


def gallery_figure(record: Gallery) -> Figure:
    """Images that an attack starts from in the top row, and below it a row of what it makes of them for each model.

    Of noise, the confidence before and after stands under each image; of samples, the class that the model now gives
    and its confidence, in orange where that class is wrong.
    """
    if not record.images or not record.rows:
        raise NescioError("a figure of a gallery needs images and models; given: none")
    names = [
        "noise" if record.start == "noise" else "test images",
        *(row.name for row in record.rows),
    ]
    # letters drawn in whole pixels may be a little wider than their outlines
    side = 1.08 * max(text_width(shown(name), 10) for name in names) + 0.2
    lines = _title(record)
    wide = max(NARROWEST, side + CELL * len(record.images) + 0.1)
    size = min(12.0, 12 * (wide - 0.2) / (1.08 * max(text_width(line, 12) for line in lines)))
    top = 0.15 + len(lines) * 1.5 * size / 72
    row = CELL + 0.14 + LINE * (1 if record.start == "noise" else 2)
    high = top + row * len(names)
    figure = Figure(figsize=(wide, high))
    figure.text(0.1 / wide, 1 - 0.1 / high, "\n".join(lines), ha="left", va="top", fontsize=size)
    for i, name in enumerate(names):
        y = high - top - row * i - CELL  # of the lower edge of a row of images
        figure.text(
            (side - 0.1) / wide,
            (y + CELL / 2) / high,
            shown(name),
            ha="right",
            va="center",
            fontsize=10,
        )
        for j, image in enumerate(record.images if i == 0 else record.rows[i - 1].images):
            axes = figure.add_axes(
                ((side + CELL * j + 0.04) / wide, y / high, (CELL - 0.08) / wide, CELL / high)
            )
            _draw(axes, image)
            words, colour = (
                (_short(record.kinds[j]), "0.3") if i == 0 else _said(record, record.rows[i - 1], j)
            )
            axes.set_xlabel(words, fontsize=_fitting(words), color=colour, labelpad=3)
    return figure


def _title(record: Gallery) -> list[str]:
    how = record.provenance.settings.get("attack", {})
    strength = (
        f" (ε = {how['eps']:g}, {how['steps']} steps)" if {"eps", "steps"} <= set(how) else ""
    )
    if record.start == "noise":
        first = f"{shown(record.data)}: noise, and what an attack makes of it{strength}"
        return [first, "under each image the model's confidence, before → after"]
    first = f"{shown(record.data)}: test images, and what an attack makes of them{strength}"
    return [first, "under each image the model's class and confidence, orange where wrong"]


def _draw(axes: Any, image: Image) -> None:
    pixels = np.array(image)  # (C, H, W)
    if len(pixels) == 1:
        axes.imshow(pixels[0], cmap="gray", vmin=0, vmax=1)
    else:
        axes.imshow(pixels.transpose(1, 2, 0))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color="0.7", linewidth=0.5)


def _said(record: Gallery, row: GalleryRow, j: int) -> tuple[str, str]:
    """What stands under an image of a model, and its colour."""
    after = percent(row.confidence[j])
    if record.start == "noise":
        return f"{percent(row.confidence_before[j])} → {after}", "0.1"
    return f"{_short(row.answers[j])}\n{after}", "0.1" if row.answers[j] == record.kinds[
        j
    ] else WRONG


def _short(name: str) -> str:
    """A name that can still be read under an image."""
    return shown(name if len(name) <= 16 else f"{name[:15]}…")


def _fitting(words: str) -> float:
    """A size of letters with which the longest line is no wider than an image."""
    return LETTERS * min(
        1.0, (CELL - 0.1) / max(text_width(line, LETTERS) for line in words.splitlines())
    )
