"""Images under attack: a row of what it starts from, and one of what it ends in for each model."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.records import Gallery, GalleryRow
from nescio.records.gallery import Image
from nescio.report.figures import COLOURS, shown, text_width

CELL = 0.95  # inches that an image is wide
BELOW = 0.42  # inches for what is said under it
LETTERS = 7.5  # their size, in points
WRONG = COLOURS[1]


def gallery_figure(record: Gallery) -> Figure:
    """Images that an attack starts from in the top row, and below it a row of what it makes of them for each model.

    Of noise, the confidence before and after stands under each image; of samples, the class that the model now gives
    and its confidence, in orange where that class is wrong.
    """
    if not record.images or not record.rows:
        raise NescioError("a figure of a gallery needs images and models; given: none")
    names = ["noise" if record.start == "noise" else "test images", *(row.name for row in record.rows)]
    side = max(text_width(shown(name), 10) for name in names) + 0.2
    lines = _title(record)
    wide = side + CELL * len(record.images) + 0.1
    size = min(12.0, 12 * (wide - 0.2) / max(text_width(line, 12) for line in lines))
    top = 0.15 + len(lines) * 1.5 * size / 72
    high = top + (CELL + BELOW) * len(names)
    figure = Figure(figsize=(wide, high))
    figure.text(0.1 / wide, 1 - 0.1 / high, "\n".join(lines), ha="left", va="top", fontsize=size)
    for i, name in enumerate(names):
        y = high - top - (CELL + BELOW) * i - CELL  # of the lower edge of a row of images
        figure.text((side - 0.1) / wide, (y + CELL / 2) / high, shown(name), ha="right", va="center", fontsize=10)
        for j, image in enumerate(record.images if i == 0 else record.rows[i - 1].images):
            axes = figure.add_axes(((side + CELL * j + 0.04) / wide, y / high, (CELL - 0.08) / wide, CELL / high))
            _draw(axes, image)
            words, colour = (shown(record.kinds[j]), "0.3") if i == 0 else _said(record, record.rows[i - 1], j)
            axes.set_xlabel(words, fontsize=_fitting(words), color=colour, labelpad=3)
    return figure


def _title(record: Gallery) -> list[str]:
    how = record.provenance.settings.get("attack", {})
    within = f"within ε = {how['eps']:g}, {how['steps']} steps" if {"eps", "steps"} <= set(how) else "nearby"
    if record.start == "noise":
        return [f"{shown(record.data)}: noise, and the surest noise {within}", "confidence before → after"]
    return [
        f"{shown(record.data)}: test images, and the worst ones {within}",
        "class and confidence that each model gives; orange where wrong",
    ]


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
    after = f"{row.confidence[j]:.0%}"
    if record.start == "noise":
        return f"{row.confidence_before[j]:.0%} → {after}", "0.1"
    return f"{shown(row.answers[j])}\n{after}", "0.1" if row.answers[j] == record.kinds[j] else WRONG


def _fitting(words: str) -> float:
    """A size of letters with which the longest line is no wider than an image."""
    return LETTERS * min(1.0, (CELL - 0.05) / max(text_width(line, LETTERS) for line in words.splitlines()))
