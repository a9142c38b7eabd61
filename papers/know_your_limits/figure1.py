"""Figure 1 of *Know your limits*: entropy maps of five models, far beyond the data they learned."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch

from nescio.audit import overconfidence
from nescio.data import Known
from nescio.evaluation.maps import uncertainty_map
from nescio.records import Audit, Map, Surface
from nescio.report.maps import map_figure
from nescio.store.run import Source
from papers.experiment import Experiment, Found, Work
from papers.know_your_limits.models import (
    ENSEMBLES,
    FIVE,
    SINGLE,
    models,
    title,
    training_of,
    unlike,
)
from papers.over_seeds import above, in_words, over_seeds
from papers.reproduction import Claim

SURE = 0.99  # the confidence that we call certain in a map


def figure1(work: Work) -> Found:
    """Maps of entropy, how certain each model is on their rim, and in how many directions it is for ever."""
    made = models(work, lambda seed: Source("three_blobs", seed=seed))
    directions = work.count(360, 8)
    fine = work.count(
        work.pick(60, 120), 12
    )  # of the first seed, which is drawn; of the others only the rim counts
    maps: dict[str, list[Map]] = {}
    ends: dict[str, list[Audit]] = {}

    def mapped(method: str, seed: int, resolution: int) -> Map:
        model, known = made(method, seed)
        return _thinned(
            uncertainty_map(model, known, ["entropy"], resolution=resolution, seed=seed)
        )

    def ended(method: str, seed: int) -> Audit:
        model, known = made(method, seed)
        middle, half = _middle(known)
        circle = middle + 2 * half * _circle(directions)
        return overconfidence(model, circle, trials=directions, rays=0, seed=seed)

    for method in FIVE:
        for seed in range(work.seeds):
            how, resolution = (
                {"seed": seed, "training": training_of(work, method)},
                fine if seed == 0 else fine // 2,
            )
            look = partial(mapped, method, seed, resolution)
            maps.setdefault(method, []).append(
                work.stage(f"map-{method}-{seed}", Map, look, **how, resolution=resolution)
            )
            end = partial(ended, method, seed)
            ends.setdefault(method, []).append(
                work.stage(f"far-{method}-{seed}", Audit, end, **how, directions=directions)
            )
    work.picture(
        "entropy.svg",
        map_figure(
            [maps[method][0] for method in FIVE], ["entropy"], titles=list(map(title, FIVE))
        ),
    )
    work.picture(
        "saturation.svg",
        map_figure(
            [maps[method][0] for method in FIVE],
            ["entropy"],
            saturation=True,
            titles=list(map(title, FIVE)),
        ),
    )
    return _figure1_found(work, maps, ends)


def _figure1_found(
    work: Work, maps: Mapping[str, list[Map]], ends: Mapping[str, list[Audit]]
) -> Found:
    rims = {name: [rim(one) for one in found] for name, found in maps.items()}
    doubts = {name: [rim_entropy(one) for one in found] for name, found in maps.items()}
    certain = {name: [one.ends_certain or 0.0 for one in found] for name, found in ends.items()}
    share = {title(name): fmean(values) for name, values in rims.items()}
    one = fmean(rims["softmax"])
    compared = [
        *(
            over_seeds(
                f"{title(name)}: rim of the map with a confidence above {SURE:.0%}".replace(
                    "%", " %"
                ),
                values,
                unit="%",
            )
            for name, values in rims.items()
        ),
        *(
            over_seeds(
                f"{title(name)}: mean entropy on the rim, of the largest there is", values, unit="%"
            )
            for name, values in doubts.items()
        ),
        *(
            over_seeds(f"{title(name)}: directions proved to end at confidence 1", values, unit="%")
            for name, values in certain.items()
        ),
    ]
    claims = (
        Claim(
            "Single discriminators display large open-ended decision regions with low entropy, even where training "
            "data is not present.",
            all(fmean(rims[name]) > 0.5 for name in SINGLE),
            f"rim certain: {in_words({title(n): fmean(rims[n]) for n in SINGLE}, '{:.0%}')}",
        ),
        Claim(
            "Open-ended, as we read it: that goes on to infinity.",
            all(fmean(certain[name]) > 0.5 for name in SINGLE),
            "directions proved to end at confidence 1: "
            f"{in_words({title(n): fmean(certain[n]) for n in SINGLE}, '{:.0%}')}",
        ),
        Claim(
            "This effect is only partially mitigated by ensemble models.",
            all(0.5 < fmean(rims[name]) < one for name in ENSEMBLES),
            f"rim certain: {in_words(share, '{:.0%}')}",
        ),
    )
    return Found(
        tuple(compared),
        claims,
        unlike(
            work,
            f"three Gaussian clusters, {work.pick(1000, 500)} points",
            "not told: three or more classes; in its code two moons, 500 points",
            "the figure shows more than two classes",
        ),
        _figure1_remarks(rims, certain),
    )


def _figure1_remarks(
    rims: Mapping[str, list[float]], certain: Mapping[str, list[float]]
) -> tuple[str, ...]:
    """What a mean over draws does at infinity, which the paper's figure cannot show."""
    words = ["The paper gives the figure without numbers; the shares are ours."]
    if above(
        [-value for value in rims["mc_dropout"]],
        [-value for name in ENSEMBLES for value in rims[name]],
    ):
        words.append(
            "MC dropout, one network, is less certain on the rim than both ensembles: its draws differ more "
            "than networks that were trained apart."
        )
    split = [title(name) for name in FIVE if fmean(certain[name]) < 0.5]
    if split:
        words.append(
            f"Of {', '.join(split)} most directions do not end at confidence 1: each draw ends certain, but "
            "not all "
            "of the same class. A mean over such draws stays below 1, and constant, for ever."
        )
    return tuple(words)


def rim(record: Map) -> float:
    """The share of the map's rim, as far out as it goes, where the model's confidence exceeds 99 %."""
    return float((_edge(record.confidence) > SURE).mean())


def rim_entropy(record: Map) -> float:
    """The mean entropy on the rim, as a share of the entropy of knowing nothing."""
    (surface,) = record.scores
    return float(_edge(surface).mean()) / math.log(len(record.classes))


def _edge(surface: Surface) -> Any:
    values = np.array(surface.values)
    return np.concatenate([values[0], values[-1], values[1:-1, 0], values[1:-1, -1]])


def _thinned(record: Map) -> Map:
    """Three digits of each slope, of which an eye sees the order, and fewer points: a smaller file."""

    def short(surface: Surface) -> Surface:
        return replace(
            surface, values=_digits(surface.values, 4), slopes=_digits(surface.slopes, 3)
        )

    points = replace(
        record.points, **{name: getattr(record.points, name)[::2] for name in ("x", "y", "labels")}
    )
    return replace(
        record,
        scores=tuple(map(short, record.scores)),
        confidence=short(record.confidence),
        points=points,
    )


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


EXPERIMENTS = (
    Experiment(
        "limits-figure1",
        1,
        "Figure 1",
        "Predictive entropy of five models, far beyond their data",
        figure1,
    ),
)
