"""Figures 1, 3 and 4: where in the plane DUQ is certain.

Each model is trained from several seeds and evaluated on test points against the empty plane around
them. Runs differ: what the paper says is held against medians, and maps show the seed whose DUQ is
the median one far from the data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import median, median_low
from typing import Any

import torch
from sklearn.datasets import make_moons
from torch import Tensor

from nescio import evaluate, train, uncertainty_map
from nescio.data import Known, Samples, load
from nescio.methods import DUQ, Ensemble, Method
from nescio.models import mlp
from nescio.records import Evaluation, Map, Points
from nescio.report import map_figure
from nescio.store import training_part
from papers.duq.compared import PAPER, experiment
from papers.duq.runs import Evaluations, auroc, confidence_fractions
from papers.experiment import Outcome
from papers.over_seeds import over_seeds
from papers.reproduction import Comparison
from papers.workspace import Workspace

Window = tuple[tuple[float, float], tuple[float, float]]
Models = Mapping[str, Callable[[], Method]]  # by their titles
WINDOW: Window = ((-2.5, 3.5), (-3.0, 3.0))  # of the moons, as the paper shows them
OVERLAP: Window = ((-5.0, 5.0), (-5.0, 5.0))  # of the Gaussians
FAR = 1.0  # from every training point
SURE, CERTAIN, UNCERTAIN = 0.9, 0.75, 0.25  # of one answer; of the mean over a region
# appendix A.1
TRAINING: dict[str, Any] = {"batch_size": 64, "optimizer": "sgd", "learning_rate": 0.01}
EPOCHS = 30
HEAD: dict[str, Any] = {"centroid_size": 10, "length_scale": 0.3}
HEAD |= {"momentum": 0.99, "weight_spread": 1.0}
ENSEMBLE, TWO_SIDED = "deep ensemble", "DUQ"
NONE, ONE_SIDED = "DUQ, no penalty", "DUQ, one-sided penalty"
PENALTY = {TWO_SIDED: (1.0, "two-sided"), NONE: (0.0, "two-sided"), ONE_SIDED: (1.0, "one-sided")}
GAUSSIAN_PENALTY = 0.3
EMPTY = "far away"
MEASURES: dict[str, Callable[[Evaluation], float]] = {
    "test accuracy": lambda record: record.known.accuracy,
    "mean confidence on test data": lambda record: on_data(record),
    "mean confidence far from the data": lambda record: far_away(record),
    f"share of the far plane with confidence above {SURE}": lambda record: far_and_sure(record),
    "AUROC, test data against the far plane": lambda record: auroc(record, EMPTY),
}


def figure1(work: Workspace) -> Outcome:
    """The ensemble beside DUQ."""
    evaluations = evaluate_models(work, (ENSEMBLE, TWO_SIDED))
    ensemble, duq = evaluations[ENSEMBLE], evaluations[TWO_SIDED]
    draw(work, "figure1.svg", evaluations)
    on, away = median(map(on_data, duq)), median(map(far_away, duq))
    sure = median(map(far_and_sure, ensemble))
    region = f"farther than {FAR:g} from all training points"
    duq_seen = (
        f"median over seeds of its mean certainty: {on:.2f} on test data (wanted: above {CERTAIN})"
        f", {away:.3f} {region} (wanted: below {UNCERTAIN})"
    )
    ensemble_seen = (
        f"more than {SURE} confident on {sure:.0%} of what is {region} "
        f"(median over seeds; wanted: above {CERTAIN:.0%})"
    )
    claims = (
        PAPER.claim("certain_on_data", on > CERTAIN and away < UNCERTAIN, duq_seen),
        PAPER.claim("ensemble_certain", sure > CERTAIN, ensemble_seen),
    )
    deviations = PAPER.deviates(*settings(work), "colours")
    return Outcome(compare(evaluations), claims, deviations, _streaks(duq))


def figure4(work: Workspace) -> Outcome:
    """DUQ without the penalty, and with one that only flattens."""
    evaluations = evaluate_models(work, (TWO_SIDED, NONE, ONE_SIDED))
    draw(work, "figure4.svg", evaluations)
    away = {title: median(map(far_away, runs)) for title, runs in evaluations.items()}
    words = ", ".join(f"{title}: {value:.3f}" for title, value in away.items())
    seen = f"mean certainty far from the data, median over seeds: {words}"
    bound = max(UNCERTAIN, 2 * away[TWO_SIDED])
    twice = f"{seen} (wanted: above {UNCERTAIN}, and more than twice as much as DUQ)"
    halved = f"{seen} (wanted: not halved)"
    claims = (
        PAPER.claim("no_penalty", away[NONE] > bound, twice),
        PAPER.claim("one_sided", away[ONE_SIDED] > bound, twice),
        PAPER.claim("no_better", away[ONE_SIDED] > away[NONE] / 2, halved),
    )
    deviations = PAPER.deviates(*settings(work), "one_scale")
    return Outcome(compare(evaluations), claims, deviations, _streaks(evaluations[TWO_SIDED]))


def figure3(work: Workspace) -> Outcome:
    """DUQ where the classes overlap."""
    how = {"penalty": GAUSSIAN_PENALTY, "epochs": EPOCHS, **TRAINING, **HEAD}
    trained = cache(partial(gaussian_model, work))

    def evaluated(seed: int) -> Evaluation:
        return between(*trained(seed), work)

    runs = [
        work.stage(f"duq-{seed}", Evaluation, partial(evaluated, seed), **how)
        for seed in range(work.seeds)
    ]
    seed = _median_seed(runs)
    drawn = work.stage(
        "map", Map, lambda: mapped(work, *trained(seed), OVERLAP, seed), seed=seed, **how
    )
    work.picture("figure3.svg", map_figure([drawn], ["confidence"], titles=[TWO_SIDED]))
    middle, beside = list(map(far_away, runs)), list(map(on_data, runs))
    compared = (
        over_seeds("DUQ: mean certainty where |x| < 0.5", middle),
        over_seeds("DUQ: mean certainty where 1 < |x| < 2", beside),
    )
    seen = (
        f"mean certainty on test points, median over seeds: {median(middle):.2f} where |x| < 0.5, "
        f"{median(beside):.2f} where 1 < |x| < 2"
    )
    claims = (PAPER.claim("overlap", median(middle) < median(beside), seen),)
    keys = ("gaussians", "first_weights", "losses", "centroids", "one_scale")
    return Outcome(compared, claims, PAPER.deviates(*keys, penalty=GAUSSIAN_PENALTY))


def evaluate_models(
    work: Workspace, titles: Sequence[str], models: Models | None = None
) -> Evaluations:
    """Return each model on test data against the empty plane, once for each seed.

    Args:
        titles: of the models, DUQ among them, whose median seed is drawn.
        models: those that are not of this file.
    """
    points = work.pick(1500, 1000)
    how = {"points": points, "epochs": EPOCHS, **TRAINING, **HEAD}
    trained = cache(partial(moon_model, work, {**MODELS, **(models or {})}))

    def evaluated(title: str, seed: int) -> Evaluation:
        model, known = trained(title, seed), moons(seed, points)
        return evaluate(model, work.few(known.test), {EMPTY: empty(known)}, scores=[model.score])

    evaluations: Evaluations = {title: [] for title in titles}
    for title in titles:
        for seed in range(work.seeds):
            make, name = partial(evaluated, title, seed), f"{_slug(title)}-{seed}"
            evaluations[title].append(work.stage(name, Evaluation, make, **how))
    seed = _median_seed(evaluations[TWO_SIDED])

    def drawn(title: str) -> Map:
        return mapped(work, trained(title, seed), moons(seed, points), WINDOW, seed)

    for title in titles:
        work.stage(f"{_slug(title)}-map", Map, partial(drawn, title), seed=seed, **how)
    return evaluations


def draw(work: Workspace, name: str, evaluations: Mapping[str, object]) -> None:
    """Draw the figure from the maps that are kept."""
    maps = [Map.load(work.folder / f"{_slug(title)}-map.json") for title in evaluations]
    work.picture(name, map_figure(maps, ["confidence"], titles=list(evaluations)))


def moons(seed: int, points: int) -> Known:
    """Return two moons to train on, and 1000 other points to test on; inputs are not normalised."""
    drawn = (
        make_moons(points, noise=0.1, random_state=seed),
        make_moons(1000, noise=0.1, random_state=1000 + seed),
    )
    train, test = (Samples(torch.tensor(x, dtype=torch.float32), torch.tensor(y)) for x, y in drawn)
    return Known("two moons", train, test, ("upper", "lower"), None, "tabular", ("x", "y"))


def moon_model(work: Workspace, models: Models, title: str, seed: int) -> Method:
    """Return one model, trained on the moons."""
    return trained_model(work, models[title], moons(seed, work.pick(1500, 1000)), seed)


def gaussian_model(work: Workspace, seed: int) -> tuple[Method, Known]:
    """Return DUQ trained where the classes overlap, and its data."""
    known = load("two_gaussians", seed=seed)
    return trained_model(work, partial(duq_model, GAUSSIAN_PENALTY), known, seed), known


def duq_model(weight: float, side: str = "two-sided", **more: Any) -> DUQ:
    """Return DUQ over the paper's small network, whose features may have either sign."""
    how: dict[str, Any] = {"gradient_penalty": weight, "penalty": side, "features": 20, **more}
    return DUQ(mlp(2, 20, hidden=(20, 20)), 2, **how, **HEAD)


