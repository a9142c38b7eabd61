"""What the tables and figure 2 are made of.

Networks are trained on independent splits of labelled data. Of each input we keep the statistics of
its gradient: single statistics and meta-classifiers are functions of these numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import nescio
from nescio import NescioError, derived_seed, metrics
from nescio.data import Known, Normalise, Samples, load
from nescio.detectors import fit_meta, labelled_features
from nescio.evaluation import unknown_set
from nescio.methods import Softmax
from nescio.models import network_for
from nescio.records import History, Stopwatch, to_plain
from nescio.scores import gradient_features
from papers.gradient_uncertainty.separations import (
    ScoreRow,
    ScoreValues,
    Separations,
    SplitMetrics,
    joined,
)

SINGLE = {  # rows of table 1, and the columns of `gradient_features` they are
    "softmax": "max_prob",
    "entropy": "entropy",
    "l1 norm": "all/l1",
    "l2 norm": "all/l2",
    "minimum": "all/min",
    "maximum": "all/max",
    "standard deviation": "all/std",
}
REGRESSIONS = ("glm", "lasso", "ridge", "elastic_net")  # rows of table 2
MIN_ANSWERS = 10  # right ones, and wrong ones, that a meta-classifier learns from
RIGHT, WRONG, ALL = "right", "wrong", "all unknown"
SHOWN = ("entropy", "l2 norm", "minimum")  # in figure 2
KEPT = 500  # values of each set in the figure
Features = dict[str, Tensor]  # of each set, (N, F)


@dataclass(frozen=True)
class SplitPlan:
    """What is trained, on how much, and what it is held against."""

    data: str
    network: str
    unknown: tuple[str, ...]  # sets that are separated from right answers
    mixed: tuple[str, ...]  # those that make up `all unknown`
    mixes: tuple[tuple[str, ...], ...]  # known unknowns that the network of table 3 learns from
    train: int
    validation: int
    test: int
    digits: tuple[str, ...] = ()  # more data of known classes, whose wrong answers are a set
    unseen: tuple[str, ...] = ()
    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 0.1
    most: int = 5000  # inputs of an unknown set
    each: int = 200  # inputs of a known unknown
    networks: int = 5  # meta-classifiers that are averaged


MNIST = SplitPlan(
    data="mnist",
    network="cnn16",
    unknown=("nist_letters", "omniglot", "notmnist", "cifar10", "normal", "uniform"),
    mixed=("omniglot", "notmnist", "cifar10", "normal", "uniform"),
    mixes=((), ("uniform",), ("uniform", "cifar10"), ("uniform", "cifar10", "omniglot")),
    train=45_000,
    validation=10_000,
    test=15_000,
    digits=("emnist_digits",),
)
DIGITS = SplitPlan(
    data="digits",
    network="lenet",
    unknown=("unseen", "normal", "uniform"),
    mixed=("unseen", "normal", "uniform"),
    mixes=((), ("uniform",)),
    train=120,
    validation=540,
    test=540,
    unseen=("7", "8", "9"),
    epochs=20,
    batch_size=32,
    learning_rate=0.01,
    most=400,
    each=100,
    networks=2,
)


def separations(
    plan: SplitPlan, splits: int, folder: Path, root: str | None = None, seed: int = 0
) -> Separations:
    """Return the record of all splits; each is written when done, and not made again."""
    records = []
    for split in range(splits):
        path = folder / f"split-{split}.json"
        settings = {**to_plain(plan), "split": split}
        if path.exists():
            record = Separations.load(path)
            if record.provenance.settings != settings or record.provenance.seed != seed:
                raise NescioError(
                    f"{str(path)!r} was made with other settings; choose another folder"
                )
        else:
            record = one_split(plan, split, folder, root, seed, settings)
            record.save(path)
        records.append(record)
    return joined(records)


def one_split(
    plan: SplitPlan,
    split: int,
    folder: Path,
    root: str | None,
    seed: int,
    settings: Mapping[str, Any],
) -> Separations:
    """Train a network on its part of the data, and evaluate all scores on all sets."""
    stopwatch, own = Stopwatch(), derived_seed(seed, "split", split)
    known = load(plan.data, root, plan.unseen)
    train, validation, test = divided(known, (plan.train, plan.validation, plan.test), own)
    training = Stopwatch()
    model, history = _trained(plan, known, train, own, folder / f"split-{split}.safetensors")
    # a training that was resumed took longer than this time
    earlier_seconds = history.provenance.seconds - training.seconds
    rows, right, names = labelled_features(model, validation)
    if min(count := (int(right.sum()), int((~right).sum()))) < MIN_ANSWERS:
        raise NescioError(
            f"split {split} has {count[0]} right and {count[1]} wrong answers to learn from; "
            f"expected at least {MIN_ANSWERS} of each"
        )
    unknown, few = _sets(plan, known, root, own)
    by_set = _SetFeatures(_features(plan, model, test, unknown, root))
    familiar = {name: gradient_features(model, data, log=True).values for name, data in few.items()}
    columns = {name: _column(names.index(column)) for name, column in SINGLE.items()}
    fits = {kind: fit_meta(kind, rows, ~right, own) for kind in REGRESSIONS}
    table = [by_set.row(name, "single", column) for name, column in columns.items()]
    table += [by_set.row(kind, "regression", fit) for kind, fit in fits.items()]
    for mix in plan.mixes:
        few_of = {name: familiar[name] for name in mix}
        table.append(_network_row(plan, by_set, rows, right, few_of, own))
    spreads = [ScoreValues(name, by_set.values(names.index(SINGLE[name]))) for name in SHOWN]
    accuracy = nescio.evaluate(model, test, scores=["max_prob"]).known.accuracy
    origin = stopwatch.provenance(seed, dict(settings))
    return Separations(
        data=known.name,
        network=plan.network,
        accuracy=(accuracy,),
        sets={name: (len(values),) for name, values in by_set.features.items()},
        rows=tuple(table),
        spreads=tuple(spreads),
        provenance=replace(origin, seconds=origin.seconds + earlier_seconds),
    )


def _features(
    plan: SplitPlan, model: Softmax, test: Samples, unknown: dict[str, Samples], root: str | None
) -> Features:
    """Of right answers, wrong ones, each unknown set, and all mixed ones; no empty sets."""
    values, right, _ = labelled_features(model, test)
    features = {RIGHT: values[right], WRONG: values[~right]}
    for name in plan.digits:
        values, right, _ = labelled_features(model, load(name, root).test)
        features[f"{name}, wrong"] = values[~right]
    features |= {
        name: gradient_features(model, data, log=True).values for name, data in unknown.items()
    }
    features[ALL] = torch.cat([features[name] for name in plan.mixed])
    return {name: values for name, values in features.items() if len(values)}


def _column(number: int) -> Callable[[Tensor], Tensor]:
    return lambda features: features[:, number]


def divided(known: Known, sizes: Sequence[int], seed: int) -> list[Samples]:
    """Return random parts of so many inputs each of all labelled data, test part included."""
    parts = [part for part in (known.train, known.test) if part is not None]
    whole = Samples.joined(parts, known.name)
    if sum(sizes) > len(whole):
        raise NescioError(
            f"{known.name} has {len(whole)} labelled inputs, but {sum(sizes)} are asked for"
        )
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    ends = np.cumsum([0, *sizes]).tolist()
    return [whole.select(order[a:b]) for a, b in pairwise(ends)]


def _trained(
    plan: SplitPlan, known: Known, train: Samples, seed: int, checkpoint: Path
) -> tuple[Softmax, History]:
    """As in the paper, but for a fixed number of epochs at each of three learning rates."""
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        net = network_for(plan.network, known.shape, len(known.classes))
    model = Softmax(net, normalise=Normalise.fitted(train))
    history = nescio.train(
        model,
        train,
        epochs=plan.epochs,
        batch_size=plan.batch_size,
        optimizer="sgd",
        learning_rate=plan.learning_rate,
        weight_decay=1e-3,
        schedule=nescio.schedule.Step(at=(0.6, 0.85), factor=0.1),
        seed=seed,
        checkpoint=checkpoint,
    )
    return model.eval(), history


def _sets(
    plan: SplitPlan, known: Known, root: str | None, seed: int
) -> tuple[dict[str, Samples], dict[str, Samples]]:
    """The unknown sets to evaluate on, and a few other inputs of each to learn from."""
    unknown, few = {}, {}
    for name in plan.unknown:
        data = unknown_set(name, known, root, seed % 2**31)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
        few[name] = data.select(order[: plan.each])
        unknown[name] = data.select(order[plan.each : plan.each + plan.most])
    return unknown, few


class _SetFeatures:
    """Holds the features of each set, and any function of them against the right answers."""

    def __init__(self, features: Features) -> None:
        self.features = features

    def row(self, name: str, group: str, *scores: Any) -> ScoreRow:
        """What a score gives or, of several, what they give on average."""
        against = {
            other: [self._separation(score, other) for score in scores]
            for other in self.features
            if other != RIGHT
        }
        means = {other: np.mean(metrics_of, axis=0) for other, metrics_of in against.items()}
        return ScoreRow(
            name,
            group,
            {
                other: SplitMetrics(*((float(v),) for v in metrics_of))
                for other, metrics_of in means.items()
            },
        )

    def values(self, column: int) -> dict[str, tuple[float, ...]]:
        """Some values of a column on each set, for a figure."""
        return {
            name: tuple(float(f"{v:.5g}") for v in values[:KEPT, column].tolist())
            for name, values in self.features.items()
            if name != ALL
        }

    def _separation(self, score: Any, other: str) -> tuple[float, float, float]:
        known, unknown = (_numbers(score(self.features[name])) for name in (RIGHT, other))
        return metrics.separation(known, unknown)[:3]


def _numbers(values: Tensor) -> NDArray[np.float64]:
    return values.detach().cpu().numpy()


def _network_row(
    plan: SplitPlan, by_set: _SetFeatures, rows: Tensor, right: Tensor, few: Features, seed: int
) -> ScoreRow:
    """The network that learns from validation data and a few inputs of some unknown sets."""
    values = torch.cat([rows, *few.values()])
    wrong = torch.cat([~right, right.new_ones(len(values) - len(rows))])
    fitted = [
        fit_meta("nn", values, wrong, derived_seed(seed, "network", number))
        for number in range(plan.networks)
    ]
    return by_set.row(" + ".join(["validation", *few]), "network", *fitted)
