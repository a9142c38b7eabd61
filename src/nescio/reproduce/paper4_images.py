"""Figures 5 to 7 and tables 1 to 3 of *DUQ*: FashionMNIST against MNIST, and CIFAR-10 against SVHN."""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from nescio.data import Known
from nescio.detectors import Mahalanobis
from nescio.methods import Ensemble
from nescio.methods.method import Method
from nescio.records import Claim, Compared, Differs, Evaluation
from nescio.report.comparison import confidence_figure, rejection_figure, roc_figure
from nescio.reproduce.experiment import Experiment, Found, Work
from nescio.reproduce.over_seeds import Published, above, all_of, over_seeds
from nescio.reproduce.paper4_published import (
    CIFAR_ACCURACY,
    FASHION_ACCURACY,
    PENALTIES,
    TABLE1,
    TABLE2,
    TABLE3,
)
from nescio.reproduce.paper4_runs import (
    CIFAR,
    DUQ_EPOCHS,
    FASHION,
    SOFTMAX_EPOCHS,
    Made,
    Plan,
    auroc,
    confidence_shares,
    duq_run,
    ensemble_run,
    judged,
    judged_all,
    judged_members,
    rejection,
    roc,
    small_run,
    training_time,
)
from nescio.runs import training_part

DUQ, SINGLE, ENSEMBLE, MAHALANOBIS = "DUQ", "single model", "deep ensemble of 5", "Mahalanobis (ll)"
MEMBERS = 5
CHOSEN = 0.05  # the weight of the penalty that the paper settled on for FashionMNIST, and for CIFAR-10:
CIFAR_PENALTY = 0.5
SMALL = (0.0, 0.05, 0.5)  # weights that fit a quick run
TOLERANCE = 0.003  # of accuracies, the sum of the paper's spreads: what we take "competitive" to allow
RATES = np.linspace(0.01, 0.99, 99)
Runs = dict[str, list[Evaluation]]
Sweep = dict[float, list[float]]  # by weight, of each run


def table1(work: Work) -> Found:
    """Accuracy and AUROC as the penalty grows."""
    weights = work.pick(SMALL, PENALTIES)
    plan = {_weight(weight): (small_run(weight) if work.quick else duq_run(work, FASHION, weight), work.seeds)
            for weight in weights}  # fmt: skip
    rows = dict(zip(weights, judged_all(work, FASHION, plan).values(), strict=True))
    where = ", on 6000 images" if work.quick else ""
    compared = [one for weight, runs in rows.items() for one in _penalty_row(_weight(weight) + where, runs, weight)]
    if work.quick:
        whole = {"λ = 0, on all images": (duq_run(work, FASHION, 0.0), work.seeds)}
        for name, group in judged_all(work, FASHION, whole).items():
            compared += _penalty_row(name, group, 0.0)
        plan |= whole
    accuracy = {weight: [one.known.accuracy for one in runs] for weight, runs in rows.items()}
    letters, digits = (
        {weight: [auroc(one, name) for one in runs] for weight, runs in rows.items()} for name in ("notmnist", "mnist")
    )
    return Found(
        compared=tuple(compared),
        claims=(
            Claim("Accuracy goes down as λ increases", above(accuracy[0.0], accuracy[max(rows)]),
                  f"{_course(accuracy, 100, '%')} (wanted: less at the largest λ than at 0)"),
            Claim("The best λ for NotMNIST is also the best for MNIST", _same_best(letters, digits),
                  f"NotMNIST: {_course(letters)}; MNIST: {_course(digits)}"),
            Claim("The gradient penalty improves AUROC slightly",
                  all_of(above(values[CHOSEN], values[0.0]) for values in (letters, digits)),
                  f"from λ = 0 to {CHOSEN}: {fmean(letters[0.0]):.3f} to {fmean(letters[CHOSEN]):.3f} on NotMNIST, "
                  f"{fmean(digits[0.0]):.3f} to {fmean(digits[CHOSEN]):.3f} on MNIST"),
        ),
        differs=(*_table1_differs(work), *_fashion_differs(work, chosen=False)),
        remarks=(
            *(("The sweep over λ is of short runs on a tenth of the images.",) if work.quick else ()),
            *_short(work, compared), training_time(work, plan),
        ),
    )  # fmt: skip


