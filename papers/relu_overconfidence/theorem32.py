"""Theorem 3.2: far from all centres an RBF network is uniform up to ε, guaranteed and looked at."""

from collections.abc import Callable
from functools import cache, partial
from itertools import product

import torch
from torch import Tensor

import nescio
from nescio.audit import overconfidence
from nescio.data import Known
from nescio.evaluation import HIDDEN
from nescio.methods import Method, RBFNetwork, Softmax
from nescio.models import mlp
from nescio.records import Audit, Stopwatch
from nescio.store import Source
from papers.experiment import Experiment, Outcome
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import PAPER
from papers.relu_overconfidence.radius import Radius, RadiusCheck, radius_figure
from papers.workspace import Workspace

DATA = ("two_moons", "digits")  # 2 features and 2 classes; 64 features and 10 classes
EPS = (0.1, 0.01, 0.001)
Trained = Callable[[], tuple[RBFNetwork, Method]]
DRAWN_POINTS = 600
ROUNDING = 1e-12
NEARLY_ALL = 0.99  # of all directions, some of which the theorem about ReLU networks leaves out


def theorem32(work: Workspace) -> Outcome:
    """The bound at its own radius, and far beyond, on points in all directions around the data."""
    points, epochs = work.count(work.pick(20_000, 200_000), 64), work.count(20, 1)
    directions = work.count(1000, 8)
    measured: dict[str, list[Radius]] = {}
    ends: dict[str, list[Audit]] = {}
    for name, seed in product(DATA, range(work.seeds)):
        known = work.known(Source(name, seed=seed))
        how = {"seed": seed, "points": points, "epochs": epochs}
        trained = cache(partial(_trained, known, epochs, seed))
        measure = partial(_measured, trained, known, points, epochs, seed)
        measured.setdefault(name, []).append(work.stage(f"{name}-{seed}", Radius, measure, **how))
        audit = partial(_audit, trained, known, directions, seed)
        ends.setdefault(name, []).append(work.stage(f"{name}-relu-{seed}", Audit, audit, **how))
    work.picture("radius.svg", radius_figure([runs[0] for runs in measured.values()]))
    worst, radii, errors = [], [], []
    for name, runs in measured.items():
        for i, eps in enumerate(EPS):
            beyond = f"largest |p − 1/K| beyond the radius for ε = {eps:g} (bound: {eps:g})"
            worst.append(over_seeds(f"{name}: {beyond}", [one.promises[i].worst for one in runs]))
            usual = "over the median distance of test inputs to their nearest centre"
            relative = [one.promises[i].radius / _usual(one) for one in runs]
            radii.append(over_seeds(f"{name}: radius for ε = {eps:g}, {usual}", relative))
        error = [1 - one.accuracy for one in runs]
        errors.append(over_seeds(f"{name}: RBF network, test error", error, unit="%"))
    every = [check for runs in measured.values() for one in runs for check in one.promises]
    certain = {name: min(one.ends_certain or 0.0 for one in runs) for name, runs in ends.items()}
    tight = max(one.worst / one.eps for one in every)
    holds = all(one.worst <= one.eps + ROUNDING and one.beyond > 0 for one in every)
    inputs = f"{sum(one.beyond for one in every):,} inputs"
    proved = "directions in which a ReLU network's confidence provably tends to 1"
    contrast = f"{proved}: {in_words(certain, '{:.1%}')}"
    claims = (
        PAPER.claim("within", holds, f"{inputs}; at most {tight:.2g} of the ε promised"),
        PAPER.claim("contrast", min(certain.values()) > NEARLY_ALL, contrast),
    )
    remarks = (PAPER.remark("no_experiment"), PAPER.remark("not_tight", tight=tight))
    return Outcome((*worst, *radii, *errors), claims, (), remarks)


