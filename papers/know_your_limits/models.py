"""The five models of the paper, trained on data in the plane, and how they are not as there."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any

import torch

import nescio
from nescio.data import Known
from nescio.evaluation import HIDDEN, small_model
from nescio.methods import DROPOUT, METHODS, Method, method_for
from nescio.models import mlp
from nescio.store import Source
from papers.over_seeds import over_seeds
from papers.paper import read_paper
from papers.reproduction import Comparison, Deviation
from papers.workspace import Workspace

PAPER = read_paper("know_your_limits")
SINGLE = ("softmax", "mc_dropout", "bayes_by_backprop")  # the first row of the figure
ENSEMBLES = ("ensemble", "anchored")
FIVE = SINGLE + ENSEMBLES
EPOCHS = 40  # at the quick scale, as in `nescio map`
Models = Callable[[str, int], tuple[Method, Known]]  # by method and seed


@dataclass(frozen=True)
class TunedSettings:
    """What the authors' search found for a model."""

    hidden: tuple[int, ...]
    dropout: float
    learning_rate: float
    own: Mapping[str, Any] = field(default_factory=dict)


def _tuned() -> dict[str, TunedSettings]:
    tuned = {}
    for name, row in PAPER.published["tuned"].items():
        own = {key: tuple(v) if isinstance(v, list) else v for key, v in row.get("own", {}).items()}
        if "rho" in row:  # in the paper's code σ = log(1 + exp ρ)
            own["std"] = math.log1p(math.exp(row["rho"]))
        hidden = tuple(row["hidden"])
        tuned[name] = TunedSettings(hidden, row["dropout"], row["learning_rate"], own)
    return tuned | dict.fromkeys(ENSEMBLES, replace(tuned["softmax"], own={"members": 10}))


TUNED = _tuned()


def title(method: str) -> str:
    """Return a method as a reader knows it."""
    return METHODS[method].__name__


def model_of(work: Workspace, method: str, known: Known, seed: int) -> Method:
    """Return one of the five, trained; at the paper's scale as the authors' code does."""
    if work.quick:
        return small_model(method, known, epochs=work.count(EPOCHS, 1), seed=seed)[0].eval()
    how, train = TUNED[method], known.train
    assert train is not None  # noqa: S101 - data in the plane have a training part
    make = partial(mlp, known.shape[0], hidden=how.hidden, dropout=how.dropout)
    with torch.random.fork_rng():
        torch.manual_seed(nescio.derived_seed(seed, "weights", 0))
        model = method_for(method, make, len(known.classes), known.normalise, **how.own)
    half = min(500, len(train) // 2)
    nescio.train(
        model,
        train.select(torch.arange(half)),
        epochs=work.count(20, 1),
        batch_size=64,
        validation=train.select(torch.arange(half, min(half + 250, len(train)))),
        patience=5,
        learning_rate=how.learning_rate,
        seed=seed,
    )
    return model.eval()


def models(work: Workspace, data: str) -> Models:
    """Return a model and its data by name and seed, trained when a stage first asks for it."""

    @cache
    def make(method: str, seed: int) -> tuple[Method, Known]:
        known = work.known(Source(data, seed=seed))
        return model_of(work, method, known, seed), known

    return make


def each(work: Workspace) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield each method and seed, with the settings by which the stages that use it know it."""
    for method, seed in product(FIVE, range(work.seeds)):
        quick = {"hidden": HIDDEN, "epochs": EPOCHS}
        training = quick if work.quick else asdict(TUNED[method])
        yield method, seed, {"seed": seed, "training": training}


def rows(values: Mapping[str, list[float]], what: str, unit: str = "") -> list[Comparison]:
    """Return a number for each model."""
    return [over_seeds(f"{title(name)}: {what}", runs, unit=unit) for name, runs in values.items()]


def deviations(work: Workspace, item: str) -> tuple[Deviation, ...]:
    """Return what is not as in the paper, or in its authors' code."""
    widths = f"{len(HIDDEN)} layers of {HIDDEN[0]}"
    values = {
        "widths": widths,
        "dropout": DROPOUT,
        "epochs": EPOCHS,
        "points": work.pick(1000, 500),
    }
    return PAPER.deviates(item, "always", work.scale, **values)