def table2(work: Work) -> Found:
    """DUQ beside other methods."""
    plan = _plan(work)
    single = partial(judged_members, work, FASHION, plan[ENSEMBLE][0])
    runs = {
        **judged_all(work, FASHION, plan),
        SINGLE: single(MEMBERS),
        MAHALANOBIS: single(work.pick(1, MEMBERS), "-mahalanobis", _mahalanobis),
    }
    table = [over_seeds(f"{_ours(name)}: AUROC, FashionMNIST against MNIST", [auroc(one, "mnist") for one in group],
                    TABLE2[name]) for name, group in runs.items()]  # fmt: skip
    table += _accuracies(runs, FASHION_ACCURACY)
    told = {name: [auroc(one, "mnist") for one in group] for name, group in runs.items()}
    means = {name: fmean(values) for name, values in told.items()}
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    energy = fmean(auroc(one, "mnist", "energy") for one in runs[DUQ])
    entropy = fmean(auroc(one, "mnist", "entropy") for one in runs[SINGLE])
    return Found(
        compared=tuple(table),
        claims=(
            Claim("DUQ outperforms all other classification based methods",
                  all_of(above(told[DUQ], values) for name, values in told.items() if name != DUQ),
                  ", ".join(f"{_ours(name)}: {value:.3f}" for name, value in means.items())),
            Claim("DUQ achieves competitive accuracy", accuracy[DUQ] > accuracy[SINGLE] - TOLERANCE,
                  f"{accuracy[DUQ]:.1%} against {accuracy[SINGLE]:.1%} of the single model (wanted: at most "
                  f"{100 * TOLERANCE:.1f} points less, the sum of the paper's spreads)"),
        ),
        differs=(
            *_fashion_differs(work),
            Differs("single models", "trained for themselves", "the members of an ensemble, each alone"),
            Differs("score of the single model", "not told", "the largest probability", f"entropy gives {entropy:.3f}"),
            Differs("Mahalanobis distance", "by Ren et al. (2019), of another network",
                    "on the features of our single model, without a step in the input or a tuned sum of layers",
                    "one forward pass, and no unknown data to tune on"),
        ),
        remarks=(
            f"LL ratio ({TABLE2['LL ratio (generative model)'].value} in the paper, from Ren et al. 2019) is of a "
            "generative model, PixelCNN++, which is not part of nescio.",
            *((f"The Mahalanobis distance of our single model's features reaches {means[MAHALANOBIS]:.3f} and is "
               "ahead of DUQ; what the paper quotes is of another network.",)
              if means[MAHALANOBIS] > means[DUQ] else ()),
            f"By `energy`, the sum of all kernels, the same DUQ networks reach {energy:.3f}.",
            *_unequal(work), *_short(work, table), training_time(work, plan),
        ),
    )  # fmt: skip


def figure5(work: Work) -> Found:
    """ROC curves of DUQ and the ensemble."""
    plan = _plan(work)
    runs = judged_all(work, FASHION, plan)
    work.picture("figure5.svg", roc_figure(runs, "mnist"))
    curves = {name: _mean_curve([(roc(one, "mnist").unknown, roc(one, "mnist").known) for one in group])
              for name, group in runs.items()}  # fmt: skip
    above = float((curves[DUQ] >= curves[ENSEMBLE]).mean())
    table = [over_seeds(f"{name}: AUROC", [auroc(one, "mnist") for one in group], TABLE2[name])
             for name, group in runs.items()]  # fmt: skip
    table += [over_seeds(f"{name}: FashionMNIST accepted where {rate:.0%} of MNIST is",
                     [float(np.interp(rate, roc(one, "mnist").unknown, roc(one, "mnist").known)) for one in group],
                     unit="%")
              for rate in (0.05, 0.2) for name, group in runs.items()]  # fmt: skip
    return Found(
        compared=tuple(table),
        claims=(Claim("DUQ outperforms Deep Ensembles at all chosen rates", above == 1.0,
                      f"its mean curve is above at {above:.0%} of {len(RATES)} rates from 1 % to 99 %"),),
        differs=_fashion_differs(work),
        remarks=(*_unequal(work), *_short(work, table), training_time(work, plan)),
    )  # fmt: skip


