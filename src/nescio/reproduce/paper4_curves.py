"""Figures 5 to 7 of *DUQ*: known images against unknown ones, as curves and as distributions."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from nescio.records import Claim, Differs, Evaluation
from nescio.report.comparison import confidence_figure, rejection_figure, roc_figure
from nescio.reproduce.experiment import Experiment, Found, Work
from nescio.reproduce.over_seeds import over_seeds
from nescio.reproduce.paper4_compared import (
    CIFAR_PENALTY,
    CIFAR_SETS,
    DUQ,
    ENSEMBLE,
    FASHION_SETS,
    SEEDS,
    Runs,
    accuracies,
    cifar_differs,
    fashion_differs,
    fashion_plan,
    short,
    unequal,
)
from nescio.reproduce.paper4_published import FASHION_ACCURACY, TABLE2
from nescio.reproduce.paper4_runs import (
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

RATES = np.linspace(0.01, 0.99, 99)
Curve = tuple[Sequence[float], Sequence[float]]


def figure5(work: Work) -> Found:
    """ROC curves of DUQ and the ensemble."""
    plan = fashion_plan(work)
    runs = judged_all(work, FASHION, plan)
    work.picture("figure5.svg", roc_figure(runs, "mnist"))
    above = _lead(runs, _roc)
    table = [over_seeds(f"{name}: AUROC", [auroc(one, "mnist") for one in group], TABLE2[name])
             for name, group in runs.items()]  # fmt: skip
    table += [over_seeds(f"{name}: FashionMNIST accepted where {rate:.0%} of MNIST is",
                         _at(rate, _roc, group), unit="%")
              for rate in (0.05, 0.2) for name, group in runs.items()]  # fmt: skip
    return Found(
        compared=tuple(table),
        claims=(Claim("DUQ outperforms Deep Ensembles at all chosen rates", above == 1.0,
                      f"its mean curve is above at {above:.0%} of {len(RATES)} rates from 1 % to 99 %"),),
        differs=fashion_differs(work),
        remarks=(*unequal(work), *short(work, table), training_time(work, plan)),
    )  # fmt: skip


def figure6(work: Work) -> Found:
    """Accuracy on FashionMNIST and MNIST together as the least known inputs are rejected."""
    plan = fashion_plan(work)
    runs = judged_all(work, FASHION, plan)
    work.picture("figure6.svg", rejection_figure(runs, "mnist"))
    areas = {name: [rejection(one, "mnist").area for one in group] for name, group in runs.items()}
    bound = rejection(runs[DUQ][0], "mnist").maximum_area
    above = _lead(runs, _rejection)
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    table = [over_seeds(f"{name}: mean accuracy over all shares rejected (theoretical maximum {bound:.3f})", area)
             for name, area in areas.items()]  # fmt: skip
    table += [over_seeds(f"{name}: accuracy of the rest when half is rejected", _at(0.5, _rejection, group), unit="%")
              for name, group in runs.items()]  # fmt: skip
    table += accuracies(runs, FASHION_ACCURACY)
    return Found(
        compared=tuple(table),
        claims=(
            Claim("DUQ outperforms Deep Ensembles in this more realistic scenario",
                  fmean(areas[DUQ]) > fmean(areas[ENSEMBLE]),
                  f"mean accuracy {fmean(areas[DUQ]):.3f} against {fmean(areas[ENSEMBLE]):.3f}; its mean curve is "
                  f"above at {above:.0%} of {len(RATES)} shares from 1 % to 99 %"),
            Claim("… although the ensemble has a head start in accuracy", accuracy[ENSEMBLE] > accuracy[DUQ],
                  f"{accuracy[ENSEMBLE]:.1%} against {accuracy[DUQ]:.1%} on FashionMNIST alone"),
        ),
        differs=fashion_differs(work),
        remarks=(*unequal(work), *short(work, table), training_time(work, plan)),
    )  # fmt: skip


def figure7(work: Work) -> Found:
    """How the largest kernel is distributed on known and on unknown data."""
    pair, unknown = work.pick((FASHION, "mnist"), (CIFAR, "svhn"))
    plan = {DUQ: (duq_run(work, pair, work.pick(0.0, CIFAR_PENALTY)), work.seeds)}
    runs = judged_all(work, pair, plan)
    work.picture("figure7.svg", confidence_figure(runs, unknown))
    known, other = (np.mean([confidence_shares(one, side) for one in runs[DUQ]], axis=0) for side in ("known", unknown))

    def shares(side: str, tenth: int) -> list[float]:
        return [float(confidence_shares(one, side)[tenth]) for one in runs[DUQ]]

    moved = () if not work.quick else (
        Differs("data", "CIFAR-10 against SVHN, λ = 0.5", "FashionMNIST against MNIST, λ = 0",
                "a ResNet-18 takes days on two cores; the same figure of the pair that is trained here"),
    )  # fmt: skip
    return Found(
        compared=(
            over_seeds(f"{pair.data} with a kernel above 0.9", shares("known", -1), unit="%"),
            over_seeds(f"{unknown} with a kernel above 0.9", shares(unknown, -1), unit="%"),
            over_seeds(f"{unknown} with a kernel below 0.1", shares(unknown, 0), unit="%"),
        ),
        claims=(
            Claim("Most of the known data is very close to 1", bool(known[-1] > 0.5), f"{known[-1]:.0%} above 0.9"),
            Claim("Unknown data is uniformly spread out over the range of distances",
                  bool(min(other) > 0.05 and max(other) < 0.2),
                  f"the fullest tenth of the range holds {max(other):.1%} of it, the emptiest {min(other):.1%} "
                  "(wanted: between half and twice a tenth)"),
            Claim("The two are clearly separated", fmean(auroc(one, unknown) for one in runs[DUQ]) > 0.9,
                  f"AUROC {fmean(auroc(one, unknown) for one in runs[DUQ]):.3f} (wanted: above 0.9)"),
        ),
        differs=(*moved, *(fashion_differs(work, chosen=False, ensemble=False) if work.quick else cifar_differs(work))),
        remarks=(training_time(work, plan),),
    )  # fmt: skip


def _roc(record: Evaluation) -> Curve:
    found = roc(record, "mnist")
    return found.unknown, found.known


def _rejection(record: Evaluation) -> Curve:
    found = rejection(record, "mnist")
    return found.rejected, found.accuracy


def _at(rate: float, curve: Callable[[Evaluation], Curve], runs: Sequence[Evaluation]) -> list[float]:
    """How high the curve of each run is at a place."""
    return [float(np.interp(rate, *curve(one))) for one in runs]


def _lead(runs: Runs, curve: Callable[[Evaluation], Curve]) -> float:
    """The share of places at which DUQ's mean curve is not below the ensemble's."""
    duq, ensemble = (np.mean([np.interp(RATES, *curve(one)) for one in runs[name]], axis=0) for name in (DUQ, ENSEMBLE))
    return float((duq >= ensemble).mean())


EXPERIMENTS = (
    Experiment("duq-figure5", 4, "Figure 5", "ROC: FashionMNIST against MNIST", figure5, FASHION_SETS, seeds=SEEDS),
    Experiment("duq-figure6", 4, "Figure 6", "Rejection: FashionMNIST and MNIST", figure6, FASHION_SETS, seeds=SEEDS),
    Experiment("duq-figure7", 4, "Figure 7", "How far from all centroids known and unknown data are", figure7,
               FASHION_SETS, CIFAR_SETS, seeds=SEEDS),
)  # fmt: skip
