"""Figures 5 to 8: known images against unknown ones, as curves and as distributions."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from nescio.records import Evaluation
from nescio.report import confidence_figure, rejection_figure, roc_figure
from papers.duq.compared import (
    CIFAR_PENALTY,
    CIFAR_SETS,
    DUQ,
    ENSEMBLE,
    FASHION_SETS,
    LARGER,
    MEMBERS,
    PAPER,
    accuracies,
    cifar_deviations,
    cifar_ensembles,
    cifar_pair,
    cifar_whole,
    experiment,
    fashion_deviations,
    fashion_runs,
    shortfalls,
    unequal,
)
from papers.duq.runs import (
    FASHION,
    Evaluations,
    auroc,
    confidence_fractions,
    duq_run,
    evaluate_runs,
    rejection,
    roc,
    training_time,
)
from papers.experiment import Outcome
from papers.over_seeds import over_seeds
from papers.reproduction import Comparison
from papers.workspace import SCALES, Workspace

SIMILAR = 0.02  # of mean accuracies: what we take "very similarly" to allow
RATES = np.linspace(0.01, 0.99, 99)
Curve = tuple[Sequence[float], Sequence[float]]


def figure5(work: Workspace) -> Outcome:
    """ROC curves of DUQ and the ensemble."""
    trained = fashion_runs(work)
    runs, curve = evaluate_runs(work, FASHION, trained), partial(_roc, "mnist")
    work.picture("figure5.svg", roc_figure(runs, "mnist"))
    above = _lead(runs, curve)
    table = []
    for name, group in runs.items():
        paper = PAPER.at("table2", name)
        table.append(over_seeds(f"{name}: AUROC", [auroc(one, "mnist") for one in group], paper))
    for rate in (0.05, 0.2):
        where = f"FashionMNIST accepted where {rate:.0%} of MNIST is"
        for name, group in runs.items():
            table.append(over_seeds(f"{name}: {where}", _at(rate, curve, group), unit="%"))
    seen = f"its mean curve is above at {above:.0%} of {len(RATES)} rates from 1 % to 99 %"
    claims = (PAPER.claim("all_rates", above == 1.0, seen),)
    remarks = (*unequal(work), *shortfalls(work, table), training_time(work, trained))
    return Outcome(tuple(table), claims, fashion_deviations(work), remarks)


def figure6(work: Workspace) -> Outcome:
    """Accuracy on FashionMNIST and MNIST together as the least known inputs are rejected."""
    trained = fashion_runs(work)
    runs = evaluate_runs(work, FASHION, trained)
    work.picture("figure6.svg", rejection_figure(runs, "mnist"))
    areas, seen = _areas(runs, "mnist"), _leads(runs, "mnist")
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    table = [*_rejection_table(runs, "mnist"), *accuracies(runs, "fashion_accuracy")]
    alone = f"{accuracy[ENSEMBLE]:.1%} against {accuracy[DUQ]:.1%} on FashionMNIST alone"
    claims = (
        PAPER.claim("rejection", fmean(areas[DUQ]) > fmean(areas[ENSEMBLE]), seen),
        PAPER.claim("head_start", accuracy[ENSEMBLE] > accuracy[DUQ], alone),
    )
    remarks = (*unequal(work), *shortfalls(work, table), training_time(work, trained))
    return Outcome(tuple(table), claims, fashion_deviations(work), remarks)


def figure7(work: Workspace) -> Outcome:
    """How the largest kernel is distributed on known and on unknown data."""
    pair, unknown = work.pick((FASHION, "mnist"), (cifar_pair(work), "svhn"))
    trained = {DUQ: (duq_run(work, pair, work.pick(0.0, CIFAR_PENALTY)), work.seeds)}
    runs = evaluate_runs(work, pair, trained)
    work.picture("figure7.svg", confidence_figure(runs, unknown))
    by_side = {
        side: np.array([confidence_fractions(one, side) for one in runs[DUQ]])
        for side in ("known", unknown)
    }
    known, other = (fractions.mean(0) for fractions in by_side.values())
    separation = fmean(auroc(one, unknown) for one in runs[DUQ])

    rows = (
        (f"{pair.data} with a kernel above 0.9", by_side["known"][:, -1]),
        (f"{unknown} with a kernel above 0.9", by_side[unknown][:, -1]),
        (f"{unknown} with a kernel below 0.1", by_side[unknown][:, 0]),
    )
    compared = tuple(over_seeds(what, values.tolist(), unit="%") for what, values in rows)
    even = bool(min(other) > 0.05 and max(other) < 0.2)
    tenths = (
        f"the fullest tenth of the range holds {max(other):.1%} of it, the emptiest "
        f"{min(other):.1%} (wanted: between half and twice a tenth)"
    )
    claims = (
        PAPER.claim("known_close", bool(known[-1] > 0.5), f"{known[-1]:.0%} above 0.9"),
        PAPER.claim("unknown_spread", even, tenths),
        PAPER.claim("separated", separation > 0.9, f"AUROC {separation:.3f} (wanted: above 0.9)"),
    )
    if work.quick:
        fashion = fashion_deviations(work, chosen=False, ensemble=False)
        deviations = (*PAPER.deviates("other_data"), *fashion)
    else:
        deviations = cifar_deviations(work, ensemble=False)
    short = (PAPER.remark("distances"),) if work.quick else ()
    return Outcome(compared, claims, deviations, (*short, training_time(work, trained)))


def figure8(work: Workspace) -> Outcome:
    """Accuracy on CIFAR-10 and SVHN as the least known inputs are rejected: networks of table 3."""
    pair = cifar_pair(work)
    trained = {DUQ: (duq_run(work, pair, CIFAR_PENALTY), work.seeds)}
    runs = {**evaluate_runs(work, pair, trained), ENSEMBLE: cifar_ensembles(work, MEMBERS)}
    work.picture("figure8.svg", rejection_figure(runs, "svhn"))
    areas = _areas(runs, "svhn")
    similar = abs(fmean(areas[DUQ]) - fmean(areas[ENSEMBLE])) < SIMILAR
    wanted = f" (wanted: less than {SIMILAR} apart)"
    maximum, paper = rejection(runs[DUQ][0], "svhn").maximum[0], PAPER.at("figure8", "maximum")
    table = [
        over_seeds("theoretical maximum with nothing rejected", [maximum], paper, "%"),
        *_rejection_table(runs, "svhn"),
        *accuracies(runs, "cifar_accuracy", {DUQ: "DUQ, λ = 0.5"}),
    ]
    time = training_time(work, trained | {"the ensemble": (cifar_whole(work), 1)})
    return Outcome(
        tuple(table),
        (PAPER.claim("similar", similar, _leads(runs, "svhn", wanted)),),
        cifar_deviations(work),
        (*shortfalls(work, table), time),
    )


def _roc(unknown: str, record: Evaluation) -> Curve:
    curve = roc(record, unknown)
    return curve.unknown, curve.known


def _rejection(unknown: str, record: Evaluation) -> Curve:
    curve = rejection(record, unknown)
    return curve.rejected, curve.accuracy


def _areas(runs: Evaluations, unknown: str) -> dict[str, list[float]]:
    """The mean accuracy over all fractions rejected, of each run."""
    return {name: [rejection(one, unknown).area for one in group] for name, group in runs.items()}


def _rejection_table(runs: Evaluations, unknown: str) -> list[Comparison]:
    """Each model's curve in two numbers: its mean, and its height where half is rejected."""
    bound = rejection(runs[DUQ][0], unknown).maximum_area
    mean = f"mean accuracy over all shares rejected (theoretical maximum {bound:.3f})"
    half = "accuracy of the rest when half is rejected"
    heights = {name: _at(0.5, partial(_rejection, unknown), runs[name]) for name in runs}
    return [
        *(over_seeds(f"{name}: {mean}", area) for name, area in _areas(runs, unknown).items()),
        *(over_seeds(f"{name}: {half}", values, unit="%") for name, values in heights.items()),
    ]


