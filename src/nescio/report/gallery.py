"""Adversarial inputs: a figure of attacked images, and the page's part on attacks."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nescio.errors import NescioError
from nescio.metrics.percent import percent
from nescio.records import Against, Evaluation, Gallery, GalleryRow, UnknownSide
from nescio.records.pictures import Image
from nescio.report.figures import COLOURS, Style, plot_text, text_width
from nescio.report.html import heading, paragraphs, picture, picture_row
from nescio.report.records import ReportContext
from nescio.report.runs import failed_attacks, own
from nescio.report.table import Cell, Percent, Table, join
from nescio.report.words import METRICS, describe_attack

IMAGE_WIDTH = 0.95  # inches
LINE_HEIGHT = 0.14  # inches of a line under an image
MIN_WIDTH = 5.0  # inches of a figure, for its title
FONT_SIZE = 7.5  # points
MAX_DESCRIBED = 4  # adversarial sets described in sentences; of more the table is enough
Attacked = tuple[str, Evaluation, UnknownSide, Against]
Named = tuple[str, Gallery]


def gallery_figure(record: Gallery) -> Figure:
    """Draw the images an attack starts from, and below a row of what it ends in for each model.

    Under noise is the confidence before → after, under samples the class and its confidence, in
    orange if the class is wrong.

    >>> models = {"untrained": nescio.models.mlp(64, 10)}
    >>> digits = nescio.data.load("digits")
    >>> record = nescio.evaluation.attack_gallery(models, digits, images=2, steps=2)
    >>> figure = gallery_figure(record)
    """
    if not record.images or not record.rows:
        raise NescioError("a figure of a gallery needs images and models, got none")
    noise = record.start == "noise"
    names = ["noise" if noise else "test images", *(row.name for row in record.rows)]
    # letters drawn in whole pixels may be a little wider than their outlines
    side = 1.08 * max(text_width(plot_text(name), 10) for name in names) + 0.2
    lines = _title(record)
    width = max(MIN_WIDTH, side + IMAGE_WIDTH * len(record.images) + 0.1)
    widest = 1.08 * max(text_width(line, 12) for line in lines)
    size = min(12.0, 12 * (width - 0.2) / widest)
    top = 0.15 + len(lines) * 1.5 * size / 72
    row_height = IMAGE_WIDTH + 0.14 + LINE_HEIGHT * (1 if noise else 2)
    height = top + row_height * len(names)
    figure = Figure(figsize=(width, height))
    style: Style = {"ha": "left", "va": "top", "fontsize": size}
    figure.text(0.1 / width, 1 - 0.1 / height, "\n".join(lines), **style)
    for i, name in enumerate(names):
        y = height - top - row_height * i - IMAGE_WIDTH  # of the lower edge of a row of images
        style = {"ha": "right", "va": "center", "fontsize": 10}
        at = ((side - 0.1) / width, (y + IMAGE_WIDTH / 2) / height)
        figure.text(*at, plot_text(name), **style)
        for j, image in enumerate(record.images if i == 0 else record.rows[i - 1].images):
            left = (side + IMAGE_WIDTH * j + 0.04) / width
            box = (left, y / height, (IMAGE_WIDTH - 0.08) / width, IMAGE_WIDTH / height)
            axes = figure.add_axes(box)
            _draw_image(axes, image)
            words, colour = _short(record.kinds[j]), "0.3"
            if i:
                words, colour = _image_words(record, record.rows[i - 1], j)
            widest = max(text_width(line, FONT_SIZE) for line in words.splitlines())
            font = FONT_SIZE * min(1.0, (IMAGE_WIDTH - 0.1) / widest)
            axes.set_xlabel(words, fontsize=font, color=colour, labelpad=3)
    return figure


def _strength(record: Gallery) -> dict[str, Any]:
    """Return the attack's settings, if they are in the record."""
    settings = record.provenance.settings.get("attack")
    attack = settings if isinstance(settings, dict) else {}
    complete = isinstance(attack.get("eps"), int | float) and isinstance(attack.get("steps"), int)
    return attack if complete else {}


def _title(record: Gallery) -> list[str]:
    attack = _strength(record)
    strength = f" (ε = {attack['eps']:g}, {attack['steps']} steps)" if attack else ""
    noise = record.start == "noise"
    what = "noise" if noise else "test images"
    below = "confidence before → after" if noise else "class and confidence, orange if wrong"
    first = f"{plot_text(record.data)}: {what} before and after an attack{strength}"
    return [first, f"under each image the model's {below}"]


def _draw_image(axes: Axes, image: Image) -> None:
    pixels = np.array(image).transpose(1, 2, 0)  # (H, W, C); one channel is drawn grey
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color="0.7", linewidth=0.5)


def _image_words(record: Gallery, row: GalleryRow, j: int) -> tuple[str, str]:
    """Return what stands under an image of a model, and its colour."""
    after = percent(row.confidence[j])
    if record.start == "noise":
        return f"{percent(row.confidence_before[j])} → {after}", "0.1"
    correct = row.answers[j] == record.kinds[j]
    return f"{_short(row.answers[j])}\n{after}", "0.1" if correct else COLOURS[1]


def _short(name: str) -> str:
    return plot_text(name if len(name) <= 16 else f"{name[:15]}…")


