"""Figure 1: the plane cut into linear regions, the outer ones without end."""

from collections.abc import Callable
from functools import cache, partial

import torch

import nescio
from nescio.audit import overconfidence, regions_in
from nescio.data import Known
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.records import Audit, Regions
from nescio.report import regions_figure
from nescio.store import Source
from papers.experiment import Experiment, Outcome
from papers.over_seeds import over_seeds
from papers.relu_overconfidence.networks import PAPER
from papers.workspace import Workspace

WIDTH = 12  # of both hidden layers


def figure1(work: Workspace) -> Outcome:
    """The plane cut into the linear regions of a network with two hidden layers."""
    epochs, trials = work.count(60, 1), work.count(1000, 8)
    regions: list[Regions] = []
    ends: list[Audit] = []
    for seed in range(work.seeds):
        known = work.known(Source("two_moons", seed=seed))
        # trained by the first stage that needs it
        model = cache(partial(_two_layers, known, epochs, seed))
        how = {"seed": seed, "width": WIDTH, "epochs": epochs}
        cut, audit = partial(_regions, model, known), partial(_audit, model, trials, seed)
        regions.append(work.stage(f"regions-{seed}", Regions, cut, **how))
        ends.append(work.stage(f"far-{seed}", Audit, audit, **how))
    work.picture("regions.svg", regions_figure(regions[0]))
    certain, covered = [one.ends_certain or 0.0 for one in ends], [one.covered for one in regions]
    counts, unbounded = [one.count for one in regions], [one.unbounded for one in regions]
    compared = (
        over_seeds("linear regions in the window", counts),
        over_seeds("of them unbounded", unbounded),
        over_seeds("share of the window that they fill", covered, unit="%"),
        over_seeds("directions in which confidence provably tends to 1", certain, unit="%"),
    )
    filled = all(abs(part - 1) < 1e-6 for part in covered)
    polygons = f"{', '.join(map(str, counts))} polygons fill {min(covered):.4%} of the window"
    outer = f"{', '.join(map(str, unbounded))} of them are unbounded"
    proved = f"proved of {min(certain):.1%} of {ends[0].trials} directions at least"
    claims = (
        PAPER.claim("polytopes", filled, polygons),
        PAPER.claim("unbounded", min(unbounded) > 0, outer),
        PAPER.claim("confident", min(certain) > 0.99, proved),
    )
    remarks = ("no_numbers", "ties") if min(certain) < 1 else ("no_numbers",)
    deviations = PAPER.deviates("figure1", width=WIDTH)
    return Outcome(compared, claims, deviations, tuple(map(PAPER.remark, remarks)))


def _two_layers(known: Known, epochs: int, seed: int) -> Softmax:
    with torch.random.fork_rng():
        torch.manual_seed(nescio.derived_seed(seed, "weights", 0))
        net = mlp(2, len(known.classes), hidden=(WIDTH, WIDTH))
        model = Softmax(net, normalise=known.normalise)
    assert known.train is not None  # noqa: S101 - as embedded sets have
    nescio.train(model, known.train, epochs=epochs, batch_size=64, learning_rate=5e-3, seed=seed)
    return model.eval()


def _regions(model: Callable[[], Softmax], known: Known) -> Regions:
    assert known.train is not None  # noqa: S101 - as embedded sets have
    x, _ = known.train.take(slice(None))
    middle, half = (x.amin(0) + x.amax(0)) / 2, 1.25 * float((x.amax(0) - x.amin(0)).max())
    return regions_in(model(), [(at - half, at + half) for at in middle.tolist()], known)


def _audit(model: Callable[[], Softmax], count: int, seed: int) -> Audit:
    angles = torch.linspace(0, 2 * torch.pi, count + 1, dtype=torch.float64)[:-1]
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    return overconfidence(model(), circle, trials=count, rays=0, seed=seed)


_TITLE = "The plane cut into linear regions, the outer ones without end"
EXPERIMENTS = (Experiment("relu-figure1", 2, "Figure 1", _TITLE, figure1),)
