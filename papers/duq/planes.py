"""Figures 1, 3 and 4 of *DUQ*: where in the plane one network, trained to stay sensitive, knows that it knows.

Each model is learned from several seeds and judged on test points against the empty plane around them. Runs differ:
what the paper says is held against medians, and maps show the seed whose DUQ is the median one far from the data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import median, median_low
from typing import Any

import torch
from sklearn.datasets import make_moons
from torch import Tensor

from nescio.data import Known, Samples, load
from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.maps import uncertainty_map
from nescio.methods import DUQ, Ensemble, Method
from nescio.models import mlp
from nescio.records import Evaluation, Map, Points
from nescio.report.maps import map_figure
from nescio.store.run import training_part
from nescio.training.train import train as train_model
from papers.duq.published import LOSSES
from papers.duq.runs import auroc, confidence_shares
from papers.experiment import Experiment, Found, Work
from papers.over_seeds import over_seeds
from papers.reproduction import Claim, Compared, Differs

WINDOW = ((-2.5, 3.5), (-3.0, 3.0))  # of the moons, as the paper shows them
OVERLAP = ((-5.0, 5.0), (-5.0, 5.0))  # of the Gaussians
FAR = 1.0  # from every training point
SURE, CERTAIN, UNCERTAIN = 0.9, 0.75, 0.25  # of one answer; of the mean over a region
TRAINING: dict[str, Any] = {
    "batch_size": 64,
    "optimizer": "sgd",
    "learning_rate": 0.01,
}  # appendix A.1
EPOCHS = 30
HEAD: dict[str, Any] = {
    "centroid_size": 10,
    "length_scale": 0.3,
    "momentum": 0.99,
    "weight_spread": 1.0,
}
ENSEMBLE, TWO_SIDED, NONE, ONE_SIDED = (
    "deep ensemble",
    "DUQ",
    "DUQ, no penalty",
    "DUQ, one-sided penalty",
)
PENALTY = {TWO_SIDED: (1.0, "two-sided"), NONE: (0.0, "two-sided"), ONE_SIDED: (1.0, "one-sided")}
GAUSSIAN_PENALTY = 0.3
EMPTY = "far away"


def figure1(work: Work) -> Found:
    """The ensemble beside DUQ."""
    found = judged(work, (ENSEMBLE, TWO_SIDED))
    ensemble, duq = found[ENSEMBLE], found[TWO_SIDED]
    draw(work, "figure1.svg", found)
    on, away, sure = (
        median(map(on_data, duq)),
        median(map(far_away, duq)),
        median(map(far_and_sure, ensemble)),
    )
    return Found(
        compared=_measured(found),
        claims=(
            Claim(
                "DUQ is certain only on the data distribution, and uncertain away from it",
                on > CERTAIN and away < UNCERTAIN,
                f"median over seeds of its mean certainty: {on:.2f} on test data (wanted: above {CERTAIN}), {away:.3f} "
                f"farther than {FAR:g} from all training points (wanted: below {UNCERTAIN})",
            ),
            Claim(
                "Deep Ensembles is uncertain only along the decision boundary, and certain elsewhere",
                sure > CERTAIN,
                f"more than {SURE} confident on {sure:.0%} of what is farther than {FAR:g} from all training points "
                f"(median over seeds; wanted: above {CERTAIN:.0%})",
            ),
        ),
        differs=(*_settings(work), _COLOURS),
        remarks=_streaks(duq),
    )


def figure4(work: Work) -> Found:
    """DUQ without the penalty, and with one that only flattens."""
    found = judged(work, (TWO_SIDED, NONE, ONE_SIDED))
    draw(work, "figure4.svg", found)
    away = {title: median(map(far_away, runs)) for title, runs in found.items()}
    words = ", ".join(f"{title}: {value:.3f}" for title, value in away.items())
    seen = f"mean certainty far from the data, median over seeds: {words}"
    return Found(
        compared=_measured(found),
        claims=(
            Claim(
                "Without gradient penalty the model is certain even far away from the data",
                away[NONE] > max(UNCERTAIN, 2 * away[TWO_SIDED]),
                f"{seen} (wanted: above {UNCERTAIN}, and more than twice as much as DUQ)",
            ),
            Claim(
                "With only a one-sided penalty the uncertainty is significantly worse than with a two-sided one",
                away[ONE_SIDED] > max(UNCERTAIN, 2 * away[TWO_SIDED]),
                f"{seen} (wanted: above {UNCERTAIN}, and more than twice as much as DUQ)",
            ),
            Claim(
                "It does not improve on that without a penalty",
                away[ONE_SIDED] > away[NONE] / 2,
                f"{seen} (wanted: not halved)",
            ),
        ),
        differs=(*_settings(work), _ONE_SCALE),
        remarks=_streaks(found[TWO_SIDED]),
    )


def figure3(work: Work) -> Found:
    """DUQ where the classes overlap."""
    how = {"penalty": GAUSSIAN_PENALTY, "epochs": EPOCHS, **TRAINING, **HEAD}
    learned = cache(partial(gaussian_model, work))

    def make(seed: int) -> Evaluation:
        return between(*learned(seed), work)

    runs = [
        work.stage(f"duq-{seed}", Evaluation, partial(make, seed), **how)
        for seed in range(work.seeds)
    ]
    chosen = _middle(runs)
    shown = work.stage(
        "map", Map, lambda: mapped(work, *learned(chosen), OVERLAP, chosen), seed=chosen, **how
    )
    work.picture("figure3.svg", map_figure([shown], ["confidence"], titles=[TWO_SIDED]))
    middle, beside_it = [far_away(one) for one in runs], [on_data(one) for one in runs]
    return Found(
        compared=(
            over_seeds("DUQ: mean certainty where |x| < 0.5", middle),
            over_seeds("DUQ: mean certainty where 1 < |x| < 2", beside_it),
        ),
        claims=(
            Claim(
                "DUQ shows higher uncertainty around the 0 mark on the x axis, where the classes overlap",
                median(middle) < median(beside_it),
                f"mean certainty on test points, median over seeds: {median(middle):.2f} where |x| < 0.5, "
                f"{median(beside_it):.2f} where 1 < |x| < 2",
            ),
        ),
        differs=(
            Differs(
                "data and training",
                "not told",
                f"unit Gaussians at (∓1, 0), 1000 points; as on two moons, λ = {GAUSSIAN_PENALTY}",
                "the paper only shows the figure",
            ),
            *HEADS,
            _ONE_SCALE,
        ),
    )


def judged(work: Work, titles: Sequence[str]) -> dict[str, list[Evaluation]]:
    """Each model on test data against the empty plane, once for each seed."""
    points = work.pick(1500, 1000)
    how = {"points": points, "epochs": EPOCHS, **TRAINING, **HEAD}
    learned = cache(partial(moon_model, work))

    def make(title: str, seed: int) -> Evaluation:
        model, known = learned(title, seed), moons(seed, points)
        return evaluate(model, work.few(known.test), {EMPTY: empty(known)}, scores=[model.score])

    found = {
        title: [
            work.stage(f"{_slug(title)}-{seed}", Evaluation, partial(make, title, seed), **how)
            for seed in range(work.seeds)
        ]
        for title in titles
    }
    chosen = _middle(found[TWO_SIDED])

    def drawn(title: str) -> Map:
        return mapped(work, learned(title, chosen), moons(chosen, points), WINDOW, chosen)

    for title in titles:
        work.stage(f"{_slug(title)}-map", Map, partial(drawn, title), seed=chosen, **how)
    return found


def draw(work: Work, name: str, found: dict[str, list[Evaluation]]) -> None:
    """The figure, from the maps that are kept."""
    maps = [Map.load(work.folder / f"{_slug(title)}-map.json") for title in found]
    work.picture(name, map_figure(maps, ["confidence"], titles=list(found)))


def moons(seed: int, points: int) -> Known:
    """Two moons to train on, and 1000 other points to test on; inputs are taken as they are, not normalised."""
    drawn = (
        make_moons(points, noise=0.1, random_state=seed),
        make_moons(1000, noise=0.1, random_state=1000 + seed),
    )
    train, test = (Samples(torch.tensor(x, dtype=torch.float32), torch.tensor(y)) for x, y in drawn)
    return Known("two moons", train, test, ("upper", "lower"), None, "tabular", ("x", "y"))


def moon_model(work: Work, title: str, seed: int) -> Method:
    """One model, trained on the moons."""
    known = moons(seed, work.pick(1500, 1000))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Method = (
            Ensemble(lambda: mlp(2, 2, (20, 20, 20))) if title == ENSEMBLE else duq(*PENALTY[title])
        )
    # the paper trains its ensemble without weight decay, so that the members may differ
    return _fitted(work, model, known, seed, 0.0 if title == ENSEMBLE else 1e-4)


def gaussian_model(work: Work, seed: int) -> tuple[Method, Known]:
    """DUQ trained where the classes overlap, and its data."""
    known = load("two_gaussians", seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = duq(GAUSSIAN_PENALTY, "two-sided")
    return _fitted(work, model, known, seed, 1e-4), known


def duq(penalty: float, side: str) -> DUQ:
    """DUQ over the paper's small network, with no ReLU at the end: a feature may have either sign."""
    return DUQ(
        mlp(2, 20, hidden=(20, 20)), 2, gradient_penalty=penalty, penalty=side, features=20, **HEAD
    )


