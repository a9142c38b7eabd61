"""Figures 1, 3 and 4 of the DUQ paper: where in the plane one network, trained to stay sensitive, knows that it knows.

    python examples/paper4_planes.py -o figures

White is certain. On the two moons an ensemble doubts only between the classes, out to infinity; DUQ is certain on its
data and soon nowhere else (figure 1). Without the gradient penalty, or with one that only flattens, certainty sticks
out into the empty plane (figure 4). Where classes overlap, DUQ doubts inside its data too (figure 3).

Runs differ: the moons are learned from several seeds, the table gives medians, and the figures show the seed whose DUQ
is the median one far from the data.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low

import numpy as np
import torch
from sklearn.datasets import make_moons

import nescio
from nescio.data import Known, Samples
from nescio.maps import uncertainty_map
from nescio.methods import DUQ, Ensemble, Method
from nescio.models import mlp
from nescio.records import Map, Points
from nescio.report.figures import save_figure
from nescio.report.maps import map_figure

WINDOW = ((-2.5, 3.5), (-3.0, 3.0))  # of the moons, as the paper shows them
FAR = 1.0  # from every training point
# Appendix A.1, with the 1500 points of the authors' notebook; inputs are taken as they are, not normalised.
TRAINING = {"epochs": 30, "batch_size": 64, "optimizer": "sgd", "learning_rate": 0.01}
POINTS = 1500
HEAD = {"centroid_size": 10, "length_scale": 0.3, "momentum": 0.99, "weight_spread": 1.0}
MODELS = {  # weight of the gradient penalty, and which
    "deep ensemble": None,
    "DUQ": (1.0, "two-sided"),
    "DUQ, no penalty": (0.0, "two-sided"),
    "DUQ, one-sided penalty": (1.0, "one-sided"),
}


@dataclass(frozen=True)
class Panel:
    """The map of a trained model, and how it does on its data and far from them."""

    map: Map
    accuracy: float
    on_data: float  # the median confidence
    far_away: float  # the mean confidence where no training point is near
    far_and_sure: float  # the share of those places where it exceeds 0.9


def duq(penalty: float, side: str) -> DUQ:
    net = mlp(2, 20, hidden=(20, 20))  # no ReLU at the end: a feature may have either sign
    return DUQ(net, 2, gradient_penalty=penalty, penalty=side, features=20, **HEAD)


def moons(seed: int) -> Known:
    """Two moons to train on, and 1000 other points to test on."""
    drawn = make_moons(POINTS, noise=0.1, random_state=seed), make_moons(1000, noise=0.1, random_state=1000 + seed)
    train, test = (Samples(torch.tensor(x, dtype=torch.float32), torch.tensor(y)) for x, y in drawn)
    return Known("two moons", train, test, ("upper", "lower"), None, "tabular", ("x", "y"))


def run(title: str, seed: int, resolution: int) -> Panel:
    """One model on the two moons."""
    known, penalty = moons(seed), MODELS[title]
    torch.manual_seed(seed)
    model: Method = duq(*penalty) if penalty else Ensemble(lambda: mlp(2, 2, (20, 20, 20)))
    # the paper trains its ensemble without weight decay, so that the members may differ
    nescio.fit(model, known.train, weight_decay=1e-4 if penalty else 0.0, seed=seed, **TRAINING)
    found = nescio.logits.classes(nescio.predict(model, known.test))
    record = uncertainty_map(model, known, ["max_logit"], window=WINDOW, resolution=resolution, seed=seed)
    away = far_confidence(record, known)
    return Panel(
        map=record,
        accuracy=float((found == known.test.labels).double().mean()),
        on_data=float(model.confidence(nescio.predict(model, known.train)).median()),
        far_away=float(away.mean()),
        far_and_sure=float((away > 0.9).mean()),
    )


def far_confidence(record: Map, known: Known) -> np.ndarray:
    """The map's confidence at its grid points that are far from all training data."""
    grid = torch.cartesian_prod(torch.tensor(record.y), torch.tensor(record.x)).flip(1)
    far = torch.cdist(grid, known.train.inputs).amin(1) > FAR
    return np.array(record.confidence.values).reshape(-1)[far.numpy()]


def gaussians(seed: int, resolution: int) -> tuple[Map, str]:
    """DUQ where classes overlap: its map, and its confidence in words. The paper tells no settings; λ is our choice."""
    known = nescio.data.load("two_gaussians", seed=seed)
    torch.manual_seed(seed)
    model = duq(0.3, "two-sided")
    nescio.fit(model, known.train, weight_decay=1e-4, seed=seed, **TRAINING)
    record = uncertainty_map(
        model, known, ["max_logit"], window=((-5.0, 5.0), (-5.0, 5.0)), resolution=resolution, seed=seed
    )
    dots = record.points
    few = Points(dots.x[::4], dots.y[::4], dots.labels[::4])  # so that what is under them shows
    confidence, x = model.confidence(nescio.predict(model, known.test)), known.test.inputs[:, 0].abs()
    between, beside = confidence[x < 0.5].mean(), confidence[(x > 1) & (x < 2)].mean()
    words = f"two Gaussians, DUQ: mean confidence {between:.2f} where |x| < 0.5, {beside:.2f} where 1 < |x| < 2"
    return replace(record, points=few), words


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("-o", "--output", type=Path, default=Path(), help="a folder for the figures")
    arguments.add_argument("--format", default="svg", choices=["svg", "png", "pdf"])
    arguments.add_argument("--resolution", type=int, default=150)
    arguments.add_argument("--seeds", type=int, default=5, help="how many, from 0 on")
    given = arguments.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    panels = {title: [run(title, seed, given.resolution) for seed in range(given.seeds)] for title in MODELS}
    far = [panel.far_away for panel in panels["DUQ"]]
    seed = far.index(median_low(far))
    maps = [panels[title][seed].map for title in MODELS]
    overlap, words = gaussians(seed, given.resolution)
    for number, chosen, titles in ((1, maps[:2], [*MODELS][:2]), (3, [overlap], ["DUQ"]), (4, maps[2:], [*MODELS][2:])):
        path = given.output / f"paper4-figure{number}.{given.format}"
        save_figure(map_figure(chosen, ["confidence"], titles=titles), path)
        print(f"Saved: {path}")
    print(f"\n{'two moons':<24}{'accuracy':>9}{'on data':>9}{'far away':>10}{'far, > 0.9':>12}")
    for title, runs in panels.items():
        columns = [(one.accuracy, one.on_data, one.far_away, one.far_and_sure) for one in runs]
        accuracy, on_data, away, sure = np.median(columns, axis=0)
        print(f"{title:<24}{accuracy:>9.3f}{on_data:>9.2f}{away:>10.3f}{sure:>12.0%}")
    print(f"(medians of {given.seeds} seeds: test accuracy; median confidence on the training data; its mean where no")
    print(f"training point is within {FAR:g}, and the share of that where it exceeds 0.9; figures: seed {seed})")
    print(f"\n{words}")


if __name__ == "__main__":
    main()
