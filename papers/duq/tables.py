"""Tables 1 to 3: FashionMNIST against MNIST, and CIFAR-10 against SVHN."""

from collections.abc import Sequence
from functools import partial
from inspect import signature
from statistics import fmean

from nescio.data import Known
from nescio.detectors import Mahalanobis
from nescio.methods import Method
from nescio.records import Evaluation
from nescio.store import training_part
from papers.duq.compared import (
    CIFAR_PENALTY,
    CIFAR_SETS,
    CIFAR_SIZES,
    DUQ,
    ENSEMBLE,
    FASHION_PENALTY,
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
    DUQ_EPOCHS,
    FASHION,
    Evaluations,
    auroc,
    duq_run,
    evaluate_members,
    evaluate_runs,
    small_run,
    training_time,
)
from papers.experiment import Outcome
from papers.over_seeds import above, all_of, over_seeds
from papers.reproduction import Comparison
from papers.workspace import Workspace

SINGLE, MAHALANOBIS = "single model", "Mahalanobis (ll)"
LL_RATIO = "LL ratio (generative model)"
PENALTIES = tuple(map(float, PAPER.published["table1"]))
QUICK_PENALTIES = (0.0, 0.05, 0.5)
# of accuracies, the sum of the paper's spreads: what we take "competitive" to allow
TOLERANCE = 0.003
Sweep = dict[float, list[float]]  # by weight, of each run


def table1(work: Workspace) -> Outcome:
    """Accuracy and AUROC as the penalty grows."""
    weights, quick = work.pick(QUICK_PENALTIES, PENALTIES), work.quick
    run_of = small_run if quick else partial(duq_run, work, FASHION)
    trained = {_weight(weight): (run_of(weight), work.seeds) for weight in weights}
    rows = dict(zip(weights, evaluate_runs(work, FASHION, trained).values(), strict=True))
    compared: list[Comparison] = []
    for weight, runs in rows.items():
        compared += penalty_rows(_weight(weight) + ", on 6000 images" * quick, runs, weight)
    if quick:
        whole = {"λ = 0, on all images": (duq_run(work, FASHION, 0.0), work.seeds)}
        for name, group in evaluate_runs(work, FASHION, whole).items():
            compared += penalty_rows(name, group, 0.0)
        trained |= whole
    accuracy = {weight: [one.known.accuracy for one in runs] for weight, runs in rows.items()}
    letters, digits = (
        {weight: [auroc(one, name) for one in runs] for weight, runs in rows.items()}
        for name in ("notmnist", "mnist")
    )
    falls = f"{_course(accuracy, 100, ' %')} (wanted: less at the largest λ than at 0)"
    both = f"NotMNIST: {_course(letters)}; MNIST: {_course(digits)}"
    gains = ", ".join(
        f"{fmean(values[0.0]):.3f} to {fmean(values[FASHION_PENALTY]):.3f} on {name}"
        for name, values in (("NotMNIST", letters), ("MNIST", digits))
    )
    helps = all_of(above(values[FASHION_PENALTY], values[0.0]) for values in (letters, digits))
    claims = (
        PAPER.claim("accuracy_falls", above(accuracy[0.0], accuracy[max(rows)]), falls),
        PAPER.claim("same_best", _same_best(letters, digits), both),
        PAPER.claim("penalty_helps", helps, f"from λ = 0 to {FASHION_PENALTY}: {gains}"),
    )
    listed = ", ".join(f"{weight:g}" for weight in QUICK_PENALTIES)
    lambdas = PAPER.deviates("lambdas", weights=listed, seeds=work.seeds) if quick else ()
    short = (PAPER.remark("sweep"),) if quick else ()
    return Outcome(
        tuple(compared),
        claims,
        (*lambdas, *fashion_deviations(work, chosen=False, ensemble=False)),
        (*short, *shortfalls(work, compared), training_time(work, trained)),
    )


def table2(work: Workspace) -> Outcome:
    """DUQ beside other methods."""
    trained = fashion_runs(work)
    single = partial(evaluate_members, work, FASHION, trained[ENSEMBLE][0])
    runs: Evaluations = {
        **evaluate_runs(work, FASHION, trained),
        SINGLE: single(MEMBERS),
        MAHALANOBIS: single(work.pick(1, MEMBERS), "-mahalanobis", _mahalanobis),
    }
    aurocs = {name: [auroc(one, "mnist") for one in group] for name, group in runs.items()}
    means = {name: fmean(values) for name, values in aurocs.items()}
    accuracy = {name: fmean(one.known.accuracy for one in group) for name, group in runs.items()}
    what = "AUROC, FashionMNIST against MNIST"
    table = [
        over_seeds(f"{_ours(name)}: {what}", values, PAPER.at("table2", name))
        for name, values in aurocs.items()
    ]
    table += accuracies(runs, "fashion_accuracy")
    energy = fmean(auroc(one, "mnist", "energy") for one in runs[DUQ])
    entropy = fmean(auroc(one, "mnist", "entropy") for one in runs[SINGLE])
    ahead = all_of(above(aurocs[DUQ], values) for name, values in aurocs.items() if name != DUQ)
    beside = ", ".join(f"{_ours(name)}: {value:.3f}" for name, value in means.items())
    near = (
        f"{accuracy[DUQ]:.1%} against {accuracy[SINGLE]:.1%} of the single model (wanted: at most "
        f"{100 * TOLERANCE:.1f} points less, the sum of the paper's spreads)"
    )
    claims = (
        PAPER.claim("outperforms", ahead, beside),
        PAPER.claim("competitive", accuracy[DUQ] > accuracy[SINGLE] - TOLERANCE, near),
    )
    remarks = [PAPER.remark("ll_ratio_2", paper=PAPER.published["table2"][LL_RATIO][0])]
    if means[MAHALANOBIS] > means[DUQ]:
        remarks.append(PAPER.remark("mahalanobis", mean=means[MAHALANOBIS]))
    remarks.append(PAPER.remark("energy", energy=energy))
    if work.quick and not claims[1].holds:
        remarks.append(PAPER.remark("competitive", epochs=DUQ_EPOCHS))
    remarks += [*unequal(work), *shortfalls(work, table), training_time(work, trained)]
    floor = signature(Mahalanobis).parameters["floor"].default
    own = PAPER.deviates("single", entropy=entropy, floor=floor)
    deviations = (*fashion_deviations(work), *own)
    return Outcome(tuple(table), claims, deviations, tuple(remarks))


