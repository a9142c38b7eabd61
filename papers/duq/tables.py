"""Tables 1 to 3 of *DUQ*: FashionMNIST against MNIST, and CIFAR-10 against SVHN."""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from nescio.data import Known
from nescio.detectors import Mahalanobis
from nescio.methods.method import Method
from nescio.records import Evaluation
from nescio.store.run import training_part
from papers.duq.compared import (
    CHOSEN,
    CIFAR_PENALTY,
    CIFAR_SETS,
    DUQ,
    ENSEMBLE,
    FASHION_SETS,
    MEMBERS,
    MOST,
    SEEDS,
    accuracies,
    cifar_differs,
    cifar_ensembles,
    cifar_whole,
    fashion_differs,
    fashion_plan,
    short,
    unequal,
)
from papers.duq.published import (
    CIFAR_ACCURACY,
    FASHION_ACCURACY,
    PENALTIES,
    TABLE1,
    TABLE2,
    TABLE3,
)
from papers.duq.runs import (
    CIFAR,
    FASHION,
    auroc,
    duq_run,
    judged_all,
    judged_members,
    small_run,
    training_time,
)
from papers.experiment import Experiment, Found, Work
from papers.over_seeds import above, all_of, over_seeds
from papers.reproduction import Claim, Compared, Differs

SINGLE, MAHALANOBIS = "single model", "Mahalanobis (ll)"
SMALL = (0.0, 0.05, 0.5)  # weights that fit a quick run
TOLERANCE = (
    0.003  # of accuracies, the sum of the paper's spreads: what we take "competitive" to allow
)
Sweep = dict[float, list[float]]  # by weight, of each run


def table1(work: Work) -> Found:
    """Accuracy and AUROC as the penalty grows."""
    weights = work.pick(SMALL, PENALTIES)
    plan = {
        _weight(weight): (
            small_run(weight) if work.quick else duq_run(work, FASHION, weight),
            work.seeds,
        )
        for weight in weights
    }
    rows = dict(zip(weights, judged_all(work, FASHION, plan).values(), strict=True))
    where = ", on 6000 images" if work.quick else ""
    compared = [
        one
        for weight, runs in rows.items()
        for one in _penalty_row(_weight(weight) + where, runs, weight)
    ]
    if work.quick:
        whole = {"λ = 0, on all images": (duq_run(work, FASHION, 0.0), work.seeds)}
        for name, group in judged_all(work, FASHION, whole).items():
            compared += _penalty_row(name, group, 0.0)
        plan |= whole
    accuracy = {weight: [one.known.accuracy for one in runs] for weight, runs in rows.items()}
    letters, digits = (
        {weight: [auroc(one, name) for one in runs] for weight, runs in rows.items()}
        for name in ("notmnist", "mnist")
    )
    return Found(
        compared=tuple(compared),
        claims=(
            Claim(
                "Accuracy goes down as λ increases",
                above(accuracy[0.0], accuracy[max(rows)]),
                f"{_course(accuracy, 100, '%')} (wanted: less at the largest λ than at 0)",
            ),
            Claim(
                "The best λ for NotMNIST is also the best for MNIST",
                _same_best(letters, digits),
                f"NotMNIST: {_course(letters)}; MNIST: {_course(digits)}",
            ),
            Claim(
                "The gradient penalty improves AUROC slightly",
                all_of(above(values[CHOSEN], values[0.0]) for values in (letters, digits)),
                f"from λ = 0 to {CHOSEN}: {fmean(letters[0.0]):.3f} to {fmean(letters[CHOSEN]):.3f} on NotMNIST, "
                f"{fmean(digits[0.0]):.3f} to {fmean(digits[CHOSEN]):.3f} on MNIST",
            ),
        ),
        differs=(*_table1_differs(work), *fashion_differs(work, chosen=False, ensemble=False)),
        remarks=(
            *(
                ("The sweep over λ is of short runs on a tenth of the images.",)
                if work.quick
                else ()
            ),
            *short(work, compared),
            training_time(work, plan),
        ),
    )


