"""The five models of *Know your limits*, trained on data in the plane, and how that is not as in the paper."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import torch

from nescio.data import Known
from nescio.evaluation.maps import HIDDEN, small_model
from nescio.methods import METHODS, method_for
from nescio.methods.mc_dropout import DROPOUT
from nescio.methods.method import Method
from nescio.models import mlp
from nescio.seeds import derived_seed
from nescio.store.run import Source
from nescio.training.train import train as train_model
from papers.experiment import Work
from papers.reproduction import Differs

SINGLE = ("softmax", "mc_dropout", "bayes_by_backprop")  # the first row of the figure
ENSEMBLES = ("ensemble", "anchored")
FIVE = SINGLE + ENSEMBLES
EPOCHS = 40  # at the quick scale, as in `nescio map`


@dataclass(frozen=True)
class Tuned:
    """What the authors' search settled on for a model."""

    hidden: tuple[int, ...]
    dropout: float
    learning_rate: float
    own: Mapping[str, Any] = field(default_factory=dict)


_NN = Tuned((25, 25, 25), 0.014552, 0.000538)
TUNED = {
    "softmax": _NN,
    "mc_dropout": Tuned((25,) * 4, 0.205046, 0.000526, {"samples": 50}),
    "bayes_by_backprop": Tuned(
        (25,),
        0.267797,
        0.00689,
        {
            "samples": 50,
            "prior": (0.196422, 0.606531, 0.904837),
            "std": math.log1p(math.exp(-7.649002)),
            "beta": 0.102995,
            "warm_up": 0.4,
            "elbo_samples": 3,
        },
    ),
    "ensemble": replace(_NN, own={"members": 10}),
    "anchored": replace(_NN, own={"members": 10}),
}


def title(method: str) -> str:
    """A method as a reader knows it."""
    return METHODS[method].__name__


def model_of(work: Work, method: str, known: Known, seed: int) -> Method:
    """One of the five, trained on data in the plane: at the paper's scale as the authors' code does."""
    if work.quick:
        return small_model(method, known, epochs=work.count(EPOCHS, 1), seed=seed)[0].eval()
    how, train = TUNED[method], known.train
    assert train is not None  # noqa: S101 - data in the plane have a training part
    make = partial(mlp, known.shape[0], hidden=how.hidden, dropout=how.dropout)
    with torch.random.fork_rng():
        torch.manual_seed(derived_seed(seed, "weights", 0))
        model = method_for(method, make, len(known.classes), known.normalise, **how.own)
    half = min(500, len(train) // 2)
    held = train.select(torch.arange(half, min(half + 250, len(train))))
    train_model(
        model,
        train.select(torch.arange(half)),
        epochs=work.count(20, 1),
        batch_size=64,
        validation=held,
        patience=5,
        learning_rate=how.learning_rate,
        seed=seed,
    )
    return model.eval()


def training_of(work: Work, method: str) -> dict[str, Any]:
    """How a model is trained; the stages that use it know it by this."""
    return {"hidden": HIDDEN, "epochs": EPOCHS} if work.quick else asdict(TUNED[method])


def models(
    work: Work, source: Callable[[int], Source]
) -> Callable[[str, int], tuple[Method, Known]]:
    """A model and its data by name and seed, trained when a stage first asks for it."""

    @cache
    def made(method: str, seed: int) -> tuple[Method, Known]:
        known = work.known(source(seed))
        return model_of(work, method, known, seed), known

    return made


def unlike(work: Work, data: str, theirs: str, why: str) -> tuple[Differs, ...]:
    """What is not as in the paper, or in its authors' code."""
    common = [
        Differs("data", theirs, data, why),
        Differs(
            "mutual information",
            "its code averages over the wrong axis",
            "H(p̄) − E[H(p)]",
            "a slip in the code",
        ),
        Differs(
            "MC dropout", "its code leaves dropout off when it draws", "on", "a slip in the code"
        ),
        Differs(
            "anchored penalty",
            "norm not squared, times the prior's spread, over the batch",
            "that of Pearce et al. (2020)",
            "a slip in the code",
        ),
    ]
    if work.quick:
        widths = f"{len(HIDDEN)} layers of {HIDDEN[0]}"
        common.append(
            Differs(
                "networks and training",
                "each found by random search: 1 to 4 layers of 25, Adam for 20 epochs with early stopping",
                f"{widths} for all, dropout {DROPOUT:g} for MC dropout, Adam (1e-3) for {EPOCHS} epochs",
                "one setting for all five",
            )
        )
        common.append(Differs("members of an ensemble", "10", "5", "quicker"))
    else:
        common += [
            Differs(
                "loss",
                "in its code one sigmoid, classes weighed by batch",
                "cross-entropy of a softmax",
            ),
            Differs(
                "first means of Bayes by backprop",
                "in its code 0.285",
                "the network's own first weights",
            ),
            Differs(
                "anchors and first weights of anchored ensembles",
                "in its code N(0, √(2/k))",
                "anchors N(0, 2/k), first weights as of other networks",
                "k is the width",
            ),
        ]
    return tuple(common)