def figure6(work: Work) -> Found:
    """Accuracy on FashionMNIST and MNIST together as the least known inputs are rejected."""
    plan = _plan(work)
    runs = judged_all(work, FASHION, plan)
    work.picture("figure6.svg", rejection_figure(runs, "mnist"))
    curves = {name: _mean_curve([(rejection(one, "mnist").rejected, rejection(one, "mnist").accuracy) for one in group])
              for name, group in runs.items()}  # fmt: skip
    areas = {name: [rejection(one, "mnist").area for one in group] for name, group in runs.items()}
    bound = rejection(runs[DUQ][0], "mnist").maximum_area
    above = float((curves[DUQ] >= curves[ENSEMBLE]).mean())
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    table = [over_seeds(f"{name}: mean accuracy over all shares rejected (theoretical maximum {bound:.3f})", area)
             for name, area in areas.items()]  # fmt: skip
    table += [over_seeds(f"{name}: accuracy of the rest when half is rejected",
                     [float(np.interp(0.5, rejection(one, "mnist").rejected, rejection(one, "mnist").accuracy))
                      for one in group], unit="%") for name, group in runs.items()]  # fmt: skip
    table += _accuracies(runs, FASHION_ACCURACY)
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
        differs=_fashion_differs(work),
        remarks=(*_unequal(work), *_short(work, table), training_time(work, plan)),
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
        differs=(*moved, *(_fashion_differs(work, chosen=False) if work.quick else _cifar_differs(work))),
        remarks=(training_time(work, plan),),
    )  # fmt: skip


def table3(work: Work) -> Found:
    """CIFAR-10 against SVHN. Ensembles of fewer members are disjoint parts of the one of 15, as far as it goes."""
    plan = {
        "DUQ, λ = 0.5": (duq_run(work, CIFAR, CIFAR_PENALTY), work.seeds),
        "DUQ, λ = 0": (duq_run(work, CIFAR, 0.0), work.seeds),
    }
    whole = ensemble_run(work, CIFAR, 15)
    runs = {**judged_all(work, CIFAR, plan), SINGLE: judged_members(work, CIFAR, whole, work.seeds)}
    for size in (3, 5, 10, 15):
        starts = range(0, max(1, 15 - size + 1), size) if not work.dry else (0,)
        runs[f"deep ensemble of {size}"] = [
            judged(work, CIFAR, whole, 0, f"-{size}-from-{start}", _members(start, size)) for start in starts
        ]
    table = [over_seeds(f"{name}: AUROC, CIFAR-10 against SVHN", [auroc(one, "svhn") for one in group], TABLE3[name])
             for name, group in runs.items()]  # fmt: skip
    table += _accuracies(runs, CIFAR_ACCURACY)
    means = {name: fmean(auroc(one, "svhn") for one in group) for name, group in runs.items()}
    return Found(
        compared=tuple(table),
        claims=(
            Claim("There is a big improvement going from λ = 0 to λ = 0.5",
                  means["DUQ, λ = 0.5"] > means["DUQ, λ = 0"] + 0.03,
                  f"{means['DUQ, λ = 0']:.3f} and {means['DUQ, λ = 0.5']:.3f} (wanted: more than 0.03)"),
            Claim("Deep Ensembles performs the best", max(means, key=means.__getitem__).startswith("deep"),
                  ", ".join(f"{name}: {value:.3f}" for name, value in means.items())),
        ),
        differs=_cifar_differs(work),
        remarks=(f"LL ratio ({TABLE3['LL ratio (generative model)'].value} in the paper) is of a generative model, "
                 "which is not part of nescio.", *_short(work, table),
                 training_time(work, plan | {"the ensemble": (whole, 1)})),
    )  # fmt: skip


