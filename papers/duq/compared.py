"""What the image experiments share: the models compared, and how they are not as in the paper."""

from collections.abc import Callable, Sequence
from typing import Any

from nescio.data import Known
from nescio.methods import Ensemble, Method
from nescio.records import Evaluation
from papers.duq.runs import (
    CIFAR,
    CIFAR_DAY,
    DUQ_EPOCHS,
    FASHION,
    SOFTMAX_EPOCHS,
    Derive,
    Evaluations,
    Pair,
    Runs,
    TrainingRun,
    duq_run,
    ensemble_run,
    evaluate_run,
)
from papers.experiment import Experiment, Outcome
from papers.over_seeds import over_seeds
from papers.paper import read_paper
from papers.reproduction import Comparison, Deviation
from papers.workspace import Workspace

PAPER = read_paper("duq")
DUQ, ENSEMBLE = "DUQ", "deep ensemble of 5"
MEMBERS = 5
CIFAR_SIZES = {"day": (3, 5), "paper": (3, 5, 10, 15)}  # of ensembles, parts of the largest
# the weights of the penalty that the paper chose
FASHION_PENALTY, CIFAR_PENALTY = 0.05, 0.5
FASHION_SETS = ("fashion_mnist", "mnist", "notmnist")
CIFAR_SETS = ("cifar10", "svhn")
SEEDS = {"quick": 3, "day": 3, "paper": 5}
LARGER = ("day", "paper")  # scales of what no hour is enough for


def experiment(
    item: str,
    title: str,
    run: Callable[[Workspace], Outcome],
    needs: tuple[str, ...] = (),
    paper_needs: tuple[str, ...] | None = None,
    **more: Any,
) -> Experiment:
    """Return an experiment of this paper."""
    name = f"duq-{item.lower().replace(' ', '')}"
    return Experiment(name, 4, item, title, run, needs, paper_needs, **{"seeds": SEEDS, **more})


def fashion_runs(work: Workspace) -> Runs:
    """Return the networks on FashionMNIST; a quick run has one ensemble."""
    return {
        DUQ: (duq_run(work, FASHION, work.pick(0.0, FASHION_PENALTY)), work.seeds),
        ENSEMBLE: (ensemble_run(work, FASHION, MEMBERS), work.pick(1, work.seeds)),
    }


def cifar_pair(work: Workspace) -> Pair:
    """Return CIFAR-10 against SVHN with the network and recipe of the scale."""
    return CIFAR if work.scale == "paper" else CIFAR_DAY


def cifar_whole(work: Workspace) -> TrainingRun:
    """Return the one ensemble on CIFAR-10 that is trained."""
    return ensemble_run(work, cifar_pair(work), CIFAR_SIZES[work.scale][-1])


def cifar_ensembles(work: Workspace, size: int) -> list[Evaluation]:
    """Return disjoint ensembles of so many members; in a dry run only the first."""
    pair, whole = cifar_pair(work), cifar_whole(work)
    starts = range(0, CIFAR_SIZES[work.scale][-1] - size + 1, size)
    return [
        evaluate_run(work, pair, whole, 0, f"-{size}-from-{start}", _members(start, size))
        for start in (starts[:1] if work.dry else starts)
    ]


def _members(start: int, size: int) -> Derive:
    def derive(model: Method, known: Known) -> Ensemble:
        nets = list(model.networks())
        return Ensemble(nets[start : start + size], normalise=known.normalise, stacked=False)

    return derive


def accuracies(
    runs: Evaluations, table: str, names: dict[str, str] | None = None
) -> list[Comparison]:
    """Return the test accuracy of each model in a table of the paper, where `names` are its own."""
    rows = []
    for name, group in runs.items():
        if paper := PAPER.at(table, (names or {}).get(name, name)):
            values = [one.known.accuracy for one in group]
            rows.append(over_seeds(f"{name}: test accuracy", values, paper, "%"))
    return rows


def unequal(work: Workspace) -> tuple[str, ...]:
    """Return in what a quick comparison is not fair."""
    plain = PAPER.published["table1"]["0"]["mnist"][0]
    epochs = {"softmax_epochs": SOFTMAX_EPOCHS, "duq_epochs": DUQ_EPOCHS}
    penalty = PAPER.remark("no_penalty", penalty=FASHION_PENALTY, plain=plain)
    return (PAPER.remark("epochs", **epochs), penalty) if work.quick else ()


def shortfalls(work: Workspace, table: Sequence[Comparison]) -> list[str]:
    """Return where we stay below the paper by more than its spread, or at all where it has none."""
    below = [(one, one.paper - one.ours) for one in table if one.paper is not None]
    groups = {
        "Below the paper by more than its spread": [
            (one, by) for one, by in below if one.paper_spread is not None and by > one.paper_spread
        ],
        "Below the paper, which has no spread for it": [
            (one, by) for one, by in below if one.paper_spread is None and by > 0
        ],
    }
    words = [
        f"{where}: {'; '.join(_by(*one) for one in group)}."
        for where, group in groups.items()
        if group
    ]
    if words and work.quick:
        words.append("The training is shorter than the paper's.")
    return [" ".join(words)] if words else []


def _by(one: Comparison, less: float) -> str:
    """Of which number, and by how much we are below."""
    return f"{one.what} by {less:.1f} points" if one.unit else f"{one.what} by {less:.3f}"


def fashion_deviations(
    work: Workspace, chosen: bool = True, ensemble: bool = True
) -> tuple[Deviation, ...]:
    """Return how the runs on FashionMNIST are not as in the paper.

    Args:
        chosen: whether its choice of λ plays a part.
        ensemble: whether an ensemble does.
    """
    softmax = ("softmax_decay", "softmax_rate") if ensemble else ()
    always = (*softmax, "notmnist", "losses", "centroids")
    if not work.quick:
        runs = () if work.seeds == 5 else ("paper_runs",)
        return PAPER.deviates(*runs, *always, seeds=work.seeds)
    epochs = f"{DUQ_EPOCHS} of DUQ" + f", {SOFTMAX_EPOCHS} of each member" * ensemble
    count = f"{work.seeds} of DUQ" + ", 1 ensemble" * ensemble
    keys = ("epochs", "length_scale", *(("no_lambda",) if chosen else ()), "quick_runs")
    return PAPER.deviates(*keys, *always, epochs=epochs, runs=count)


def cifar_deviations(work: Workspace, ensemble: bool = True) -> tuple[Deviation, ...]:
    """Return how the runs on CIFAR-10 are not as in the paper."""
    softmax = ("softmax_decay", "cifar_ensembles") if ensemble else ()
    pair, most = cifar_pair(work), CIFAR_SIZES[work.scale][-1]
    recipe = "cifar_rate" if pair is CIFAR else "cifar_day"
    values = {
        "network": pair.network,
        "epochs": pair.epochs,
        "rate": pair.training["learning_rate"],
    }
    keys = (recipe, *softmax, "cifar_layer", "losses", "cifar")
    return PAPER.deviates(*keys, most=most, members=MEMBERS, seeds=work.seeds, **values)
