"""The trained networks of *DUQ*'s image experiments, and each of them judged against unknown data.

A run is trained once, in a folder that experiments share, and judged once; each experiment keeps the records.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nescio.data import Known
from nescio.errors import NescioError
from nescio.evaluation.evaluate import evaluate
from nescio.evaluation.unknown_sets import unknown_set
from nescio.methods import Softmax
from nescio.methods.method import Method
from nescio.records import Evaluation, History, Rejection, Roc
from nescio.report.runs import of_score, side_of
from nescio.store.run import Source
from papers.experiment import Work

Made = Callable[[Method, Known], nn.Module]
DUQ_EPOCHS, SOFTMAX_EPOCHS = (
    6,
    3,
)  # at quick scale: an hour for three DUQ and five networks with a softmax
FEWEST = 3  # members of an ensemble in a dry run
THIRDS = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 128, "schedule": "thirds"}


@dataclass(frozen=True)
class Pair:
    """Data to learn, a network for them, and the data to tell them from."""

    name: str
    data: str
    network: str
    unknown: tuple[str, ...]
    epochs: int  # of the paper
    training: Mapping[str, Any] = field(default_factory=lambda: THIRDS)


FASHION = Pair("fashion", "fashion_mnist", "conv3", ("mnist", "notmnist"), 30)
CIFAR = Pair("cifar", "cifar10", "resnet18", ("svhn",), 75, {**THIRDS, "augment": ("crop", "flip")})


@dataclass(frozen=True)
class Run:
    """How a network is trained, and the scores it is judged by; the first is the paper's."""

    name: str
    method: str
    epochs: int
    weight_decay: float
    scores: tuple[str, ...]
    own: Mapping[str, Any] = field(default_factory=dict)
    most: int | None = None  # training inputs, if not all


Plan = Mapping[str, tuple[Run, int]]  # by the names that figures show: a run, and how many seeds


def duq_run(work: Work, pair: Pair, penalty: float) -> Run:
    """DUQ: appendix A.2 or A.3 at paper scale; a shorter training with twice the length scale at quick scale."""
    name = f"duq-{pair.name}" + work.pick("", f"-{penalty:g}")
    own = {"length_scale": work.pick(0.2, 0.1), "gradient_penalty": penalty}
    return Run(name, "duq", work.pick(DUQ_EPOCHS, pair.epochs), 1e-4, ("max_logit", "energy"), own)


def small_run(penalty: float) -> Run:
    """DUQ with a penalty in little time: a tenth of the images, and centroids that follow in so few steps."""
    own = {"length_scale": 0.2, "gradient_penalty": penalty, "momentum": 0.99}
    return Run(
        f"duq-fashion-penalty-{penalty:g}", "duq", 6, 1e-4, ("max_logit", "energy"), own, most=6000
    )


def ensemble_run(work: Work, pair: Pair, members: int) -> Run:
    """The deep ensemble; weight decay is that of the authors' code for networks with a softmax."""
    epochs, own = work.pick(SOFTMAX_EPOCHS, pair.epochs), {"members": work.count(members, FEWEST)}
    return Run(
        f"ensemble-{pair.name}", "ensemble", epochs, 5e-4, ("entropy", "mutual_information"), own
    )


def judged_members(
    work: Work, pair: Pair, ensemble: Run, members: int, part: str = "", made: Made | None = None
) -> list[Evaluation]:
    """The first members of an ensemble, each as a model of its own, or what `made` makes of it."""
    alone = replace(ensemble, scores=("max_prob", "entropy"))

    def member(i: int, model: Method, known: Known) -> nn.Module:
        found = Softmax(model.networks()[i], normalise=known.normalise)
        return made(found, known) if made else found

    return [
        judged(work, pair, alone, 0, f"-member-{i}{part}", partial(member, i))
        for i in range(work.count(members, FEWEST))
    ]


def judged(
    work: Work, pair: Pair, run: Run, seed: int, part: str = "", made: Made | None = None
) -> Evaluation:
    """A run against unknown data: from its record if that is kept, else trained as far as it is not yet.

    With `made`, which has a name of its own, `part`, what it makes of the trained network is judged instead. The
    record of the training is kept beside that of the judgement.
    """
    shared = replace(work, folder=work.runs / f"judged-{work.scale}{'-dry' if work.dry else ''}")
    settings = {"pair": asdict(pair), "run": asdict(run), "seed": seed}
    training = {
        **settings,
        "run": {name: value for name, value in asdict(run).items() if name != "scores"},
    }
    source = Source(pair.data)

    @cache
    def trained() -> tuple[Method, History]:
        return work.trained(
            f"{run.name}-{seed}",
            source,
            run.method,
            pair.network,
            seed,
            run.own,
            epochs=run.epochs,
            most=run.most,
            weight_decay=run.weight_decay,
            **pair.training,
        )

    def evaluated() -> Evaluation:
        model, known = trained()[0], work.known(source)
        sets = {name: work.few(unknown_set(name, known, work.root)) for name in pair.unknown}
        return evaluate(made(model, known) if made else model, known.test, sets, scores=run.scores)

    def judgement() -> Evaluation:
        return shared.stage(f"{run.name}{part}-{seed}-judged", Evaluation, evaluated, **settings)

    work.stage(_history(run, seed), History, lambda: trained()[1], **training)
    return work.stage(f"{run.name}{part}-{seed}", Evaluation, judgement, **settings)


def judged_all(work: Work, pair: Pair, plan: Plan) -> dict[str, list[Evaluation]]:
    """Every run of a plan, from as many seeds as it says."""
    return {
        label: [judged(work, pair, run, seed) for seed in range(seeds)]
        for label, (run, seeds) in plan.items()
    }


def training_time(work: Work, plan: Plan) -> str:
    """How long the trainings of a plan took, of the time in all."""
    found = []
    for label, (run, seeds) in plan.items():
        histories = [
            History.load(work.folder / f"{_history(run, seed)}.json") for seed in range(seeds)
        ]
        minutes = sum(one.provenance.seconds for one in histories) / 60
        threads = sorted({one.provenance.settings["threads"] for one in histories})
        many = f"{seeds} runs, " if seeds > 1 else ""
        found.append(
            f"{label} {minutes:.0f} minutes ({many}threads: {' or '.join(map(str, threads))})"
        )
    return f"Trainings, which experiments share, took: {', '.join(found)}."


def _history(run: Run, seed: int) -> str:
    return f"{run.name}-{seed}-history"


def auroc(record: Evaluation, unknown: str, score: str | None = None) -> float:
    """How well the record's own score, or another, tells known from unknown inputs."""
    found = of_score(record, side_of(record, unknown).separation, score).auroc
    if found is None:
        raise NescioError(f"a record of {record.method} has no AUROC against {unknown}")
    return found


def roc(record: Evaluation, unknown: str) -> Roc:
    """The curve of the record's own score."""
    return of_score(record, side_of(record, unknown).roc, None)


def rejection(record: Evaluation, unknown: str) -> Rejection:
    """The curve of the record's own score."""
    return of_score(record, side_of(record, unknown).rejection, None)


def confidence_shares(record: Evaluation, side: str, bins: int = 10) -> NDArray[np.float64]:
    """The shares of inputs by confidence, in so many bins over [0, 1]; those kept are 50."""
    if record.confidence is None:
        raise NescioError(
            f"a record of {record.method} does not keep how its confidence is distributed"
        )
    counts = np.array(record.confidence.counts[side], dtype=float)
    shares: NDArray[np.float64] = counts.reshape(bins, -1).sum(1) / counts.sum()
    return shares
