"""ACET under the paper's attack and under the strongest: how it is trained, and what is found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import product
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

import nescio
from nescio.data import Known
from nescio.methods import Method
from nescio.records import Evaluation, History
from nescio.report import confidence_figure, describe_attack, side_of
from nescio.store import Source
from papers.experiment import Experiment, Outcome
from papers.over_seeds import over_seeds
from papers.relu_overconfidence.networks import (
    KINDS,
    PAPER,
    SHOWN,
    Networks,
    TrainingPlan,
    deviations,
    history_name,
    networks,
    plan_of,
    training_of,
)
from papers.relu_overconfidence.table1 import APART, LOW
from papers.reproduction import Claim, Comparison
from papers.workspace import Workspace

HELD = "held"  # ACET whose search starts from known images, too
NAMES = {**SHOWN, HELD: "ACET, known starts"}
# long steps, since there are few; the starts are on the edge of the ball, or near it
KNOWN_STARTS = {"steps": 5, "first_steps": 2, "step_size": 0.1, "known_starts": 3}
QUICK_EPOCHS = {"mnist": 3}  # where they are not those of the other networks
SETS = {  # what they are called here
    "noise": "noise",
    "adversarial_noise_paper": "the paper's attack",
    "adversarial_noise": "the strongest attack",
}
TRAINING_IMAGES = 10_000  # among which the nearest is sought
NEAREST = "nearest training image"  # in the settings of a record: mean distances to it
NORMS = {"linf": float("inf"), "l2": 2.0}
Evaluations = dict[str, list[Evaluation]]  # by kind


def attacked(work: Workspace, data: str = "mnist", kinds: Sequence[str] = ("acet",)) -> Outcome:
    """ACET, trained as for table 1 and with known starts, under both attacks."""
    plan = plan_of(work, data)
    known = work.known(Source(plan.data))
    models = networks(work, plan, kinds) | _held_networks(work, plan)
    count = work.count(work.pick(500, 10_000), 4)
    runs: Evaluations = {}
    strongest = asdict(nescio.attacks.ATTACKS["adversarial_noise"].strengthened())
    for (kind, seed), model in models.items():
        judge = partial(_evaluated, model, known, count, seed)
        how = {"seed": seed, "training": _training_of(work, plan, kind), "attacked": count}
        how |= {"strongest": strongest}
        name = f"{plan.data}-{kind}-{seed}"
        runs.setdefault(kind, []).append(work.stage(name, Evaluation, judge, **how))
    shown = {NAMES[kind]: group for kind, group in runs.items()}
    work.picture("confidence.svg", confidence_figure(shown, list(SETS)))
    rows = [row for kind, group in runs.items() for row in _numbers(plan, kind, group)]
    differ = deviations(plan, known, work)
    if count < 10_000:
        differ += PAPER.deviates("noise_attacks", attacked=min(count, len(known.test)))
    return Outcome(
        tuple(rows), (_claim(plan, runs),), tuple(differ), tuple(_remarks(work, plan, runs))
    )


def _training_of(work: Workspace, plan: TrainingPlan, kind: str) -> dict[str, Any]:
    if kind != HELD:
        return training_of(plan, kind)
    epochs = work.pick(QUICK_EPOCHS, {}).get(plan.data, plan.epochs)
    return training_of(plan, "acet") | {"own": dict(KNOWN_STARTS), "epochs": epochs}


def _held_networks(work: Workspace, plan: TrainingPlan) -> Networks:
    held: Networks = {}
    how = _training_of(work, plan, HELD)
    for seed in range(work.seeds):
        which = (f"relu-{plan.data}-{HELD}-{work.scale}-{seed}", Source(plan.data), "acet")
        train = cache(partial(work.trained, *which, seed=seed, checkpoint_every=100, **how))
        history = partial(lambda train: train()[1], train)
        work.stage(history_name(plan, HELD, seed), History, history, **how)
        held[HELD, seed] = partial(lambda train: train()[0], train)
    return held


def _evaluated(model: Callable[[], Method], known: Known, count: int, seed: int) -> Evaluation:
    assert known.train is not None  # noqa: S101 - as embedded sets have
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(known.train), generator=generator)[:TRAINING_IMAGES]
    train = known.train.take(some)[0]
    seen: dict[str, list[Tensor]] = {}

    def watch(name: str, x: Tensor, *_: Any) -> None:
        seen.setdefault(name, []).append(x)

    how: dict[str, Any] = {"scores": ["max_prob"], "attacked": count, "seed": seed}
    record = nescio.evaluate(model(), known.test, list(SETS), watch=watch, **how)
    near = {name: nearest(torch.cat(parts)[:count], train) for name, parts in seen.items()}
    origin = record.provenance
    settings = {**origin.settings, NEAREST: near}
    return replace(record, provenance=replace(origin, settings=settings))


def nearest(images: Tensor, train: Tensor) -> dict[str, float]:
    """Return the mean distance of images to the nearest training one, in each norm."""
    return {
        norm: float(
            torch.cat(
                [
                    torch.cdist(part, train.flatten(1), p).amin(1)
                    for part in torch.split(images.flatten(1), 64)
                ]
            ).mean()
        )
        for norm, p in NORMS.items()
    }


def _numbers(plan: TrainingPlan, kind: str, group: Sequence[Evaluation]) -> list[Comparison]:
    who = f"{plan.data}, {NAMES[kind]}"
    error = [1 - one.known.accuracy for one in group]
    published = PAPER.at("test_error", plan.data, kind)
    rows = [over_seeds(f"{who}: test error", error, published, "%")]
    for (name, words), measure in product(SETS.items(), ("MMC", "AUROC")):
        values = [_measured(one, name, measure) for one in group]
        row = "noise" if name == "noise" else "adversarial_noise"
        paper = PAPER.at("table1", plan.data, row, kind, measure.lower())
        rows.append(over_seeds(f"{who}: {measure}, {words}", values, paper))
    shown = {"known": "test images", **SETS}
    for (norm, sign), (name, words) in product({"linf": "L∞", "l2": "L2"}.items(), shown.items()):
        far = [one.provenance.settings[NEAREST][name][norm] for one in group]
        rows.append(over_seeds(f"{who}: {sign} distance to the {NEAREST}, {words}", far))
    return rows


def _claim(plan: TrainingPlan, runs: Evaluations) -> Claim:
    low = 1 / runs["acet"][0].classes + LOW
    found = {kind: _means(group) for kind, group in runs.items()}
    seen = "; ".join(
        f"{NAMES[kind]}, {words}: MMC {found[kind][name]['MMC']:.3f}, "
        f"AUROC {found[kind][name]['AUROC']:.3f}"
        for kind in runs
        for name, words in SETS.items()
        if name != "noise"
    )
    worst = found["acet"]["adversarial_noise"]
    holds = worst["MMC"] < low and worst["AUROC"] > APART
    return PAPER.claim("acet_holds", holds, seen, data=plan.data)


def _remarks(work: Workspace, plan: TrainingPlan, runs: Evaluations) -> list[str]:
    found = {kind: _means(group) for kind, group in runs.items()}
    acet, held = found["acet"], found[HELD]
    side = side_of(runs["acet"][0], "adversarial_noise")
    assert side.attack is not None  # noqa: S101 - the set is made by one
    worst = held["adversarial_noise"]["AUROC"]
    key = "known_starts_hold" if worst >= APART else "known_starts_fall_short"
    values = {
        "data": plan.data,
        "how": describe_attack(side.attack),
        "paper": acet["adversarial_noise_paper"]["AUROC"],
        "strongest": acet["adversarial_noise"]["AUROC"],
        "held": worst,
        "wanted": APART,
        **KNOWN_STARTS,
        "epochs": _training_of(work, plan, HELD)["epochs"],
    }
    keys = ["attack_strongest", "acet_flattered", key, "faint_digits"]
    return [PAPER.remark(key, **values) for key in keys]


def _means(group: Sequence[Evaluation]) -> Mapping[str, Mapping[str, float]]:
    return {
        name: {
            measure: fmean(_measured(one, name, measure) for one in group)
            for measure in ("MMC", "AUROC")
        }
        for name in SETS
    }


def _measured(record: Evaluation, name: str, measure: str) -> float:
    side = side_of(record, name)
    return side.mmc if measure == "MMC" else float(side.separation[0].auroc or 0.0)


_TITLE = "The paper's attack and the strongest on ACET, trained with and without known starts"
_ON_DIGITS = partial(attacked, data="digits", kinds=tuple(KINDS))
_SEEDS = {"quick": 3}
EXPERIMENTS = (
    Experiment("relu-attacks-digits", 2, "Table 1", f"{_TITLE}: digits", _ON_DIGITS, seeds=_SEEDS),
)
