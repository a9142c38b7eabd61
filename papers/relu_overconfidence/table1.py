"""Table 1: confidence in unknown images, in noise, and in what attacks make of both."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

import nescio
from nescio.data import Known
from nescio.evaluation import unknown_set
from nescio.methods import Method
from nescio.records import Evaluation, UnknownSide
from nescio.report import confidence_figure
from nescio.store import Source
from papers.experiment import Experiment, Outcome
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import (
    PAPER,
    SHOWN,
    TrainingPlan,
    deviations,
    letters,
    networks,
    plan_of,
    training_of,
    with_spaces,
)
from papers.reproduction import Claim, Comparison, Deviation
from papers.workspace import Workspace

# the sets that the networks of both tables are trained on
IN_PAPER = {"mnist": "MNIST", "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
ADVERSARIAL = ("adversarial_noise", "adversarial_samples")
# what we take "high" and "low confidence" to mean, the latter above guessing, and "high AUROC"
HIGH, LOW, APART = 0.5, 0.1, 0.95
MEASURES = {"mmc": "MMC", "auroc": "AUROC", "fpr95": "FPR95"}
Evaluations = dict[str, list[Evaluation]]  # by kind


def table1(work: Workspace, data: Sequence[str] | None = None) -> Outcome:
    """Each network on known and unknown sets, on noise, and on what attacks make of both."""
    return for_each_data(work, data, table1_of)


def table1_of(work: Workspace, plan: TrainingPlan) -> Outcome:
    """The part of the table with networks trained on one data set."""
    known, models = work.known(Source(plan.data)), networks(work, plan)
    attacked = work.count(work.pick(500, 10_000))
    unknown = [*_sets(work, plan).values(), "noise", *ADVERSARIAL]
    runs: Evaluations = {}
    for (kind, seed), model in models.items():
        judge = partial(evaluated, work, plan, known, model, attacked, seed)
        how = {"seed": seed, "training": training_of(plan, kind)}
        name, sets = f"{plan.data}-{kind}-{seed}", {"attacked": attacked, "unknown": unknown}
        runs.setdefault(kind, []).append(work.stage(name, Evaluation, judge, **how, **sets))
    # of adversarial samples there may be none, if a model resists
    every = [one for group in runs.values() for one in group]
    sides = (side.name for side in runs["plain"][0].unknown)
    shared = [name for name in sides if all(_side(one, name) for one in every)]
    shown = {SHOWN[kind]: group for kind, group in runs.items()}
    work.picture(f"{plan.data}-confidence.svg", confidence_figure(shown, shared))
    return Outcome(
        tuple(_numbers(plan, runs)),
        tuple(claims_of(plan, runs)),
        (*deviations(plan, known, work), *_deviations(work, plan, known, attacked)),
        tuple(_remarks(plan, runs, work)),
    )


def evaluated(
    work: Workspace,
    plan: TrainingPlan,
    known: Known,
    model: Callable[[], Method],
    attacked: int,
    seed: int,
) -> Evaluation:
    """Evaluate a network on all sets of the table."""
    sets: dict[str, object] = {
        name: work.few(unknown_set(which, known, work.root, seed))
        for name, which in _sets(work, plan).items()
    }
    # by the paper's attack; `relu-attacks` has the strongest
    sets |= {"noise": "noise", **{name: f"{name}_paper" for name in ADVERSARIAL}}
    how: dict[str, Any] = {"scores": ["max_prob"], "attacked": attacked, "seed": seed}
    return nescio.evaluate(model(), known.test, sets, **how)


def _sets(work: Workspace, plan: TrainingPlan) -> dict[str, str]:
    """The data set that each name stands for, which for letters hangs on what is available."""
    return {name: letters(work.root) if name == "letters" else name for name in plan.unknown}


def _numbers(plan: TrainingPlan, runs: Evaluations) -> list[Comparison]:
    errors, confidences = [], []
    for kind, group in runs.items():
        who, at = f"{plan.data}, {SHOWN[kind]}", (plan.data, kind)
        error = [1 - one.known.accuracy for one in group]
        errors.append(over_seeds(f"{who}: test error", error, PAPER.at("test_error", *at), "%"))
        mmc, paper = [one.known.mmc for one in group], _published(plan, plan.data, kind, "mmc")
        confidences.append(over_seeds(f"{who}: MMC on {plan.data}", mmc, paper))
    compared = [*errors, *confidences]
    for name, kind, measure in product([*plan.unknown, "noise", *ADVERSARIAL], runs, MEASURES):
        measured = [_measured(one, name, measure) for one in runs[kind]]
        if values := [value for value in measured if value is not None]:
            what = f"{plan.data}, {SHOWN[kind]}: {MEASURES[measure]} on {name.replace('_', ' ')}"
            paper = _published(plan, name, kind, measure)
            compared.append(over_seeds(what, values, paper))
    return compared


def claims_of(plan: TrainingPlan, runs: Evaluations) -> list[Claim]:
    """Return what the paper says of the networks on one data set, held against ours."""

    def claim(key: str, holds: bool, seen: str) -> Claim:
        return PAPER.claim(key, holds, seen, data=plan.data)

    error = {SHOWN[kind]: fmean(1 - one.known.accuracy for one in runs[kind]) for kind in runs}
    noise, fooled = (_means(runs, name, "mmc") for name in ("noise", "adversarial_noise"))
    aurocs = _means(runs, "adversarial_noise", "auroc")
    samples = _means(runs, "adversarial_samples", "mmc")
    low = 1 / runs["plain"][0].classes + LOW
    resist = [name for name in fooled if fooled[name] < low and aurocs[name] > APART]
    equal = max(error.values()) - min(error.values()) < 0.005
    plain = f"plain: MMC {noise['plain']:.3f} (wanted: above {HIGH})"
    fails = fooled["plain"] > 0.95 and aurocs["plain"] < 0.5
    both = f"plain: MMC {fooled['plain']:.3f}, AUROC {aurocs['plain']:.3f}"
    ceda = f"CEDA: MMC {fooled['CEDA']:.3f} (wanted: above {HIGH})"
    wanted = f"(wanted: below {low:.1f} and above {APART} of ACET, and of no other)"
    all_three = f"MMC: {in_words(fooled, '{:.3f}')}; AUROC: {in_words(aurocs, '{:.3f}')} {wanted}"
    claims = [
        claim("equal_errors", equal, f"test error: {in_words(error, '{:.2%}')}"),
        claim("plain_on_noise", noise["plain"] > HIGH, plain),
        claim("plain_fails", fails, both),
        claim("ceda_on_noise", noise["CEDA"] < low, f"MMC: {in_words(noise, '{:.3f}')}"),
        claim("ceda_fails", fooled["CEDA"] > HIGH, ceda),
        claim("only_acet", resist == ["ACET"], all_three),
    ]
    # the paper's own sets
    if sets := [name for name in plan.unknown if _published(plan, name, "plain", "auroc")]:
        pairs = [(_means(runs, name, "auroc"), _means(runs, name, "mmc")) for name in sets]
        better = sum(
            area[kind] >= area["plain"] and sure[kind] <= sure["plain"]
            for area, sure in pairs
            for kind in ("CEDA", "ACET")
        )
        seen = f"{better} of {2 * len(pairs)} times, on {', '.join(sets)}"
        claims.append(claim("improve", better > len(pairs), seen))
    if {"plain", "ACET"} <= set(samples):
        seen = f"MMC: {in_words(samples, '{:.3f}')}"
        claims.append(claim("samples", samples["ACET"] < samples["plain"], seen))
    return claims


def _deviations(
    work: Workspace, plan: TrainingPlan, known: Known, attacked: int
) -> tuple[Deviation, ...]:
    svhn = "svhn" in plan.unknown and not work.dry
    count = len(unknown_set("svhn", known, work.root)) if svhn else 0
    keys = {
        "attacks": work.quick,
        "letters": "letters" in plan.unknown and letters(work.root) != "emnist_letters",
        "svhn": svhn,
        "missing": plan.missing,
        "evaluation": True,
    }
    values = {"attacked": attacked, "steps": 200, "count": with_spaces(count)}
    return PAPER.deviates(*(key for key, applies in keys.items() if applies), **values)


def _remarks(plan: TrainingPlan, runs: Evaluations, work: Workspace) -> list[str]:
    remark = partial(PAPER.remark, data=plan.data)
    words = []
    for kind, group in runs.items():
        error = fmean(100 * (1 - one.known.accuracy) for one in group)
        paper = PAPER.at("test_error", plan.data, kind)
        if paper is not None and error > paper.value:
            values = {"error": error, "paper": paper.value, "epochs": plan.epochs}
            words.append(remark("error", kind=SHOWN[kind], **values))
    resist = [
        SHOWN[kind] for kind in runs if not all(_side(one, ADVERSARIAL[1]) for one in runs[kind])
    ]
    if resist:
        words.append(remark("no_samples", names=", ".join(resist)))
    if "letters" in plan.unknown:
        words.append(remark("other_sets"))
    words += [*contradictions(plan), remark("papers_attack")]
    return [*words, remark("one_seed")] if work.seeds == 1 else words


def contradictions(plan: TrainingPlan) -> list[str]:
    """Return where the paper's own numbers are not what it says of all data."""
    plain = _published(plan, "noise", "plain", "mmc")
    ceda, auroc = (
        _published(plan, "adversarial_noise", "ceda", measure) for measure in ("mmc", "auroc")
    )
    words = []
    if plain is not None and plain <= HIGH:
        words.append(PAPER.remark("noise_contradicts", data=plan.data, plain=plain))
    if ceda is not None and ceda <= HIGH:
        words.append(PAPER.remark("ceda_contradicts", data=plan.data, ceda=ceda, auroc=auroc))
    return words


