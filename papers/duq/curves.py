"""Figures 5 to 8 of *DUQ*: known images against unknown ones, as curves and as distributions."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from nescio.records import Evaluation
from nescio.report.comparison_figures import confidence_figure, rejection_figure, roc_figure
from papers.duq.compared import (
    CIFAR_PENALTY,
    CIFAR_SETS,
    DUQ,
    ENSEMBLE,
    FASHION_SETS,
    MEMBERS,
    SEEDS,
    Runs,
    accuracies,
    cifar_differs,
    cifar_ensembles,
    cifar_whole,
    fashion_differs,
    fashion_plan,
    short,
    unequal,
)
from papers.duq.published import CIFAR_ACCURACY, CIFAR_SHARE, FASHION_ACCURACY, TABLE2
from papers.duq.runs import (
    CIFAR,
    FASHION,
    auroc,
    confidence_shares,
    duq_run,
    judged_all,
    rejection,
    roc,
    training_time,
)
from papers.experiment import Experiment, Found, Work
from papers.over_seeds import over_seeds
from papers.reproduction import Claim, Compared, Differs

SIMILAR = 0.02  # of mean accuracies: what we take "very similarly" to allow
RATES = np.linspace(0.01, 0.99, 99)
Curve = tuple[Sequence[float], Sequence[float]]


def figure5(work: Work) -> Found:
    """ROC curves of DUQ and the ensemble."""
    plan = fashion_plan(work)
    runs = judged_all(work, FASHION, plan)
    work.picture("figure5.svg", roc_figure(runs, "mnist"))
    above = _lead(runs, partial(_roc, "mnist"))
    table = [
        over_seeds(f"{name}: AUROC", [auroc(one, "mnist") for one in group], TABLE2[name])
        for name, group in runs.items()
    ]
    table += [
        over_seeds(
            f"{name}: FashionMNIST accepted where {rate:.0%} of MNIST is",
            _at(rate, partial(_roc, "mnist"), group),
            unit="%",
        )
        for rate in (0.05, 0.2)
        for name, group in runs.items()
    ]
    return Found(
        compared=tuple(table),
        claims=(
            Claim(
                "DUQ outperforms Deep Ensembles at all chosen rates",
                above == 1.0,
                f"its mean curve is above at {above:.0%} of {len(RATES)} rates from 1 % to 99 %",
            ),
        ),
        differs=fashion_differs(work),
        remarks=(*unequal(work), *short(work, table), training_time(work, plan)),
    )


def figure6(work: Work) -> Found:
    """Accuracy on FashionMNIST and MNIST together as the least known inputs are rejected."""
    plan = fashion_plan(work)
    runs = judged_all(work, FASHION, plan)
    work.picture("figure6.svg", rejection_figure(runs, "mnist"))
    areas = _areas(runs, "mnist")
    above = _lead(runs, partial(_rejection, "mnist"))
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    table = [*_rejection_table(runs, "mnist"), *accuracies(runs, FASHION_ACCURACY)]
    return Found(
        compared=tuple(table),
        claims=(
            Claim(
                "DUQ outperforms Deep Ensembles in this more realistic scenario",
                fmean(areas[DUQ]) > fmean(areas[ENSEMBLE]),
                f"mean accuracy {fmean(areas[DUQ]):.3f} against {fmean(areas[ENSEMBLE]):.3f}; its mean curve is "
                f"above at {above:.0%} of {len(RATES)} shares from 1 % to 99 %",
            ),
            Claim(
                "… although the ensemble has a head start in accuracy",
                accuracy[ENSEMBLE] > accuracy[DUQ],
                f"{accuracy[ENSEMBLE]:.1%} against {accuracy[DUQ]:.1%} on FashionMNIST alone",
            ),
        ),
        differs=fashion_differs(work),
        remarks=(*unequal(work), *short(work, table), training_time(work, plan)),
    )


def figure7(work: Work) -> Found:
    """How the largest kernel is distributed on known and on unknown data."""
    pair, unknown = work.pick((FASHION, "mnist"), (CIFAR, "svhn"))
    plan = {DUQ: (duq_run(work, pair, work.pick(0.0, CIFAR_PENALTY)), work.seeds)}
    runs = judged_all(work, pair, plan)
    work.picture("figure7.svg", confidence_figure(runs, unknown))
    known, other = (
        np.mean([confidence_shares(one, side) for one in runs[DUQ]], axis=0)
        for side in ("known", unknown)
    )

    def shares(side: str, tenth: int) -> list[float]:
        return [float(confidence_shares(one, side)[tenth]) for one in runs[DUQ]]

    moved = (
        ()
        if not work.quick
        else (
            Differs(
                "data",
                "CIFAR-10 against SVHN, λ = 0.5",
                "FashionMNIST against MNIST, λ = 0",
                "a ResNet-18 takes days on two cores; the same figure of the pair that is trained here",
            ),
        )
    )
    return Found(
        compared=(
            over_seeds(f"{pair.data} with a kernel above 0.9", shares("known", -1), unit="%"),
            over_seeds(f"{unknown} with a kernel above 0.9", shares(unknown, -1), unit="%"),
            over_seeds(f"{unknown} with a kernel below 0.1", shares(unknown, 0), unit="%"),
        ),
        claims=(
            Claim(
                "Most of the known data is very close to 1",
                bool(known[-1] > 0.5),
                f"{known[-1]:.0%} above 0.9",
            ),
            Claim(
                "Unknown data is uniformly spread out over the range of distances",
                bool(min(other) > 0.05 and max(other) < 0.2),
                f"the fullest tenth of the range holds {max(other):.1%} of it, the emptiest {min(other):.1%} "
                "(wanted: between half and twice a tenth)",
            ),
            Claim(
                "The two are clearly separated",
                fmean(auroc(one, unknown) for one in runs[DUQ]) > 0.9,
                f"AUROC {fmean(auroc(one, unknown) for one in runs[DUQ]):.3f} (wanted: above 0.9)",
            ),
        ),
        differs=(
            *moved,
            *(
                fashion_differs(work, chosen=False, ensemble=False)
                if work.quick
                else cifar_differs(work, ensemble=False)
            ),
        ),
        remarks=(training_time(work, plan),),
    )


def figure8(work: Work) -> Found:
    """Accuracy on CIFAR-10 and SVHN together as the least known inputs are rejected, by the networks of table 3."""
    plan = {DUQ: (duq_run(work, CIFAR, CIFAR_PENALTY), work.seeds)}
    runs = {**judged_all(work, CIFAR, plan), ENSEMBLE: cifar_ensembles(work, MEMBERS)}
    work.picture("figure8.svg", rejection_figure(runs, "svhn"))
    areas = _areas(runs, "svhn")
    apart = fmean(areas[DUQ]) - fmean(areas[ENSEMBLE])
    above = _lead(runs, partial(_rejection, "svhn"))
    published = {DUQ: CIFAR_ACCURACY["DUQ, λ = 0.5"], ENSEMBLE: CIFAR_ACCURACY[ENSEMBLE]}
    table = [
        over_seeds(
            "theoretical maximum with nothing rejected",
            [rejection(runs[DUQ][0], "svhn").maximum[0]],
            CIFAR_SHARE,
            "%",
        ),
        *_rejection_table(runs, "svhn"),
        *accuracies(runs, published),
    ]
    return Found(
        compared=tuple(table),
        claims=(
            Claim(
                "DUQ and a 5 element Deep Ensemble perform very similarly",
                abs(apart) < SIMILAR,
                f"mean accuracy {fmean(areas[DUQ]):.3f} against {fmean(areas[ENSEMBLE]):.3f} (wanted: less than "
                f"{SIMILAR} apart); its mean curve is above at {above:.0%} of {len(RATES)} shares from 1 % to 99 %",
            ),
        ),
        differs=cifar_differs(work),
        remarks=(
            *short(work, table),
            training_time(work, plan | {"the ensemble": (cifar_whole(work), 1)}),
        ),
    )


def _roc(unknown: str, record: Evaluation) -> Curve:
    found = roc(record, unknown)
    return found.unknown, found.known


def _rejection(unknown: str, record: Evaluation) -> Curve:
    found = rejection(record, unknown)
    return found.rejected, found.accuracy


def _areas(runs: Runs, unknown: str) -> dict[str, list[float]]:
    """The mean accuracy over all shares rejected, of each run."""
    return {name: [rejection(one, unknown).area for one in group] for name, group in runs.items()}


def _rejection_table(runs: Runs, unknown: str) -> list[Compared]:
    """Each model's curve in two numbers: its mean, and its height where half is rejected."""
    bound = rejection(runs[DUQ][0], unknown).maximum_area
    table = [
        over_seeds(
            f"{name}: mean accuracy over all shares rejected (theoretical maximum {bound:.3f})",
            area,
        )
        for name, area in _areas(runs, unknown).items()
    ]
    table += [
        over_seeds(
            f"{name}: accuracy of the rest when half is rejected",
            _at(0.5, partial(_rejection, unknown), group),
            unit="%",
        )
        for name, group in runs.items()
    ]
    return table