def _plan(work: Work) -> Plan:
    """The networks on FashionMNIST; a quick run has one ensemble."""
    return {
        DUQ: (duq_run(work, FASHION, work.pick(0.0, CHOSEN)), work.seeds),
        ENSEMBLE: (ensemble_run(work, FASHION, MEMBERS), work.pick(1, work.seeds)),
    }


def _mahalanobis(model: Method, known: Known) -> Mahalanobis:
    found = Mahalanobis(model)
    found.fit(training_part(known))
    return found


def _members(start: int, size: int) -> Made:
    def made(model: Method, known: Known) -> Ensemble:
        nets = list(model.networks())
        return Ensemble(nets[start : start + size], normalise=known.normalise, stacked=False)

    return made


def _penalty_row(name: str, runs: Sequence[Evaluation], weight: float) -> list[Compared]:
    accuracy, letters, digits = TABLE1[weight]
    return [
        over_seeds(f"{name}: accuracy", [one.known.accuracy for one in runs], accuracy, "%"),
        over_seeds(f"{name}: AUROC against NotMNIST", [auroc(one, "notmnist") for one in runs], letters),
        over_seeds(f"{name}: AUROC against MNIST", [auroc(one, "mnist") for one in runs], digits),
    ]


def _accuracies(runs: Runs, published: dict[str, Published]) -> list[Compared]:
    return [over_seeds(f"{name}: test accuracy", [one.known.accuracy for one in group], published[name], "%")
            for name, group in runs.items() if name in published]  # fmt: skip


def _ours(name: str) -> str:
    return name.removesuffix(" (ll)")


def _weight(weight: float) -> str:
    return f"λ = {weight:g}"


def _unequal(work: Work) -> tuple[str, ...]:
    if not work.quick:
        return ()
    return (f"Networks with a softmax were trained for {SOFTMAX_EPOCHS} epochs, DUQ for {DUQ_EPOCHS}; a part of what "
            "DUQ is ahead of them by may be due to that.",
            f"Our DUQ is without a gradient penalty, that of the paper has λ = {CHOSEN:g}; without one the paper has "
            f"an AUROC of {TABLE1[0.0][2].value:g} on MNIST (table 1). Our length scale σ was compared on a part of "
            "the MNIST test images, a liberty that the paper did not take.")  # fmt: skip


def _course(values: Sweep, times: float = 1.0, unit: str = "") -> str:
    return ", ".join(f"{_weight(weight)}: {times * fmean(runs):.{1 if unit else 3}f}{unit and ' ' + unit}"
                     for weight, runs in values.items())  # fmt: skip


def _same_best(letters: Sweep, digits: Sweep) -> bool | None:
    """Whether one weight is the best for both; not clear where several may be."""
    first, second = (_may_be_best(values) for values in (letters, digits))
    return False if not first & second else True if first == second and len(first) == 1 else None


def _may_be_best(values: Sweep) -> set[float]:
    """The weights that the best one is not clearly above."""
    best = max(values.values(), key=fmean)
    return {weight for weight, runs in values.items() if runs is best or not above(best, runs)}