def deep_ensemble() -> Ensemble:
    """Return five of the paper's small networks."""
    return Ensemble(lambda: mlp(2, 2, (20, 20, 20)))


_DUQS: Models = {title: partial(duq_model, *how) for title, how in PENALTY.items()}
MODELS: Models = {ENSEMBLE: deep_ensemble, **_DUQS}


def trained_model(work: Workspace, make: Callable[[], Method], known: Known, seed: int) -> Method:
    """Return a model with weights of a seed, trained as in appendix A.1."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make()
    # the paper trains its ensemble without weight decay, so that the members may differ
    decay = 0.0 if isinstance(model, Ensemble) else 1e-4
    data, epochs = work.few(training_part(known)), work.count(EPOCHS, 1)
    train(model, data, weight_decay=decay, seed=seed, epochs=epochs, **TRAINING)
    return model


def empty(known: Known, window: Window = WINDOW) -> Tensor:
    """Return points of a grid over a window that are far from all training points."""
    grid = torch.cartesian_prod(*(torch.linspace(low, high, 60) for low, high in window))
    return grid[torch.cdist(grid, training_part(known).inputs).amin(1) > FAR]


def between(model: Method, known: Known, work: Workspace) -> Evaluation:
    """Evaluate points beside the overlap as known, and those within it as the other set."""
    x = known.test.inputs[:, 0].abs()
    sides, within = known.test.select((x > 1) & (x < 2)), known.test.select(x < 0.5)
    return evaluate(model, work.few(sides), {"overlap": work.few(within)}, scores=[model.score])


def mapped(
    work: Workspace,
    model: Method,
    known: Known,
    window: Window,
    seed: int,
) -> Map:
    """Return the model's confidence over a window, with a quarter of its data."""
    size = work.count(work.pick(80, 150), 5)
    record = uncertainty_map(model, known, [model.score], window=window, resolution=size, seed=seed)
    dots = record.points
    return replace(record, scores=(), points=Points(dots.x[::4], dots.y[::4], dots.labels[::4]))


