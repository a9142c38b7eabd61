"""Figure 4: how confident each network is of adversarial samples."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import nescio
from nescio.data import Known
from nescio.methods import Method
from nescio.records import Evaluation
from nescio.report import attacked_figure
from nescio.store import Source
from papers.experiment import Experiment, Outcome
from papers.over_seeds import in_words, over_seeds
from papers.relu_overconfidence.networks import (
    PAPER,
    SHOWN,
    deviations,
    networks,
    plan_of,
    training_of,
)
from papers.reproduction import Comparison
from papers.workspace import Workspace

SAMPLES = "adversarial_samples"
LOW = 0.5  # confidence that counts as low


def figure4(work: Workspace, data: str = "mnist") -> Outcome:
    """How confident each network is of adversarial samples."""
    plan = plan_of(work, data)
    known, models = work.known(Source(plan.data)), networks(work, plan)
    attacked = work.count(work.pick(500, 10_000), 4)
    every: dict[str, list[Evaluation]] = {}
    for (kind, seed), model in models.items():
        judge, name = partial(_evaluated, model, known, attacked, seed), f"{data}-{kind}-{seed}"
        how = {"seed": seed, "training": training_of(plan, kind), "attacked": attacked}
        every.setdefault(kind, []).append(work.stage(name, Evaluation, judge, **how))
    # a network of which there are no samples was never led to a wrong class
    fooled = {kind: runs for kind, runs in every.items() if all(one.unknown for one in runs)}
    if fooled:
        shown = {SHOWN[kind]: runs for kind, runs in fooled.items()}
        work.picture("adversarial-samples.svg", attacked_figure(shown))
    low = {SHOWN[kind]: [below(one, LOW) for one in runs] for kind, runs in fooled.items()}
    compared: list[Comparison] = []
    for kind, runs in fooled.items():
        name, mmc = SHOWN[kind], [one.unknown[0].mmc for one in runs]
        paper = PAPER.at("table1", plan.data, SAMPLES, kind, "mmc")
        rate = [one.unknown[0].inputs / min(attacked, one.known.inputs) for one in runs]
        compared += [
            over_seeds(f"{name}: mean confidence in adversarial samples", mmc, paper),
            over_seeds(
                f"{name}: adversarial samples below a confidence of 50 %", low[name], unit="%"
            ),
            over_seeds(f"{name}: inputs that the attack brings to a wrong class", rate, unit="%"),
        ]
    means = {name: fmean(values) for name, values in low.items()}
    others = [value for name, value in means.items() if name != "ACET"]
    holds = means["ACET"] > 0.5 >= max(others, default=0.0) if "ACET" in means else None
    claim = PAPER.claim("low_samples", holds, f"below {LOW:.0%}: {in_words(means, '{:.1%}')}")
    differ = deviations(plan, known, work)
    if work.quick:
        differ += PAPER.deviates("attacks", attacked=attacked, steps=80)
    remarks, mean = [PAPER.remark("very_low")], PAPER.at("table1", data, SAMPLES, "acet", "mmc")
    if mean is not None and 1 - mean.value < LOW / 2:
        room = (1 - mean.value) / LOW
        remarks.append(PAPER.remark("no_room", mean=mean.value, room=room))
    if resist := [SHOWN[kind] for kind in every if kind not in fooled]:
        remarks.append(PAPER.remark("resisted", names=", ".join(resist)))
    return Outcome(tuple(compared), (claim,), tuple(differ), tuple(remarks))


def _evaluated(model: Callable[[], Method], known: Known, attacked: int, seed: int) -> Evaluation:
    how: dict[str, Any] = {"scores": ["max_prob"], "attacked": attacked, "seed": seed}
    return nescio.evaluate(model(), known.test, {SAMPLES: f"{SAMPLES}_paper"}, **how)


def below(record: Evaluation, confidence: float) -> float:
    """Return the fraction of adversarial samples below a confidence, to a bin of the histogram."""
    histogram = record.confidence
    assert histogram is not None  # noqa: S101 - every record made here has it
    counts: Mapping[str, Sequence[int]] = histogram.counts
    bins = zip(counts[SAMPLES], histogram.edges[1:], strict=True)
    low = sum(count for count, edge in bins if edge <= confidence + 1e-9)
    return low / max(1, sum(counts[SAMPLES]))


_TITLE = "Confidence in adversarial samples of MNIST"
EXPERIMENTS = (Experiment("relu-figure4", 2, "Figure 4", _TITLE, figure4, ("mnist",)),)