def attacks_html(context: ReportContext) -> Markup:
    """Return galleries, and the adversarial sets of evaluations."""
    evaluations = context.unique(Evaluation)
    galleries = [(name, g) for name, g in context.unique(Gallery) if g.rows and g.images]
    parts = [_gallery_html(name, record) for name, record in galleries]
    sides = [(name, record, side) for name, record in evaluations for side in record.unknown]
    attacked = [(*each, each[2].attack) for each in sides if each[2].attack is not None]
    if attacked:
        words = [
            "Each set was generated for the model it evaluates; of samples only those count that "
            "are misclassified.",
            f"AUROC: {METRICS['AUROC']} FPR95: {METRICS['FPR95']}",
            *_other_attacks(galleries, attacked),
            *(map(_outcome, attacked) if len(attacked) <= MAX_DESCRIBED else ()),
        ]
        parts += [heading("Adversarial sets"), paragraphs(words), attacks_table(attacked).html()]
    for name, record in evaluations:
        failed = failed_attacks(record).items()
        failures = (f"{name}, {start}: none of {n} attacks succeeded." for start, n in failed)
        parts.append(paragraphs(failures))
    return join(parts)


def attacks_table(attacked: Sequence[Attacked]) -> Table:
    """Return the adversarial sets of evaluations."""
    rows: list[list[Cell]] = []
    for name, record, side, attack in attacked:
        result = own(side.separation, record.score)
        auroc, fpr95 = (None, None) if result is None else (result.auroc, result.fpr95)
        row: list[Cell] = [name, side.name, describe_attack(attack), attack.tried, side.inputs]
        rows.append([*row, Percent(side.mmc), Percent(record.known.mmc), auroc, Percent(fpr95)])
    columns = ["model", "set", "attack", "tried on", "evaluated", "mean confidence"]
    columns += ["on known inputs", "AUROC", "FPR95"]
    return Table("Adversarial sets, each by its own model", columns, rows)


def _gallery_html(name: str, record: Gallery) -> Markup:
    noise = record.start == "noise"
    title = "noise optimised for confidence" if noise else "test images changed to be misclassified"
    parts = [heading(f"{name}: {title}"), paragraphs(_gallery_words(record))]
    parts.append(heading("Noise" if noise else "Test images", 4))
    starts = zip(record.images, record.kinds, strict=True)
    before = (picture(image, f"{kind}, before any attack", [kind]) for image, kind in starts)
    parts.append(picture_row(before))
    for row in record.rows:
        parts.append(heading(f"After an attack on {row.name}", 4))
        parts.append(picture_row(_picture(record, row, j) for j in range(len(row.images))))
    return join(parts)


def _gallery_words(record: Gallery) -> list[str]:
    how = (
        "The attack changes test images to increase the model's loss. Under each picture are "
        "the class that the model now gives and its confidence."
    )
    if record.start == "noise":
        how = (
            "The attack changes noise to increase the model's confidence. All models start from "
            "the same noise; under each picture is the confidence before → after."
        )
    if attack := _strength(record):
        how += f" No pixel was changed by more than {attack['eps']:g}, in {attack['steps']} steps."
    words = [how]
    for row in record.rows:
        both = row.confidence_before, row.confidence
        before, after = (percent(sum(values) / len(values)) for values in both)
        if record.start == "noise":
            words.append(f"{row.name}: mean confidence {before} before, {after} after.")
        else:
            wrong = sum(map(operator.ne, row.answers, record.kinds))
            count = f"{wrong} of {len(row.answers)} are misclassified"
            words.append(f"{row.name}: {count}; mean confidence {after}.")
    return words


def _picture(record: Gallery, row: GalleryRow, j: int) -> Markup:
    kind, answer, after = record.kinds[j], row.answers[j], percent(row.confidence[j])
    alt = f"{kind} after an attack on {row.name}: classified as {answer}"
    if record.start == "noise":
        change = f"{percent(row.confidence_before[j])} → {after}"
        return picture(row.images[j], f"{alt}, confidence {change}", [change, f"“{answer}”"])
    verdict = "wrong" if answer != kind else "still correct"
    alt += f", {verdict}, confidence {after}"
    return picture(row.images[j], alt, [f"“{answer}” {after}", verdict], wrong=answer != kind)


def _other_attacks(galleries: Sequence[Named], attacked: Sequence[Attacked]) -> list[str]:
    """Return which pictures come from an attack of other strength than the sets of their kind."""
    words = []
    for name, record in galleries:
        samples = record.start == "samples"
        steps = _strength(record).get("steps")
        others = {a.steps for *_, a in attacked if (a.objective == "loss") == samples} - {steps}
        if others and steps is not None:
            listed = " or ".join(map(str, sorted(others)))
            other = f"of {steps} steps rather than {listed}, so their numbers differ."
            words.append(
                f"The pictures of {name} come from another attack than these sets, {other}"
            )
    return words


def _outcome(attacked: Attacked) -> str:
    name, record, side, attack = attacked
    after, known = percent(side.mmc), percent(record.known.mmc)
    outcome = f"mean confidence after the attack {after}, on known inputs {known}"
    if attack.objective == "loss":
        fraction = f"{percent(side.inputs / attack.tried)} of {attack.tried:,} attacked inputs"
        outcome = f"{fraction} are misclassified, with a mean confidence of {after}"
    return f"{name}, {side.name}: {outcome}."