def _measured(trained: Trained, known: Known, points: int, epochs: int, seed: int) -> Radius:
    stopwatch = Stopwatch()
    kernels, other = trained()
    usual = float(kernels.distance(known.test.take(slice(None))[0]).median())
    radii = [kernels.uniform_radius(eps) for eps in EPS]
    x = _around(known, points, 3 * max(radii), seed)
    distance = kernels.distance(x)
    departs, ordinary = _departs(kernels, x, seed), _departs(other, x, seed)
    checks = []
    for eps, radius in zip(EPS, radii, strict=True):
        beyond = distance >= radius
        worst = float(departs[beyond].max()) if beyond.any() else 0.0
        checks.append(RadiusCheck(eps, radius, int(beyond.sum()), float(f"{worst:.6g}")))
    drawn = torch.linspace(0, len(x) - 1, min(DRAWN_POINTS, len(x))).long()
    kept = distance.argsort()[drawn]
    weight = kernels.weight.detach().double()
    assert kernels.gamma is not None  # noqa: S101 - `fit` has found one
    settings = {"points": points, "epochs": epochs, "usual": usual}
    return Radius(
        data=known.name,
        classes=len(known.classes),
        centres=len(kernels.centres),
        gamma=kernels.gamma,
        alpha=float(torch.cdist(weight, weight, p=1).amax()),
        accuracy=nescio.evaluate(kernels, known.test, scores=["max_prob"]).known.accuracy,
        promises=tuple(checks),
        distance=_short(distance[kept]),
        departs=_short(departs[kept]),
        other=_short(ordinary[kept]),
        provenance=stopwatch.provenance(seed, settings),
    )


def _audit(trained: Trained, known: Known, directions: int, seed: int) -> Audit:
    """What the ReLU network does at infinity, in random directions."""
    generator = torch.Generator().manual_seed(nescio.derived_seed(seed, "directions", 1))
    ways = torch.randn(directions, *known.shape, generator=generator, dtype=torch.float64)
    return overconfidence(trained()[1], ways, trials=directions, limit=0, rays=0, seed=seed)


def _trained(known: Known, epochs: int, seed: int) -> tuple[RBFNetwork, Method]:
    """The RBF network, whose weights are found at once, and a ReLU network on the same data."""
    assert known.train is not None  # noqa: S101 - as embedded sets have
    features, classes = known.train.take(slice(0, 1))[0].numel(), len(known.classes)
    kernels = RBFNetwork(classes=classes, features=features, normalise=known.normalise)
    nescio.train(kernels, known.train, epochs=1, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(nescio.derived_seed(seed, "weights", 0))
        net = torch.nn.Sequential(torch.nn.Flatten(), mlp(features, classes, hidden=HIDDEN))
    other = Softmax(net, normalise=known.normalise)
    nescio.train(other, known.train, epochs=epochs, batch_size=64, seed=seed)
    return kernels.eval(), other.eval()


def _around(known: Known, count: int, reach: float, seed: int) -> Tensor:
    """Raw inputs in random directions from training inputs; `reach` is in normalised units."""
    assert known.train is not None  # noqa: S101 - as embedded sets have
    generator = torch.Generator().manual_seed(nescio.derived_seed(seed, "directions", 0))
    inputs = known.train.take(slice(None))[0].double()
    start = inputs[torch.randint(len(inputs), (count,), generator=generator)]
    way = torch.randn(start.shape, generator=generator, dtype=torch.float64)
    # how much longer a step is once it is normalised
    normalise = known.normalise or torch.nn.Identity()
    unit: Tensor = (normalise(start + way) - normalise(start)).flatten(1).norm(dim=1)
    length = reach * torch.rand(count, generator=generator, dtype=torch.float64) / unit
    return start + way * length.view(-1, *[1] * (start.dim() - 1))


def _departs(model: Method, x: Tensor, seed: int) -> Tensor:
    """How far the probabilities of inputs are from 1/K, the farthest one of each, in float64."""
    logits = nescio.predict(model, x, seed=seed).double()[0]
    return (logits.softmax(1) - 1 / logits.shape[1]).abs().amax(1)


def _short(values: Tensor) -> tuple[float, ...]:
    return tuple(float(f"{value:.4g}") for value in values.tolist())


def _usual(record: Radius) -> float:
    return float(record.provenance.settings["usual"])


_TITLE = "Far from all centres an RBF network is uniform up to ε"
EXPERIMENTS = (Experiment("relu-theorem32", 2, "Theorem 3.2", _TITLE, theorem32),)