def _at(
    rate: float, curve: Callable[[Evaluation], Curve], runs: Sequence[Evaluation]
) -> list[float]:
    """How high the curve of each run is at a place."""
    return [float(np.interp(rate, *curve(one))) for one in runs]


def _lead(runs: Evaluations, curve: Callable[[Evaluation], Curve]) -> float:
    """The fraction of places at which DUQ's mean curve is not below the ensemble's."""
    duq, ensemble = (
        np.mean([np.interp(RATES, *curve(one)) for one in runs[name]], axis=0)
        for name in (DUQ, ENSEMBLE)
    )
    return float((duq >= ensemble).mean())


def _leads(runs: Evaluations, unknown: str, wanted: str = "") -> str:
    areas, above = _areas(runs, unknown), _lead(runs, partial(_rejection, unknown))
    return (
        f"mean accuracy {fmean(areas[DUQ]):.3f} against {fmean(areas[ENSEMBLE]):.3f}{wanted}; "
        f"its mean curve is above at {above:.0%} of {len(RATES)} shares from 1 % to 99 %"
    )


_FAR = "How far from all centroids known and unknown data are"
EXPERIMENTS = (
    experiment("Figure 5", "ROC: FashionMNIST against MNIST", figure5, FASHION_SETS),
    experiment("Figure 6", "Rejection: FashionMNIST and MNIST", figure6, FASHION_SETS),
    experiment("Figure 7", _FAR, figure7, FASHION_SETS, CIFAR_SETS, scales=SCALES),
    experiment("Figure 8", "Rejection: CIFAR-10 and SVHN", figure8, CIFAR_SETS, scales=LARGER),
)
