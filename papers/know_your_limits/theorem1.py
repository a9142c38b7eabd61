"""Theorem 1, measured: one feature scaled, and what five models and four metrics notice."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from nescio.audit import monotone, scaling
from nescio.methods import METHODS
from nescio.records import Monotonicity, Scaling
from papers.experiment import Experiment, Outcome
from papers.know_your_limits.models import (
    FIVE,
    PAPER,
    Models,
    deviations,
    each,
    models,
    rows,
    title,
)
from papers.know_your_limits.scaling_figure import limits_figure
from papers.over_seeds import in_words
from papers.workspace import Workspace

METRICS = ("max_prob", "variance", "entropy", "mutual_information")  # of the theorem
CERTAIN = 0.999  # mean confidence that we take for 1
VANISHED = 1e-12  # what is left of a gradient that has gone to 0, in float64


def theorem(work: Workspace) -> Outcome:
    """One feature scaled up to a million times, on data of which its premise is true."""
    made = models(work, "two_gaussians")
    inputs, points = work.count(work.pick(200, 500), 8), work.count(512, 8)
    scaled: dict[str, list[Scaling]] = {method: [] for method in FIVE}
    shapes: dict[str, list[Monotonicity]] = {method: [] for method in FIVE}
    for method, seed, how in each(work):
        scale = partial(_scaled, made, method, seed, inputs)
        name = f"scaling-{method}-{seed}"
        scaled[method].append(work.stage(name, Scaling, scale, **how, rows=inputs))
        look = partial(_monotone, made, method, seed, points)
        shapes[method].append(work.stage(f"monotone-{method}-{seed}", Monotonicity, look, **how))
    drawn = {title(name): runs[0] for name, runs in scaled.items()}
    work.picture("theorem.svg", limits_figure(drawn))
    return _outcome(work, scaled, shapes)


def _scaled(made: Models, method: str, seed: int, inputs: int) -> Scaling:
    model, known = made(method, seed)
    x, _ = known.test.take(slice(0, inputs))
    # the four metrics of the theorem, of which a model without draws has two
    scores = list(METRICS if METHODS[method].sampled else ("max_prob", "entropy"))
    which: dict[str, Any] = {"features": ["x"], "names": known.features, "rays": False}
    return scaling(model, x, **which, scores=scores, seed=seed)


def _monotone(made: Models, method: str, seed: int, points: int) -> Monotonicity:
    low, high = [1.0, -2.0], [math.inf, 2.0]
    return monotone(made(method, seed)[0], low, high, features=[0], points=points, seed=seed)


def _outcome(
    work: Workspace,
    scaled: Mapping[str, list[Scaling]],
    shapes: Mapping[str, list[Monotonicity]],
) -> Outcome:
    def of(value: Any) -> dict[str, list[float]]:
        return {name: [value(one.directions[0]) for one in runs] for name, runs in scaled.items()}

    def seen(largest: Any, values: Mapping[str, list[float]], form: str) -> str:
        return in_words({title(name): largest(runs) for name, runs in values.items()}, form)

    before, confidence = of(lambda one: one.confidence[0]), of(lambda one: one.confidence[-1])
    slopes = of(lambda one: max(course.gradient_largest[-1] for course in one.scores))
    first = of(lambda one: max(course.gradient_largest[0] for course in one.scores))
    scores = of(lambda one: max(course.mean[-1] for course in one.scores))
    far = f"×{next(iter(scaled.values()))[0].factors[-1]:,.0f}"
    rising = sum(bool(one.monotone) for runs in shapes.values() for one in runs)
    every = sum(map(len, shapes.values()))
    compared = [
        *rows(before, "mean confidence as they are", "%"),
        *rows(confidence, f"mean confidence at {far} (in the limit: 100 %)", "%"),
        *rows(slopes, f"largest gradient of a metric at {far} (in the limit: 0)"),
    ]
    vanish = all(
        after <= VANISHED * max(1.0, now)
        for name in scaled
        for after, now in zip(slopes[name], first[name], strict=True)
    )
    certain = all(min(values) > CERTAIN for values in confidence.values())
    silent = all(max(values) < 1 - CERTAIN for values in scores.values())
    gradients = "largest gradient over inputs, metrics and seeds: "
    least = "mean confidence, least of the seeds: "
    monotone_models = f"{rising} of {every} models were seen to be strictly monotone for x ≥ 1"
    claims = (
        PAPER.claim("vanishes", vanish, gradients + seen(max, slopes, "{:.2g}")),
        PAPER.claim("certain", certain, least + seen(min, confidence, "{:.4%}")),
        PAPER.claim("silent", silent, f"largest mean of a metric: {seen(max, scores, '{:.2g}')}"),
        PAPER.claim("monotone", rising == every, monotone_models),
    )
    remarks = []
    if short := [title(name) for name, values in confidence.items() if min(values) <= CERTAIN]:
        remarks.append(PAPER.remark("uncertain", names=", ".join(short)))
    if rising < every:
        remarks.append(PAPER.remark("not_monotone"))
    return Outcome(tuple(compared), claims, deviations(work, "theorem1"), tuple(remarks))


_TITLE = "One feature scaled: confidence goes to 1, and every gradient to 0"
EXPERIMENTS = (Experiment("limits-theorem", 1, "Theorem 1", _TITLE, theorem),)