def table3(work: Workspace) -> Outcome:
    """CIFAR-10 against SVHN; smaller ensembles are disjoint parts of the largest one."""
    strong, none, pair = "DUQ, λ = 0.5", "DUQ, λ = 0", cifar_pair(work)
    trained = {
        strong: (duq_run(work, pair, CIFAR_PENALTY), work.seeds),
        none: (duq_run(work, pair, 0.0), work.seeds),
    }
    whole, sizes = cifar_whole(work), CIFAR_SIZES[work.scale]
    runs: Evaluations = {
        **evaluate_runs(work, pair, trained),
        SINGLE: evaluate_members(work, pair, whole, work.seeds),
        **{f"deep ensemble of {size}": cifar_ensembles(work, size) for size in sizes},
    }
    aurocs = {name: [auroc(one, "svhn") for one in group] for name, group in runs.items()}
    table = [
        over_seeds(f"{name}: AUROC, CIFAR-10 against SVHN", values, PAPER.at("table3", name))
        for name, values in aurocs.items()
    ]
    table += accuracies(runs, "cifar_accuracy")
    means = {name: fmean(values) for name, values in aurocs.items()}
    gain = f"{means[none]:.3f} and {means[strong]:.3f} (wanted: more than 0.03)"
    each = ", ".join(f"{name}: {value:.3f}" for name, value in means.items())
    deep = max(means, key=means.__getitem__).startswith("deep")
    claims = (
        PAPER.claim("big_improvement", means[strong] > means[none] + 0.03, gain),
        PAPER.claim("ensemble_best", deep, each),
    )
    remarks = (
        PAPER.remark("ll_ratio_3", paper=PAPER.published["table3"][LL_RATIO][0]),
        *shortfalls(work, table),
        training_time(work, trained | {"the ensemble": (whole, 1)}),
    )
    return Outcome(tuple(table), claims, cifar_deviations(work), remarks)


def _mahalanobis(model: Method, known: Known) -> Mahalanobis:
    detector = Mahalanobis(model)
    detector.fit(training_part(known))
    return detector


def penalty_rows(name: str, runs: Sequence[Evaluation], weight: float) -> list[Comparison]:
    """Return accuracy and both AUROCs of a row of table 1."""
    at = partial(PAPER.at, "table1", f"{weight:g}")
    rows = [
        over_seeds(f"{name}: accuracy", [one.known.accuracy for one in runs], at("accuracy"), "%")
    ]
    for unknown, title in (("notmnist", "NotMNIST"), ("mnist", "MNIST")):
        values = [auroc(one, unknown) for one in runs]
        rows.append(over_seeds(f"{name}: AUROC against {title}", values, at(unknown)))
    return rows


def _ours(name: str) -> str:
    return name.removesuffix(" (ll)")


def _weight(weight: float) -> str:
    return f"λ = {weight:g}"


def _course(values: Sweep, times: float = 1.0, unit: str = "") -> str:
    means = {weight: times * fmean(runs) for weight, runs in values.items()}
    digits = 1 if unit else 3
    return ", ".join(
        f"{_weight(weight)}: {mean:.{digits}f}{unit}" for weight, mean in means.items()
    )


def _same_best(letters: Sweep, digits: Sweep) -> bool | None:
    """Whether one weight is the best for both; not clear where several may be."""
    first, second = (_may_be_best(values) for values in (letters, digits))
    return False if not first & second else True if first == second and len(first) == 1 else None


def _may_be_best(values: Sweep) -> set[float]:
    """The weights that the best one is not clearly above."""
    best = max(values.values(), key=fmean)
    return {weight for weight, runs in values.items() if runs is best or not above(best, runs)}


_TITLES = (
    "FashionMNIST against MNIST, methods compared",
    "CIFAR-10 against SVHN, methods compared",
)
_PENALTY = "The weight of the gradient penalty on FashionMNIST"
EXPERIMENTS = (
    experiment("Table 1", _PENALTY, table1, FASHION_SETS),
    experiment("Table 2", _TITLES[0], table2, FASHION_SETS),
    experiment("Table 3", _TITLES[1], table3, CIFAR_SETS, scales=LARGER),
)
