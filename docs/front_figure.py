"""Draw the README's figure: a network that is certain of nonsense, alone and with nescio.

`python docs/front_figure.py` writes docs/images/front-light.svg and front-dark.svg. The network
learns the digits 0 to 6. Of each kind of nonsense the figure shows the input that the network is
surest of, and what a detector says that was fitted on known digits alone.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

import nescio

IMAGES = Path(__file__).parent / "images"
THEMES = {"light": ("#1f2328", "#b3261e", "#0b6e4f"), "dark": ("#e6edf3", "#ff8a80", "#6fdcb0")}
HEADER, PICTURE, NETWORK, DETECTOR = 0.95, (0.395, 0.49), 0.265, 0.09  # heights in the figure
ROW_HEADS = 0.125  # width of the words on the left


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


def draw(shown: list[Column], wrong: str, unknown: str) -> Figure:
    """Draw a column for each input: its kind, the picture, the network's answer, the detector's."""
    figure = Figure(figsize=(8.6, 2.7))
    figure.text(0, NETWORK, "a network", va="center", fontsize=11)
    figure.text(0, DETECTOR, "with nescio", va="center", fontsize=11, weight="bold")
    width = (1 - ROW_HEADS) / len(shown)
    for i, one in enumerate(shown):
        left = ROW_HEADS + i * width
        axes = figure.add_axes((left + 0.1 * width, PICTURE[0], 0.8 * width, PICTURE[1]))
        axes.imshow(one.picture, cmap="gray", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 11}
        refused = one.answer < 0
        sure = "> 99.9 %" if one.confidence > 0.999 else f"{100 * one.confidence:.1f} %"
        style = {"color": wrong, "weight": "bold"} if refused else {}
        figure.text(left + width / 2, HEADER, one.kind, **middle)
        figure.text(left + width / 2, NETWORK, f"“{one.label}”  {sure}", **middle, **style)
        style = {"color": unknown, "weight": "bold"} if refused else {}
        answer = "I do not\nknow" if refused else f"“{one.answer}”"
        figure.text(left + width / 2, DETECTOR, answer, **middle, **style)
    return figure


def main() -> None:
    """Write the figure for light and for dark pages."""
    shown = columns()
    for theme, (ink, *colours) in THEMES.items():
        style = {"text.color": ink, "axes.edgecolor": ink, "axes.linewidth": 0.5}
        with rc_context({**style, "svg.hashsalt": "nescio"}):
            file = IMAGES / f"front-{theme}.svg"
            draw(shown, *colours).savefig(file, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