def for_each_data(
    work: Workspace,
    data: Sequence[str] | None,
    part: Callable[[Workspace, TrainingPlan], Outcome],
) -> Outcome:
    """Return the parts of a table, one for each data set, as one."""
    chosen = work.pick(("mnist",), ("mnist", "cifar10")) if data is None else data
    why = "no training images of SVHN and CIFAR-100 are at hand"
    if "cifar10" not in chosen:
        why += "; CIFAR-10 is left to the paper scale, to fit within an hour on two cores"
    names = ", ".join(IN_PAPER.get(name, name) for name in chosen)
    trained_on = Outcome(deviations=PAPER.deviates("trained_on", chosen=names, why=why))
    parts = [trained_on, *(part(work, plan_of(work, name)) for name in chosen)]
    fields = ("compared", "claims", "deviations", "remarks")
    return Outcome(*(tuple(one for part in parts for one in getattr(part, key)) for key in fields))


def _published(plan: TrainingPlan, name: str, kind: str, measure: str) -> float | None:
    published = PAPER.at("table1", plan.data, name, kind, measure)
    return None if published is None else published.value


def _measured(record: Evaluation, name: str, measure: str) -> float | None:
    side = _side(record, name)
    if side is None:
        return None
    value = side.mmc if measure == "mmc" else getattr(side.separation[0], measure)
    return None if value is None else float(value)


def _means(runs: Mapping[str, Sequence[Evaluation]], name: str, measure: str) -> dict[str, float]:
    """The mean of a measure on a set for each kind that has it, by the name to show."""
    means = {}
    for kind, group in runs.items():
        measured = [_measured(one, name, measure) for one in group]
        values = [value for value in measured if value is not None]
        if len(values) == len(group):
            means[SHOWN[kind]] = fmean(values)
    return means


def _side(record: Evaluation, name: str) -> UnknownSide | None:
    return next((side for side in record.unknown if side.name == name), None)


_TITLE = "Confidence in unknown images, noise and attacks: plain, CEDA and ACET"
_NEEDS = ("mnist", "fashion_mnist", "nist_letters", "cifar10", "omniglot", "notmnist")
EXPERIMENTS = (Experiment("relu-table1", 2, "Table 1", _TITLE, table1, _NEEDS, (*_NEEDS, "svhn")),)