def table2(work: Work) -> Found:
    """DUQ beside other methods."""
    plan = fashion_plan(work)
    single = partial(judged_members, work, FASHION, plan[ENSEMBLE][0])
    runs = {
        **judged_all(work, FASHION, plan),
        SINGLE: single(MEMBERS),
        MAHALANOBIS: single(work.pick(1, MEMBERS), "-mahalanobis", _mahalanobis),
    }
    table = [
        over_seeds(
            f"{_ours(name)}: AUROC, FashionMNIST against MNIST",
            [auroc(one, "mnist") for one in group],
            TABLE2[name],
        )
        for name, group in runs.items()
    ]
    table += accuracies(runs, FASHION_ACCURACY)
    told = {name: [auroc(one, "mnist") for one in group] for name, group in runs.items()}
    means = {name: fmean(values) for name, values in told.items()}
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    energy = fmean(auroc(one, "mnist", "energy") for one in runs[DUQ])
    entropy = fmean(auroc(one, "mnist", "entropy") for one in runs[SINGLE])
    return Found(
        compared=tuple(table),
        claims=(
            Claim(
                "DUQ outperforms all other classification based methods",
                all_of(above(told[DUQ], values) for name, values in told.items() if name != DUQ),
                ", ".join(f"{_ours(name)}: {value:.3f}" for name, value in means.items()),
            ),
            Claim(
                "DUQ achieves competitive accuracy",
                accuracy[DUQ] > accuracy[SINGLE] - TOLERANCE,
                f"{accuracy[DUQ]:.1%} against {accuracy[SINGLE]:.1%} of the single model (wanted: at most "
                f"{100 * TOLERANCE:.1f} points less, the sum of the paper's spreads)",
            ),
        ),
        differs=(
            *fashion_differs(work),
            Differs(
                "single models",
                "not told if trained for themselves",
                "the members of an ensemble, each alone",
            ),
            Differs(
                "score of the single model",
                "not told",
                "the largest probability",
                f"entropy gives {entropy:.3f}",
            ),
            Differs(
                "Mahalanobis distance",
                "by Ren et al. (2019), of another network",
                "on the features of our single model, without a step in the input or a tuned sum of layers",
                "one forward pass, and no unknown data to tune on",
            ),
        ),
        remarks=(
            f"LL ratio ({TABLE2['LL ratio (generative model)'].value} in the paper, from Ren et al. 2019) is of a "
            "generative model, PixelCNN++, which is not part of nescio.",
            *(
                (
                    f"The Mahalanobis distance of our single model's features reaches {means[MAHALANOBIS]:.3f} and is "
                    "ahead of DUQ; what the paper quotes is of another network.",
                )
                if means[MAHALANOBIS] > means[DUQ]
                else ()
            ),
            f"By `energy`, the sum of all kernels, the same DUQ networks reach {energy:.3f}.",
            *unequal(work),
            *short(work, table),
            training_time(work, plan),
        ),
    )


