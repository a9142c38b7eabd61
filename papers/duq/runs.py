"""The trained networks of the image experiments, each evaluated against unknown data.

A run is trained and evaluated once, in a folder that experiments share; each keeps the records.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nescio import NescioError, evaluate
from nescio.data import Known
from nescio.evaluation import unknown_set
from nescio.methods import Method, Softmax
from nescio.records import Evaluation, History, Rejection, Roc
from nescio.report import of_score, side_of
from nescio.store import Source
from papers.workspace import Workspace

Derive = Callable[[Method, Known], nn.Module]  # another model from a trained one
# at quick scale: an hour for three DUQ and five networks with a softmax
DUQ_EPOCHS, SOFTMAX_EPOCHS = 6, 3
DRY_MEMBERS = 3  # of an ensemble in a dry run
THIRDS = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 128, "schedule": "thirds"}


@dataclass(frozen=True)
class Pair:
    """Data to learn, a network for them, and the data to separate them from."""

    name: str
    data: str
    network: str
    unknown: tuple[str, ...]
    epochs: int  # of the paper
    training: Mapping[str, Any] = field(default_factory=lambda: THIRDS)


FASHION = Pair("fashion", "fashion_mnist", "conv3", ("mnist", "notmnist"), 30)
MOVED = {"augment": ("crop", "flip")}
CIFAR = Pair("cifar", "cifar10", "resnet18", ("svhn",), 75, {**THIRDS, **MOVED})
# about 11 hours for six DUQ and five networks with a softmax, on two quiet cores
ONE_CYCLE = {**THIRDS, **MOVED, "learning_rate": 0.1, "schedule": "one_cycle"}
CIFAR_DAY = Pair("cifar", "cifar10", "resnet9", ("svhn",), 24, ONE_CYCLE)


@dataclass(frozen=True)
class TrainingRun:
    """How a network is trained, and the scores it is evaluated by; the first is the paper's."""

    name: str
    method: str
    epochs: int
    weight_decay: float
    scores: tuple[str, ...]
    own: Mapping[str, Any] = field(default_factory=dict)
    most: int | None = None  # training inputs, if not all


Runs = Mapping[str, tuple[TrainingRun, int]]  # by the names that figures show; with how many seeds
Evaluations = dict[str, list[Evaluation]]  # by the same names, one for each seed


def duq_run(work: Workspace, pair: Pair, penalty: float) -> TrainingRun:
    """Return DUQ as in appendix A.2 or A.3; at quick scale shorter, with twice the length scale."""
    name = f"duq-{pair.name}" + work.pick("", f"-{penalty:g}")
    own = {"length_scale": work.pick(0.2, 0.1), "gradient_penalty": penalty}
    if pair.data == CIFAR.data:
        own["centroid_spread"] = 0.05  # in the paper, and in its authors' code for CIFAR-10
    epochs = work.pick(DUQ_EPOCHS, pair.epochs)
    return TrainingRun(name, "duq", epochs, 1e-4, ("max_logit", "energy"), own)


def small_run(penalty: float) -> TrainingRun:
    """Return DUQ with a penalty in little time: a tenth of the images, and faster centroids."""
    own = {"length_scale": 0.2, "gradient_penalty": penalty, "momentum": 0.99}
    name, scores = f"duq-fashion-penalty-{penalty:g}", ("max_logit", "energy")
    return TrainingRun(name, "duq", 6, 1e-4, scores, own, most=6000)


def ensemble_run(work: Workspace, pair: Pair, members: int) -> TrainingRun:
    """Return the deep ensemble, with the weight decay of the authors' code for softmax networks."""
    epochs = work.pick(SOFTMAX_EPOCHS, pair.epochs)
    own, scores = {"members": work.count(members, DRY_MEMBERS)}, ("entropy", "mutual_information")
    return TrainingRun(f"ensemble-{pair.name}", "ensemble", epochs, 5e-4, scores, own)


