"""Theorem 1 of *Know your limits*, measured: one feature scaled, and what five models and four metrics notice."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from nescio.audit import monotone, scaling
from nescio.audit.scaling import CERTAIN, THEOREM_SCORES
from nescio.methods import METHODS
from nescio.records import Monotonicity, Scaling
from nescio.store.run import Source
from papers.experiment import Experiment, Found, Work
from papers.know_your_limits.models import FIVE, models, title, training_of, unlike
from papers.know_your_limits.scaling_figure import limits_figure
from papers.over_seeds import in_words, over_seeds
from papers.reproduction import Claim

VANISHED = 1e-12  # what is left of a gradient that has gone to 0, in float64


def theorem(work: Work) -> Found:
    """One feature scaled up to a million times, on data of which its premise is true."""
    made = models(work, lambda seed: Source("two_gaussians", seed=seed))
    rows, points = work.count(work.pick(200, 500), 8), work.count(512, 8)
    found: dict[str, list[Scaling]] = {}
    seen: dict[str, list[Monotonicity]] = {}

    def scaled(method: str, seed: int) -> Scaling:
        model, known = made(method, seed)
        x, _ = known.test.take(slice(0, rows))
        return scaling(
            model,
            x,
            features=["x"],
            names=known.features,
            rays=False,
            scores=_scores(method),
            seed=seed,
        )

    def looked(method: str, seed: int) -> Monotonicity:
        model, _ = made(method, seed)
        low, high = [1.0, -2.0], [math.inf, 2.0]
        return monotone(model, low, high, features=[0], points=points, seed=seed)

    for method in FIVE:
        for seed in range(work.seeds):
            how = {"seed": seed, "training": training_of(work, method)}
            found.setdefault(method, []).append(
                work.stage(
                    f"scaling-{method}-{seed}",
                    Scaling,
                    partial(scaled, method, seed),
                    **how,
                    rows=rows,
                )
            )
            seen.setdefault(method, []).append(
                work.stage(
                    f"monotone-{method}-{seed}", Monotonicity, partial(looked, method, seed), **how
                )
            )
    work.picture(
        "theorem.svg", limits_figure({title(name): runs[0] for name, runs in found.items()})
    )
    return _theorem_found(work, found, seen)


def _scores(method: str) -> list[str]:
    """The four metrics of the theorem, of which a model without draws has two."""
    return list(THEOREM_SCORES if METHODS[method].sampled else ("max_prob", "entropy"))


def _theorem_found(
    work: Work, found: Mapping[str, list[Scaling]], seen: Mapping[str, list[Monotonicity]]
) -> Found:
    confidence = {name: [_of(one).confidence[-1] for one in runs] for name, runs in found.items()}
    before = {name: [_of(one).confidence[0] for one in runs] for name, runs in found.items()}
    slopes = {
        name: [max(c.gradient_largest[-1] for c in _of(one).scores) for one in runs]
        for name, runs in found.items()
    }
    first = {
        name: [max(c.gradient_largest[0] for c in _of(one).scores) for one in runs]
        for name, runs in found.items()
    }
    scores = {
        name: [max(c.mean[-1] for c in _of(one).scores) for one in runs]
        for name, runs in found.items()
    }
    factor = next(iter(found.values()))[0].factors[-1]
    rising = sum(bool(one.monotone) for runs in seen.values() for one in runs)
    every = sum(map(len, seen.values()))
    compared = [
        *(
            over_seeds(f"{title(name)}: mean confidence as they are", before[name], unit="%")
            for name in found
        ),
        *(
            over_seeds(
                f"{title(name)}: mean confidence at ×{factor:,.0f} (in the limit: 100 %)",
                confidence[name],
                unit="%",
            )
            for name in found
        ),
        *(
            over_seeds(
                f"{title(name)}: largest gradient of a metric at ×{factor:,.0f} (in the limit: 0)",
                slopes[name],
            )
            for name in found
        ),
    ]
    claims = (
        Claim(
            "The gradient of every metric vanishes as one feature is scaled (lemmas 4 to 9).",
            all(
                after <= VANISHED * max(1.0, now)
                for name in found
                for after, now in zip(slopes[name], first[name], strict=True)
            ),
            "largest gradient over inputs, metrics and seeds: "
            f"{in_words({title(n): max(v) for n, v in slopes.items()}, '{:.2g}')}",
        ),
        Claim(
            "The same networks will reach perfect certainty as data points are scaled far away (theorem 1).",
            all(min(values) > CERTAIN for values in confidence.values()),
            "mean confidence, least of the seeds: "
            f"{in_words({title(n): min(v) for n, v in confidence.items()}, '{:.4%}')}",
        ),
        Claim(
            "All four metrics then say certain.",
            all(max(values) < 1 - CERTAIN for values in scores.values()),
            f"largest mean of a metric: {in_words({title(n): max(v) for n, v in scores.items()}, '{:.2g}')}",
        ),
        Claim(
            "A network that learned a monotone relation is itself monotone in the feature (assumption 1).",
            rising == every,
            f"{rising} of {every} models were seen to be strictly monotone for x ≥ 1",
        ),
    )
    return Found(
        tuple(compared),
        claims,
        unlike(
            work,
            "two overlapping Gaussians, of which p(y|x) is monotone in x",
            "none: the theorem is proved, not measured",
            "something to look at it by",
        ),
        _theorem_remarks(confidence, rising, every),
    )


def _theorem_remarks(
    confidence: Mapping[str, list[float]], rising: int, every: int
) -> tuple[str, ...]:
    short = [title(name) for name, values in confidence.items() if min(values) <= CERTAIN]
    words = []
    if short:
        words.append(
            f"{', '.join(short)}: not all draws end certain, or not of the same class, since a draw need not "
            "be monotone. The metrics come to rest above 0, and notice nothing beyond."
        )
    if rising < every:
        words.append(
            "Assumption 1 is about what networks learn, and they learn it only up to an error: where the "
            "data are sparse some bend, or die. What happens far away is looked at all the same."
        )
    return tuple(words)


def _of(record: Scaling) -> Any:
    (direction,) = record.directions
    return direction


EXPERIMENTS = (
    Experiment(
        "limits-theorem",
        1,
        "Theorem 1",
        "One feature scaled: confidence goes to 1, and every gradient to 0",
        theorem,
    ),
)