def table3(work: Work) -> Found:
    """CIFAR-10 against SVHN. Ensembles of fewer members are disjoint parts of the one of 15, as far as it goes."""
    plan = {
        "DUQ, λ = 0.5": (duq_run(work, CIFAR, CIFAR_PENALTY), work.seeds),
        "DUQ, λ = 0": (duq_run(work, CIFAR, 0.0), work.seeds),
    }
    whole = cifar_whole(work)
    runs = {
        **judged_all(work, CIFAR, plan),
        SINGLE: judged_members(work, CIFAR, whole, work.seeds),
        **{f"deep ensemble of {size}": cifar_ensembles(work, size) for size in (3, 5, 10, MOST)},
    }
    table = [
        over_seeds(
            f"{name}: AUROC, CIFAR-10 against SVHN",
            [auroc(one, "svhn") for one in group],
            TABLE3[name],
        )
        for name, group in runs.items()
    ]
    table += accuracies(runs, CIFAR_ACCURACY)
    means = {name: fmean(auroc(one, "svhn") for one in group) for name, group in runs.items()}
    return Found(
        compared=tuple(table),
        claims=(
            Claim(
                "There is a big improvement going from λ = 0 to λ = 0.5",
                means["DUQ, λ = 0.5"] > means["DUQ, λ = 0"] + 0.03,
                f"{means['DUQ, λ = 0']:.3f} and {means['DUQ, λ = 0.5']:.3f} (wanted: more than 0.03)",
            ),
            Claim(
                "Deep Ensembles performs the best",
                max(means, key=means.__getitem__).startswith("deep"),
                ", ".join(f"{name}: {value:.3f}" for name, value in means.items()),
            ),
        ),
        differs=cifar_differs(work),
        remarks=(
            f"LL ratio ({TABLE3['LL ratio (generative model)'].value} in the paper) is of a generative model, "
            "which is not part of nescio.",
            *short(work, table),
            training_time(work, plan | {"the ensemble": (whole, 1)}),
        ),
    )


def _mahalanobis(model: Method, known: Known) -> Mahalanobis:
    found = Mahalanobis(model)
    found.fit(training_part(known))
    return found


def _penalty_row(name: str, runs: Sequence[Evaluation], weight: float) -> list[Compared]:
    accuracy, letters, digits = TABLE1[weight]
    return [
        over_seeds(f"{name}: accuracy", [one.known.accuracy for one in runs], accuracy, "%"),
        over_seeds(
            f"{name}: AUROC against NotMNIST", [auroc(one, "notmnist") for one in runs], letters
        ),
        over_seeds(f"{name}: AUROC against MNIST", [auroc(one, "mnist") for one in runs], digits),
    ]


def _ours(name: str) -> str:
    return name.removesuffix(" (ll)")


def _weight(weight: float) -> str:
    return f"λ = {weight:g}"


def _course(values: Sweep, times: float = 1.0, unit: str = "") -> str:
    return ", ".join(
        f"{_weight(weight)}: {times * fmean(runs):.{1 if unit else 3}f}{unit and ' ' + unit}"
        for weight, runs in values.items()
    )


def _same_best(letters: Sweep, digits: Sweep) -> bool | None:
    """Whether one weight is the best for both; not clear where several may be."""
    first, second = (_may_be_best(values) for values in (letters, digits))
    return False if not first & second else True if first == second and len(first) == 1 else None


def _may_be_best(values: Sweep) -> set[float]:
    """The weights that the best one is not clearly above."""
    best = max(values.values(), key=fmean)
    return {weight for weight, runs in values.items() if runs is best or not above(best, runs)}


def _table1_differs(work: Work) -> tuple[Differs, ...]:
    if not work.quick:
        return ()
    weights = ", ".join(f"{weight:g}" for weight in SMALL)
    return (
        Differs("values of λ", "seven", weights, "those that fit an hour"),
        Differs(
            "rows “on 6000 images”",
            "60 000 images, 30 epochs, γ = 0.999",
            f"6000 images, 6 epochs, γ = 0.99, {work.seeds} of each",
            "a step with the penalty takes three times as long",
        ),
    )


EXPERIMENTS = (
    Experiment(
        "duq-table1",
        4,
        "Table 1",
        "The weight of the gradient penalty on FashionMNIST",
        table1,
        FASHION_SETS,
        seeds=SEEDS,
    ),
    Experiment(
        "duq-table2",
        4,
        "Table 2",
        "FashionMNIST against MNIST, methods compared",
        table2,
        FASHION_SETS,
        seeds=SEEDS,
    ),
    Experiment(
        "duq-table3",
        4,
        "Table 3",
        "CIFAR-10 against SVHN, methods compared",
        table3,
        CIFAR_SETS,
        scales=("paper",),
        seeds=SEEDS,
    ),
)
