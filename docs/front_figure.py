"""Draw the README's figure: a network that is certain of nonsense, alone and with nescio.

`python docs/front_figure.py` writes docs/images/front-light.svg and front-dark.svg, and the same in
two rows for narrow screens. The network learns the digits 0 to 6. Of each kind of nonsense the
figure shows the input that the network is surest of, and what a detector says that was fitted on
known digits alone.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

import nescio
from nescio.metrics.percent import percent

IMAGES = Path(__file__).parent / "images"
THEMES = {"light": ("#1f2328", "#b3261e", "#0b6e4f"), "dark": ("#e6edf3", "#ff8a80", "#6fdcb0")}
LAYOUTS = {"": 6, "-narrow": 3}  # inputs in a row
ROW_HEADS, CELL, PICTURE, GAP = 0.85, (1.2, 2.55), 1.0, 0.3  # inches
KIND, LABEL, CONFIDENCE, DETECTOR = 2.41, 1.0, 0.74, 0.25  # inches above the end of a cell


class Column(NamedTuple):
    """One input, and what network and detector say of it."""

    kind: str
    picture: Tensor  # (8, 8)
    label: int
    confidence: float
    answer: int


def kinds(digits: Tensor) -> dict[str, Tensor]:
    """Return inputs `(N, 1, 8, 8)` by what they are."""
    generator = torch.Generator().manual_seed(0)
    bars = torch.stack([(torch.arange(8).roll(i) % 4 < 2).float().expand(8, 8) for i in range(4)])
    return {
        "a digit": digits[2:3],
        "another": digits[3:4],
        "on its side": digits.rot90(1, (2, 3)),
        "its negative": 1 - digits,
        "noise": torch.rand(len(digits), 1, 8, 8, generator=generator),
        "stripes": torch.cat([bars, bars.mT])[:, None],
    }


def columns() -> list[Column]:
    """Train the network, fit the detector, and ask both."""
    known = nescio.data.load("digits", unseen=[7, 8, 9])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 7))
    nescio.train(net, known.train, epochs=60, seed=0)
    detector = nescio.Mahalanobis(net)
    detector.fit(known.test, accept=0.95, train=known.train)
    shown = []
    for kind, x in kinds(known.test.inputs).items():
        confidence, labels = nescio.predict(net, x)[0].softmax(1).max(1)
        i = int(confidence.argmax())
        answer = int(detector.predict(x)[i])
        shown.append(Column(kind, x[i, 0], int(labels[i]), float(confidence[i]), answer))
    return shown


def draw(shown: list[Column], in_row: int, wrong: str, unknown: str) -> Figure:
    """Draw a cell for each input: its kind, the picture, the network's answer, the detector's."""
    rows = -(-len(shown) // in_row)
    width, height = ROW_HEADS + in_row * CELL[0], rows * CELL[1] + (rows - 1) * GAP
    figure = Figure(figsize=(width, height))

    def write(x: float, y: float, words: str, size: int = 11, **style: str) -> None:
        figure.text(x / width, y / height, words, va="center", size=size, **style)

    for row in range(rows):
        bottom = (rows - 1 - row) * (CELL[1] + GAP)
        write(0, bottom + (LABEL + CONFIDENCE) / 2, "network\nalone")
        write(0, bottom + DETECTOR, "with\nnescio", weight="bold")
        for i, one in enumerate(shown[row * in_row : (row + 1) * in_row]):
            middle = ROW_HEADS + (i + 0.5) * CELL[0]
            corner = (middle - PICTURE / 2) / width, (bottom + KIND - 0.17 - PICTURE) / height
            axes = figure.add_axes((*corner, PICTURE / width, PICTURE / height))
            axes.imshow(one.picture.numpy(), cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            refused = one.answer < 0
            write(middle, bottom + KIND, one.kind, ha="center")
            style = {"color": wrong, "weight": "bold"} if refused else {}
            write(middle, bottom + LABEL, f"“{one.label}”", 16, ha="center", **style)
            sure = percent(one.confidence)
            write(middle, bottom + CONFIDENCE, sure, 12, ha="center", **style)
            style = {"color": unknown, "weight": "bold"} if refused else {}
            answer, size = ("I do not\nknow", 12) if refused else (f"“{one.answer}”", 16)
            write(middle, bottom + DETECTOR, answer, size, ha="center", **style)
    return figure


def main() -> None:
    """Write the figure for light and for dark pages, on wide and on narrow screens."""
    shown = columns()
    for theme, (ink, *colours) in THEMES.items():
        style = {"text.color": ink, "axes.edgecolor": ink, "axes.linewidth": 0.5}
        with rc_context({**style, "svg.hashsalt": "nescio"}):
            for layout, in_row in LAYOUTS.items():
                file = IMAGES / f"front{layout}-{theme}.svg"
                figure = draw(shown, in_row, *colours)
                figure.savefig(file, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
