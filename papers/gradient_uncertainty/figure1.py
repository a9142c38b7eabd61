"""Figure 1: what the concepts look like. The picture is made, but not kept with the results."""

import torch
from matplotlib.figure import Figure

from nescio.data import Samples, load
from nescio.evaluation import unknown_set
from nescio.report import plot_text, save_figure
from papers.experiment import Experiment, Outcome
from papers.gradient_uncertainty.parts import NEEDS, in_words
from papers.gradient_uncertainty.plan import MNIST
from papers.gradient_uncertainty.published import PAPER
from papers.workspace import Workspace

SHOWN = 10  # images of each concept
PICTURE = "concepts.png"
SEED = 0


def figure1(work: Workspace) -> Outcome:
    """Some images of each set, as the network sees them."""
    known = load(MNIST.data, work.root)
    sets = {MNIST.data: known.test}
    sets |= {name: load(name, work.root).test for name in MNIST.digits}
    sets |= {name: unknown_set(name, known, work.root, SEED) for name in MNIST.unknown}
    save_figure(concepts_figure(sets), work.folder / PICTURE)
    return Outcome(remarks=(PAPER.remark("not_kept", file=PICTURE),))


def concepts_figure(sets: dict[str, Samples]) -> Figure:
    """Draw a row of grey images for each set, drawn at random."""
    drawn = Figure(figsize=(1.2 + 0.5 * SHOWN, 0.55 * len(sets)), layout="constrained")
    grid = drawn.subplots(len(sets), SHOWN, squeeze=False)
    for axes_of_row, (name, samples) in zip(grid, sets.items(), strict=True):
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(SEED))
        images = samples.take(order[:SHOWN])[0]
        for axes, image in zip(axes_of_row, images, strict=False):
            axes.imshow(image[0].numpy(), cmap="gray", vmin=0, vmax=1)
        for axes in axes_of_row:
            axes.set_axis_off()
        drawn_name = plot_text(in_words(name))
        axes_of_row[0].text(-0.2, 0.5, drawn_name, transform=axes_of_row[0].transAxes, ha="right")
    return drawn


_WHICH = ("gradient-figure1", 3, "Figure 1", "Images of each set")
EXPERIMENTS = (Experiment(*_WHICH, figure1, NEEDS, scales=("quick",), once=True),)