def _fitted(work: Work, model: Method, known: Known, seed: int, weight_decay: float) -> Method:
    data, epochs = work.few(training_part(known)), work.count(EPOCHS, 1)
    train_model(model, data, weight_decay=weight_decay, seed=seed, epochs=epochs, **TRAINING)
    return model


def empty(known: Known) -> Tensor:
    """Points of a grid over the window that are far from all training points."""
    grid = torch.cartesian_prod(*(torch.linspace(low, high, 60) for low, high in WINDOW))
    return grid[torch.cdist(grid, training_part(known).inputs).amin(1) > FAR]


def between(model: Method, known: Known, work: Work) -> Evaluation:
    """Points beside the overlap as known, and those within it as the other set."""
    x = known.test.inputs[:, 0].abs()
    sides, within = known.test.select((x > 1) & (x < 2)), known.test.select(x < 0.5)
    return evaluate(model, work.few(sides), {"overlap": work.few(within)}, scores=[model.score])


def mapped(
    work: Work,
    model: Method,
    known: Known,
    window: tuple[tuple[float, float], tuple[float, float]],
    seed: int,
) -> Map:
    """The model's confidence over a window, with some of its data, so that what is under them shows."""
    size = work.count(work.pick(80, 150), 5)
    found = uncertainty_map(model, known, [model.score], window=window, resolution=size, seed=seed)
    dots = found.points
    return replace(found, scores=(), points=Points(dots.x[::4], dots.y[::4], dots.labels[::4]))