def _at(
    rate: float, curve: Callable[[Evaluation], Curve], runs: Sequence[Evaluation]
) -> list[float]:
    """How high the curve of each run is at a place."""
    return [float(np.interp(rate, *curve(one))) for one in runs]


def _lead(runs: Runs, curve: Callable[[Evaluation], Curve]) -> float:
    """The share of places at which DUQ's mean curve is not below the ensemble's."""
    duq, ensemble = (
        np.mean([np.interp(RATES, *curve(one)) for one in runs[name]], axis=0)
        for name in (DUQ, ENSEMBLE)
    )
    return float((duq >= ensemble).mean())


EXPERIMENTS = (
    Experiment(
        "duq-figure5",
        4,
        "Figure 5",
        "ROC: FashionMNIST against MNIST",
        figure5,
        FASHION_SETS,
        seeds=SEEDS,
    ),
    Experiment(
        "duq-figure6",
        4,
        "Figure 6",
        "Rejection: FashionMNIST and MNIST",
        figure6,
        FASHION_SETS,
        seeds=SEEDS,
    ),
    Experiment(
        "duq-figure7",
        4,
        "Figure 7",
        "How far from all centroids known and unknown data are",
        figure7,
        FASHION_SETS,
        CIFAR_SETS,
        seeds=SEEDS,
    ),
    Experiment(
        "duq-figure8",
        4,
        "Figure 8",
        "Rejection: CIFAR-10 and SVHN",
        figure8,
        CIFAR_SETS,
        scales=("paper",),
        seeds=SEEDS,
    ),
)