def evaluate_run(
    work: Workspace,
    pair: Pair,
    run: TrainingRun,
    seed: int,
    part: str = "",
    derive: Derive | None = None,
) -> Evaluation:
    """Evaluate a run against unknown data, unless its record is kept; train it first, if need be.

    With `derive`, the model it makes of the trained one is evaluated instead, under the name
    `part`. The record of the training is kept beside that of the evaluation.
    """
    shared = replace(work, folder=shared_folder(work))
    settings = {"pair": asdict(pair), "run": asdict(run), "seed": seed}
    training = {key: value for key, value in asdict(run).items() if key != "scores"}
    source = Source(pair.data)

    @cache
    def trained() -> tuple[Method, History]:
        which = (f"{run.name}-{seed}", source, run.method, pair.network, seed, run.own)
        how = {"most": run.most, "weight_decay": run.weight_decay, **pair.training}
        return work.trained(*which, epochs=run.epochs, **how)

    def evaluated() -> Evaluation:
        model, known = trained()[0], work.known(source)
        sets = {name: work.few(unknown_set(name, known, work.root)) for name in pair.unknown}
        subject = derive(model, known) if derive else model
        return evaluate(subject, known.test, sets, scores=run.scores)

    def shared_evaluation() -> Evaluation:
        return shared.stage(f"{run.name}{part}-{seed}-judged", Evaluation, evaluated, **settings)

    how = {**settings, "run": training}
    work.stage(_history(run, seed), History, lambda: trained()[1], **how)
    return work.stage(f"{run.name}{part}-{seed}", Evaluation, shared_evaluation, **settings)


def evaluate_runs(work: Workspace, pair: Pair, runs: Runs) -> Evaluations:
    """Return every run, from as many seeds as it has."""
    return {
        label: [evaluate_run(work, pair, run, seed) for seed in range(seeds)]
        for label, (run, seeds) in runs.items()
    }


def evaluate_members(
    work: Workspace,
    pair: Pair,
    ensemble: TrainingRun,
    members: int,
    part: str = "",
    derive: Derive | None = None,
) -> list[Evaluation]:
    """Evaluate the first members of an ensemble, each as a model, or through `derive`."""
    alone = replace(ensemble, scores=("max_prob", "entropy"))

    def member(i: int, model: Method, known: Known) -> nn.Module:
        single = Softmax(model.networks()[i], normalise=known.normalise)
        return derive(single, known) if derive else single

    return [
        evaluate_run(work, pair, alone, 0, f"-member-{i}{part}", partial(member, i))
        for i in range(work.count(members, DRY_MEMBERS))
    ]


def training_time(work: Workspace, runs: Runs) -> str:
    """Return how long the trainings took, of the time in all."""
    parts = []
    for label, (run, seeds) in runs.items():
        files = (work.folder / f"{_history(run, seed)}.json" for seed in range(seeds))
        origins = [History.load(file).provenance for file in files]
        minutes = sum(one.seconds for one in origins) / 60
        threads = " or ".join(map(str, sorted({one.settings["threads"] for one in origins})))
        many = f"{seeds} runs, " if seeds > 1 else ""
        parts.append(f"{label} {minutes:.0f} minutes ({many}threads: {threads})")
    return f"Trainings, which experiments share, took: {', '.join(parts)}."


def shared_folder(work: Workspace) -> Path:
    """Return where experiments share the records of their runs."""
    return work.runs / f"judged-{work.scale}{'-dry' if work.dry else ''}"


def _history(run: TrainingRun, seed: int) -> str:
    return f"{run.name}-{seed}-history"


def auroc(record: Evaluation, unknown: str, score: str | None = None) -> float:
    """Return how well the record's own score, or another, separates known from unknown inputs."""
    auroc = of_score(record, side_of(record, unknown).separation, score).auroc
    if auroc is None:
        raise NescioError(f"a record of {record.method} has no AUROC against {unknown}")
    return auroc


def roc(record: Evaluation, unknown: str) -> Roc:
    """Return the curve of the record's own score."""
    return of_score(record, side_of(record, unknown).roc, None)


def rejection(record: Evaluation, unknown: str) -> Rejection:
    """Return the curve of the record's own score."""
    return of_score(record, side_of(record, unknown).rejection, None)


def confidence_fractions(record: Evaluation, side: str, bins: int = 10) -> NDArray[np.float64]:
    """Return the fractions of inputs by confidence, in so many bins over [0, 1], of 50 kept."""
    if record.confidence is None:
        raise NescioError(
            f"a record of {record.method} does not keep how its confidence is distributed"
        )
    counts = np.array(record.confidence.counts[side], dtype=float)
    fractions: NDArray[np.float64] = counts.reshape(bins, -1).sum(1) / counts.sum()
    return fractions