def _mean_curve(curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> NDArray[np.float64]:
    """The heights of several curves at the same places, averaged."""
    found: NDArray[np.float64] = np.mean([np.interp(RATES, across, up) for across, up in curves], axis=0)
    return found


def _short(work: Work, table: Sequence[Compared]) -> list[str]:
    """Where we stay below the paper by more than its spread."""
    found = [one for one in table if one.paper is not None and one.ours < one.paper - (one.paper_spread or 0.0)]
    if not found:
        return []
    unit = " points"
    words = "; ".join(f"{one.what} by {one.paper - one.ours:.{1 if one.unit else 3}f}{unit if one.unit else ''}"
                      for one in found if one.paper is not None)  # fmt: skip
    why = " The training is shorter than the paper's." if work.quick else ""
    return [f"Below the paper by more than its spread: {words}.{why}"]


def _fashion_differs(work: Work, chosen: bool = True) -> tuple[Differs, ...]:
    always = (
        Differs("weight decay of networks with a softmax", "not told", "5e-4", "as in the authors' code"),
        Differs("NotMNIST", "as the authors had it", "10 000 images of notMNIST_small", "the data that can be had"),
        Differs("penalty", "(‖g‖² − 1)²", "(‖g‖ − 1)²", "as in the authors' code"),
    )
    if not work.quick:
        return always if work.seeds == 5 else (Differs("runs", "5", str(work.seeds)), *always)
    return (
        Differs("epochs", "30", f"{DUQ_EPOCHS} of DUQ, {SOFTMAX_EPOCHS} of each member", "an hour on two cores"),
        Differs("length scale σ", "0.1", "0.2", "in so few epochs seeds differ much less; 0.1, 0.2 and 0.5 were "
                "compared on part of MNIST's test images by short runs of seed 2"),
        *((Differs("λ", str(CHOSEN), "0", "the penalty makes a step three times as long"),) if chosen else ()),
        Differs("runs", "5", f"{work.seeds} of DUQ, 1 ensemble", "an hour on two cores"),
        *always,
    )  # fmt: skip


def _table1_differs(work: Work) -> tuple[Differs, ...]:
    if not work.quick:
        return ()
    weights = ", ".join(f"{weight:g}" for weight in SMALL)
    return (
        Differs("values of λ", "seven", weights, "those that fit an hour"),
        Differs("rows “on 6000 images”", "60 000 images, 30 epochs, γ = 0.999",
                f"6000 images, 6 epochs, γ = 0.99, {work.seeds} of each",
                "a step with the penalty takes three times as long"),
    )  # fmt: skip


def _cifar_differs(work: Work) -> tuple[Differs, ...]:
    return (
        Differs("learning rate", "a tenth after each third (appendix) or a fifth (section 4.3)", "a fifth",
                "as in the authors' code"),
        Differs("weight decay of networks with a softmax", "not told", "5e-4", "as in the authors' code"),
        Differs("first weights W_c", "not told", "N(0, 0.05²)", "as for FashionMNIST"),
        Differs("SVHN and CIFAR-10", "26 032 test digits; 50 000 training images",
                "as many as the files at hand hold", "see `nescio data`"),
        Differs("runs", "5", str(work.seeds)),
        Differs("ensembles", "trained for each size", "disjoint parts of one of 15 networks",
                "a fifth of the training"),
    )  # fmt: skip


_FASHION_SETS = ("fashion_mnist", "mnist", "notmnist")
_CIFAR_SETS = ("cifar10", "svhn")
_SEEDS = {"quick": 3, "paper": 5}
EXPERIMENTS = (
    Experiment("duq-figure5", 4, "Figure 5", "ROC: FashionMNIST against MNIST", figure5, _FASHION_SETS, seeds=_SEEDS),
    Experiment("duq-figure6", 4, "Figure 6", "Rejection: FashionMNIST and MNIST", figure6, _FASHION_SETS, seeds=_SEEDS),
    Experiment("duq-figure7", 4, "Figure 7", "How far from all centroids known and unknown data are", figure7,
               _FASHION_SETS, _CIFAR_SETS, seeds=_SEEDS),
    Experiment("duq-table1", 4, "Table 1", "The weight of the gradient penalty on FashionMNIST", table1, _FASHION_SETS,
               seeds=_SEEDS),
    Experiment("duq-table2", 4, "Table 2", "FashionMNIST against MNIST, methods compared", table2, _FASHION_SETS,
               seeds=_SEEDS),
    Experiment("duq-table3", 4, "Table 3", "CIFAR-10 against SVHN, methods compared", table3, _CIFAR_SETS,
               scales=("paper",), seeds=_SEEDS),
)  # fmt: skip