def on_data(record: Evaluation) -> float:
    """The mean confidence on known data."""
    return record.known.mmc


def far_away(record: Evaluation) -> float:
    """The mean confidence on the other set."""
    return record.unknown[0].mmc


def far_and_sure(record: Evaluation) -> float:
    """The share of the other set that it is surer of than 0.9, the last tenth."""
    return float(confidence_shares(record, record.unknown[0].name)[-1])


MEASURES: dict[str, Callable[[Evaluation], float]] = {
    "test accuracy": lambda record: record.known.accuracy,
    "mean confidence on test data": on_data,
    "mean confidence far from the data": far_away,
    f"share of the far plane with confidence above {SURE}": far_and_sure,
    "AUROC, test data against the far plane": lambda record: auroc(record, EMPTY),
}


def _measured(found: Mapping[str, Sequence[Evaluation]]) -> tuple[Compared, ...]:
    """Every measure of every model."""
    return tuple(
        over_seeds(f"{title}: {what}", [measure(one) for one in runs])
        for title, runs in found.items()
        for what, measure in MEASURES.items()
    )


def _middle(runs: Sequence[Evaluation]) -> int:
    away = [far_away(one) for one in runs]
    return away.index(median_low(away))


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


def _settings(work: Work) -> tuple[Differs, ...]:
    data = Differs("training points", "1000", "1500", "as in the authors' notebook")
    return (
        *((data,) if work.quick else ()),
        *HEADS,
    )


HEADS = (
    Differs("first weights W_c of DUQ", "not told", "N(0, 1)", "as in the authors' notebook"),
    *LOSSES,
)
_ONE_SCALE = Differs(
    "colours", "each panel scaled to its own values", "all on one scale", "to be compared"
)
_COLOURS = Differs(
    "colours",
    "each panel scaled to its own values; entropy of the ensemble",
    "the confidence of every model, on one scale",
    "so that panels can be compared",
)


def _streaks(runs: Sequence[Evaluation]) -> tuple[str, ...]:
    """In how many runs DUQ stayed certain somewhere far away, if in any."""
    stray = sum(far_away(one) > UNCERTAIN for one in runs)
    if not stray:
        return ()
    return (
        f"DUQ with the two-sided penalty kept a streak of certainty far from its data (a mean above {UNCERTAIN}) "
        f"in {stray} of {len(runs)} runs: the penalty is on training points only, and promises nothing "
        "elsewhere.",
    )


_SEEDS = {"quick": 5, "paper": 5}  # cheap, and runs differ
EXPERIMENTS = (
    Experiment(
        "duq-figure1", 4, "Figure 1", "Two moons: a deep ensemble and DUQ", figure1, seeds=_SEEDS
    ),
    Experiment(
        "duq-figure3", 4, "Figure 3", "DUQ where two classes overlap", figure3, seeds=_SEEDS
    ),
    Experiment(
        "duq-figure4",
        4,
        "Figure 4",
        "DUQ without a penalty, and with a one-sided one",
        figure4,
        seeds=_SEEDS,
    ),
)
