"""Table 1: confidence in unknown images, in noise, and in what attacks make of both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from papers.experiment import Experiment, Outcome, joined
from papers.over_seeds import in_words, nearly_equal, over_seeds
from papers.relu_overconfidence.networks import (
    AUTHORS,
    IN_PAPER,
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

ADVERSARIAL = ("adversarial_noise", "adversarial_samples")
# what we take "high" and "low confidence" to mean, the latter above guessing, and "high AUROC"
HIGH, LOW, APART = 0.5, 0.1, 0.95
EQUAL = 0.005  # errors that differ by less are almost the same
MEASURES = {"mmc": "MMC", "auroc": "AUROC", "fpr95": "FPR95"}
Evaluations = dict[str, list[Evaluation]]  # by kind


def table1(work: Workspace, data: Sequence[str] | None = None) -> Outcome:
    """Each network on known and unknown sets, on noise, and on what attacks make of both."""
    return for_each_data(work, data, table1_of)


def table1_of_authors(work: Workspace, data: Sequence[str] = tuple(AUTHORS)) -> Outcome:
    """The same of the networks that the paper's authors trained."""
    return joined(table1_of(work, AUTHORS[name]) for name in data)


def table1_of(work: Workspace, plan: TrainingPlan) -> Outcome:
    """The part of the table with networks trained on one data set."""
    known, models = work.known(plan.source), networks(work, plan)
    attacked = work.count(work.pick(100 if plan.by_authors else 500, 10_000))
    unknown = [*_sets(work, plan).values(), *_made(plan)]
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
    sets |= {name: f"{name}_paper" if name in ADVERSARIAL else name for name in _made(plan)}
    how: dict[str, Any] = {"scores": ["max_prob"], "attacked": attacked, "seed": seed}
    record = nescio.evaluate(model(), known.test, sets, **how)
    if not plan.images:
        return record
    name = f"{plan.images} in place of {plan.data}, so that no label is right"
    return replace(record, known=replace(record.known, name=name))


def _sets(work: Workspace, plan: TrainingPlan) -> dict[str, str]:
    """The data set that each name stands for, which for letters hangs on what is available."""
    return {name: letters(work.root) if name == "letters" else name for name in plan.unknown}


def _made(plan: TrainingPlan) -> tuple[str, ...]:
    """What is made from the known data; samples only from those with labels."""
    return ("noise", ADVERSARIAL[0]) if plan.images else ("noise", *ADVERSARIAL)


def _numbers(plan: TrainingPlan, runs: Evaluations) -> list[Comparison]:
    errors, confidences = [], []
    for kind, group in ({} if plan.images else runs).items():
        who, at = f"{plan.data}, {SHOWN[kind]}", (plan.data, kind)
        error = [1 - one.known.accuracy for one in group]
        errors.append(over_seeds(f"{who}: test error", error, PAPER.at("test_error", *at), "%"))
        mmc, paper = [one.known.mmc for one in group], _published(plan, plan.data, kind, "mmc")
        confidences.append(over_seeds(f"{who}: MMC on {plan.data}", mmc, paper))
    compared = [*errors, *confidences]
    measures = ("mmc",) if plan.images else MEASURES  # the others need known data
    for name, kind, measure in product([*plan.unknown, *_made(plan)], runs, measures):
        measured = [_measured(one, name, measure) for one in runs[kind]]
        if values := [value for value in measured if value is not None]:
            what = f"{plan.data}, {SHOWN[kind]}: {MEASURES[measure]} on {name.replace('_', ' ')}"
            paper = _published(plan, name, kind, measure)
            compared.append(over_seeds(what, values, paper))
    return compared


def claims_of(plan: TrainingPlan, runs: Evaluations) -> list[Claim]:
    """Return what the paper says of the networks on one data set, held against ours."""

    def claim(key: str, holds: bool | None, seen: str) -> Claim:
        return PAPER.claim(key, holds, seen, data=plan.data)

    noise, fooled = (_means(runs, name, "mmc") for name in ("noise", "adversarial_noise"))
    low = 1 / runs["plain"][0].classes + LOW
    plain = f"plain: MMC {noise['plain']:.3f} (wanted: above {HIGH})"
    ceda = f"CEDA: MMC {fooled['CEDA']:.3f} (wanted: above {HIGH})"
    claims = [
        claim("plain_on_noise", noise["plain"] > HIGH, plain),
        claim("ceda_on_noise", noise["CEDA"] < low, f"MMC: {in_words(noise, '{:.3f}')}"),
        claim("ceda_fails", fooled["CEDA"] > HIGH, ceda),
    ]
    if plan.images:
        return claims
    error = {SHOWN[kind]: fmean(1 - one.known.accuracy for one in runs[kind]) for kind in runs}
    aurocs = _means(runs, "adversarial_noise", "auroc")
    samples = _means(runs, "adversarial_samples", "mmc")
    resist = [name for name in fooled if fooled[name] < low and aurocs[name] > APART]
    equal = nearly_equal(error, EQUAL, runs["plain"][0].known.inputs)
    fails = fooled["plain"] > 0.95 and aurocs["plain"] < 0.5
    both = f"plain: MMC {fooled['plain']:.3f}, AUROC {aurocs['plain']:.3f}"
    wanted = f"(wanted: below {low:.2g} and above {APART} of ACET, and of no other)"
    all_three = f"MMC: {in_words(fooled, '{:.3f}')}; AUROC: {in_words(aurocs, '{:.3f}')} {wanted}"
    claims = [
        claim("equal_errors", equal, f"test error: {in_words(error, '{:.2%}')}"),
        claims[0],
        claim("plain_fails", fails, both),
        *claims[1:],
        claim("only_acet", resist == ["ACET"], all_three),
    ]
    claims += _on_sets(plan, runs)
    if {"plain", "ACET"} <= set(samples):
        seen = f"MMC: {in_words(samples, '{:.3f}')}"
        claims.append(claim("samples", samples["ACET"] < samples["plain"], seen))
    return claims