def on_data(record: Evaluation) -> float:
    """Return the mean confidence on known data."""
    return record.known.mmc


def far_away(record: Evaluation) -> float:
    """Return the mean confidence on the other set."""
    return record.unknown[0].mmc


def far_and_sure(record: Evaluation) -> float:
    """Return the fraction of the other set with a confidence above 0.9, the last tenth."""
    return float(confidence_fractions(record, record.unknown[0].name)[-1])


def compare(evaluations: Evaluations) -> tuple[Comparison, ...]:
    """Every measure of every model."""
    return tuple(
        over_seeds(f"{title}: {what}", list(map(measure, runs)))
        for title, runs in evaluations.items()
        for what, measure in MEASURES.items()
    )


def _median_seed(runs: Sequence[Evaluation]) -> int:
    away = list(map(far_away, runs))
    return away.index(median_low(away))


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


def settings(work: Workspace) -> tuple[str, ...]:
    """Return the keys of the settings in which trainings on the moons are not the paper's."""
    return (*(("moons",) if work.quick else ()), "first_weights", "losses", "centroids")


def _streaks(runs: Sequence[Evaluation]) -> tuple[str, ...]:
    """In how many runs DUQ stayed certain somewhere far away, if in any."""
    stray = sum(far_away(one) > UNCERTAIN for one in runs)
    values = {"uncertain": UNCERTAIN, "stray": stray, "runs": len(runs)}
    return (PAPER.remark("streaks", **values),) if stray else ()


_SEEDS = {"quick": 5, "paper": 5}  # cheap, and runs differ
_NO_PENALTY = "DUQ without a penalty, and with a one-sided one"
EXPERIMENTS = (
    experiment("Figure 1", "Two moons: a deep ensemble and DUQ", figure1, seeds=_SEEDS),
    experiment("Figure 3", "DUQ where two classes overlap", figure3, seeds=_SEEDS),
    experiment("Figure 4", _NO_PENALTY, figure4, seeds=_SEEDS),
)
