"""Figure 1: entropy maps of five models, far beyond the data they learned."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch

import nescio
from nescio.audit import overconfidence
from nescio.data import Known
from nescio.records import Audit, Map, Surface
from nescio.report import map_figure
from papers.experiment import Experiment, Outcome
from papers.know_your_limits.models import (
    ENSEMBLES,
    FIVE,
    PAPER,
    SINGLE,
    Models,
    deviations,
    each,
    models,
    rows,
    title,
)
from papers.over_seeds import above, in_words
from papers.workspace import Workspace

CERTAIN = 0.99  # the confidence that we call certain in a map
Values = Mapping[str, list[float]]  # of each model and seed


def figure1(work: Workspace) -> Outcome:
    """Maps of entropy, how certain each model is on their rim, and in how many directions."""
    made, directions = models(work, "three_blobs"), work.count(360, 8)
    # of the first seed, which is drawn; of the others only the rim counts
    fine = work.count(work.pick(60, 120), 12)
    maps: dict[str, list[Map]] = {method: [] for method in FIVE}
    ends: dict[str, list[Audit]] = {method: [] for method in FIVE}
    for method, seed, how in each(work):
        resolution = fine if seed == 0 else fine // 2
        draw = partial(_map, made, method, seed, resolution)
        name = f"map-{method}-{seed}"
        maps[method].append(work.stage(name, Map, draw, **how, resolution=resolution))
        audit = partial(_audit, made, method, seed, directions)
        name = f"far-{method}-{seed}"
        ends[method].append(work.stage(name, Audit, audit, **how, directions=directions))
    drawn, titles = [maps[method][0] for method in FIVE], list(map(title, FIVE))
    work.picture("entropy.svg", map_figure(drawn, ["entropy"], titles=titles))
    saturated = map_figure(drawn, ["entropy"], saturation=True, titles=titles)
    work.picture("saturation.svg", saturated)
    return _outcome(work, maps, ends)


def _map(made: Models, method: str, seed: int, resolution: int) -> Map:
    model, known = made(method, seed)
    record = nescio.uncertainty_map(model, known, ["entropy"], resolution=resolution, seed=seed)
    return _shortened(record)


def _audit(made: Models, method: str, seed: int, directions: int) -> Audit:
    model, known = made(method, seed)
    middle, half = _middle(known)
    circle = middle + 2 * half * _circle(directions)
    return overconfidence(model, circle, trials=directions, rays=0, seed=seed)


def _outcome(
    work: Workspace, maps: Mapping[str, list[Map]], ends: Mapping[str, list[Audit]]
) -> Outcome:
    rims = {name: list(map(rim, runs)) for name, runs in maps.items()}
    doubts = {name: list(map(rim_entropy, runs)) for name, runs in maps.items()}
    certain = {name: [one.ends_certain or 0.0 for one in runs] for name, runs in ends.items()}
    compared = [
        *rows(rims, "rim of the map with a confidence above 99 %", "%"),
        *rows(doubts, "mean entropy on the rim, of the largest there is", "%"),
        *rows(certain, "directions in which confidence provably tends to 1", "%"),
    ]

    def seen(values: Values, names: tuple[str, ...] = SINGLE) -> str:
        return in_words({title(name): fmean(values[name]) for name in names}, "{:.0%}")

    between = all(0.5 < fmean(rims[name]) < fmean(rims["softmax"]) for name in ENSEMBLES)
    rim_certain, proved = "rim certain: ", "directions in which confidence provably tends to 1: "
    open_ended, infinite = (
        all(fmean(values[name]) > 0.5 for name in SINGLE) for values in (rims, certain)
    )
    claims = (
        PAPER.claim("open", open_ended, rim_certain + seen(rims)),
        PAPER.claim("infinite", infinite, proved + seen(certain)),
        PAPER.claim("mitigated", between, rim_certain + seen(rims, FIVE)),
    )
    remarks = _remarks(rims, certain)
    return Outcome(tuple(compared), claims, deviations(work, "figure1"), remarks)


def _remarks(rims: Values, certain: Values) -> tuple[str, ...]:
    """What a mean over draws does at infinity, which the paper's figure cannot show."""
    words = [PAPER.remark("no_numbers")]
    others = [-value for name in ENSEMBLES for value in rims[name]]
    if above([-value for value in rims["mc_dropout"]], others):
        words.append(PAPER.remark("draws_differ"))
    if split := [title(name) for name in FIVE if fmean(certain[name]) < 0.5]:
        words.append(PAPER.remark("split", names=", ".join(split)))
    return tuple(words)


def rim(record: Map) -> float:
    """Return the fraction of the map's rim where the model's confidence exceeds 99 %."""
    return float((_edge(record.confidence) > CERTAIN).mean())


def rim_entropy(record: Map) -> float:
    """Return the mean entropy on the rim, as a fraction of the largest there is."""
    (surface,) = record.scores
    return float(_edge(surface).mean()) / math.log(len(record.classes))


def _edge(surface: Surface) -> Any:
    values = np.array(surface.values)
    return np.concatenate([values[0], values[-1], values[1:-1, 0], values[1:-1, -1]])


def _shortened(record: Map) -> Map:
    """Three digits of each slope, and fewer points: a smaller file."""

    def short(surface: Surface) -> Surface:
        values, slopes = _digits(surface.values, 4), _digits(surface.slopes, 3)
        return replace(surface, values=values, slopes=slopes)

    dots = record.points
    points = replace(dots, x=dots.x[::2], y=dots.y[::2], labels=dots.labels[::2])
    scores, confidence = tuple(map(short, record.scores)), short(record.confidence)
    return replace(record, scores=scores, confidence=confidence, points=points)


def _digits(rows: tuple[tuple[float, ...], ...], digits: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.{digits}g}") for value in row) for row in rows)


def _middle(known: Known) -> tuple[torch.Tensor, float]:
    assert known.train is not None  # noqa: S101 - as embedded sets have
    x, _ = known.train.take(slice(None))
    low, high = x.double().amin(0), x.double().amax(0)
    return (low + high) / 2, float((high - low).max()) / 2


def _circle(count: int) -> torch.Tensor:
    angles = torch.linspace(0, 2 * torch.pi, count + 1, dtype=torch.float64)[:-1]
    return torch.stack([angles.cos(), angles.sin()], 1)


_TITLE = "Predictive entropy of five models, far beyond their data"
EXPERIMENTS = (Experiment("limits-figure1", 1, "Figure 1", _TITLE, figure1),)