def _on_sets(plan: TrainingPlan, runs: Evaluations) -> list[Claim]:
    """What the paper says of unknown images, counted on its own sets."""
    sets = [name for name in plan.unknown if _published(plan, name, "plain", "auroc")]
    if not sets:
        return []
    pairs = [(_means(runs, name, "auroc"), _means(runs, name, "mmc")) for name in sets]
    better = sum(
        area[kind] >= area["plain"] and sure[kind] <= sure["plain"]
        for area, sure in pairs
        for kind in ("CEDA", "ACET")
    )
    seen = f"{better} of {2 * len(pairs)} times, on {', '.join(sets)}"
    return [PAPER.claim("improve", better > len(pairs), seen, data=plan.data)]


def _deviations(
    work: Workspace, plan: TrainingPlan, known: Known, attacked: int
) -> tuple[Deviation, ...]:
    svhn = "svhn" in plan.unknown and not work.dry
    count = len(unknown_set("svhn", known, work.root)) if svhn else 0
    keys = {
        "attacks": work.quick and not plan.images,
        "attacks_on_noise": work.quick and bool(plan.images),
        "letters": "letters" in plan.unknown and letters(work.root) != "emnist_letters",
        "svhn": svhn,
        "missing": bool(plan.missing),
        "evaluation": True,
        "low_pass": plan.by_authors,
        "svhn_known": plan.by_authors and plan.data == "svhn",
        "stand_in": bool(plan.images),
    }
    values = {"attacked": attacked, "steps": 200, "count": with_spaces(count)}
    values |= {"missing": plan.missing, "known": with_spaces(len(known.test))}
    values |= {"data": IN_PAPER.get(plan.data, ""), "images": IN_PAPER.get(plan.images, "")}
    return PAPER.deviates(*(key for key, applies in keys.items() if applies), **values)


def _remarks(plan: TrainingPlan, runs: Evaluations, work: Workspace) -> list[str]:
    remark = partial(PAPER.remark, data=plan.data)
    words = []
    for kind, group in runs.items():
        error = fmean(100 * (1 - one.known.accuracy) for one in group)
        paper = None if plan.by_authors else PAPER.at("test_error", plan.data, kind)
        if paper is not None and error > paper.value:
            values = {"error": error, "paper": paper.value, "epochs": plan.epochs}
            words.append(remark("error", kind=SHOWN[kind], **values))
    resist = [
        SHOWN[kind] for kind in runs if not all(_side(one, ADVERSARIAL[1]) for one in runs[kind])
    ]
    if resist and not plan.images:
        words.append(remark("no_samples", names=", ".join(resist)))
    if others := [name for name in plan.unknown if not _published(plan, name, "plain", "mmc")]:
        words.append(remark("other_sets", names=", ".join(others)))
    errors = {kind: 1 - fmean(one.known.accuracy for one in group) for kind, group in runs.items()}
    if plan.images:
        words.append(remark("no_known_side"))
    elif nearly_equal(errors, EQUAL, inputs := runs["plain"][0].known.inputs) is None:
        words.append(remark("few_images", inputs=with_spaces(inputs)))
    words += [*contradictions(plan), remark("papers_attack")]
    last = "one_network" if plan.by_authors else "one_seed"
    return [*words, remark(last)] if work.seeds == 1 else words


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
    return joined([trained_on, *(part(work, plan_of(work, name)) for name in chosen)])


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
EXPERIMENTS = (
    Experiment("relu-table1", 2, "Table 1", _TITLE, table1, _NEEDS, (*_NEEDS, "svhn")),
    Experiment(
        *("relu-table1-authors", 2, "Table 1", f"{_TITLE}, the authors' own"),
        *(table1_of_authors, ("cifar10", "svhn")),
    ),
)
