"""Scale inputs by growing factors (theorem 1 of *Know your limits*) → a `Scaling` record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.inputs import all_inputs, as_float64, named_features
from nescio.core.input_gradients import check_finite, draws_and_classes, quantity_gradients
from nescio.errors import NescioError
from nescio.methods import Method, as_method
from nescio.metrics.ranking import accepted_count
from nescio.progress import Bar, bar
from nescio.records import Course, Direction, Gauge, Scaling, Stopwatch
from nescio.scores import OF_LOGITS, Score, ScoreSpec, natural, natural_name, score_specs

THEOREM_SCORES = ("max_prob", "variance", "entropy", "mutual_information")
FACTORS = tuple(10.0 ** (step / 4) for step in range(25))  # 1 to a million
ACCEPTED = 0.95  # fraction of the unscaled inputs that each score's threshold accepts
CERTAIN = 0.999
NOTICED = 0.5  # fraction of moved inputs a score must flag at the largest factor
ROUNDING = 1e-9  # a score that only rounding lifts above its threshold is not flagged

Way = tuple[str, int | None]  # a feature's name and position; None along the ray
Measure = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # inputs, factors → values, norms


def scaling(
    model: nn.Module,
    x: Any,
    *,
    features: Sequence[int | str] | None = None,
    names: Sequence[str] | None = None,
    alphas: Sequence[float] | None = None,
    rays: bool = True,
    scores: Sequence[str | Score] | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Scaling:
    """Scale known inputs, and record confidence, scores and the norms of their gradients in x.

    An input is moved along a feature by `α ⊙ x` with one factor `α_d` and all others 1, as in
    lemmas 4–9 of *Know your limits*, and along its ray by `α x`, both in raw units. One whose
    feature is 0 does not move and is not counted. Scores are on the scale of the paper
    (`nescio.scores.natural`), gradients those of autograd in float64. A score flags an input above
    its threshold: the smallest observed score that accepts 95 % of all unscaled inputs.

    Args:
        model: a method or a bare network, differentiable in its input.
        x: known inputs `(N, …)`, as `predict` takes them; labels are ignored.
        features: positions (of the flattened input) or names; by default all of a table, else none.
        names: a name for each feature, such as `known.features`.
        alphas: positive factors, ascending; by default 25 from 1 to a million.
        rays: whether to scale whole inputs, too.
        scores: names in `OF_LOGITS`, or functions of logits `(S, N, C)` giving `(N,)`; by default
            those of the theorem that the model's draws allow, and the one its paper pairs with it.
        batch_size, seed, progress: as in `predict`. A batch runs over inputs and factors alike.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> record = scaling(net, torch.tensor([[1.0, 0.5], [0.0, 3.0]]), alphas=[1, 10, 100])
    >>> [(way.name, way.moved, way.certain_from) for way in record.directions]
    [('feature 0', 1, 10.0), ('feature 1', 2, 100.0), ('ray', 2, 100.0)]
    """
    stopwatch = Stopwatch()
    method, inputs = as_method(model), all_inputs(model, x, batch_size, seed)
    factors = _check_factors(alphas, inputs)
    ways = _ways(inputs, features, names, rays)
    draws, classes = draws_and_classes(method, inputs[:1], seed=seed)
    functions = _score_functions(scores, draws, method.score)
    with bar(len(inputs) * (1 + len(ways) * len(factors)), "scaling", progress) as shown:
        measure = partial(_measure, method, functions, shown, batch_size, seed)
        gauges = _gauges(list(functions), measure(inputs, torch.ones_like(inputs[:1]))[0])
        directions = [_direction(way, inputs, factors, gauges, measure) for way in ways]
    moved = [name for name, _ in ways]
    settings = {"features": moved, "scores": list(functions), "batch_size": batch_size}
    return Scaling(
        method=method.name,
        inputs=len(inputs),
        classes=classes,
        draws=draws,
        factors=tuple(factors.tolist()),
        gauges=gauges,
        directions=tuple(directions),
        provenance=stopwatch.provenance(seed, settings),
    )


def _ways(inputs: Tensor, features: Any, names: Any, rays: bool) -> list[Way]:
    """Return how inputs are moved, along features and along their rays, or raise an error."""
    width = inputs[0].numel()
    default = range(width) if inputs.dim() == 2 else ()
    names, positions = named_features(features, names, width, default)
    ways: list[Way] = [(names[position], position) for position in positions]
    ways += [("ray", None)] if rays else []
    if not ways:
        raise NescioError("nothing to move: no features were given, and rays=False")
    return ways


def _score_functions(
    scores: Sequence[str | Score] | None, draws: int, paired: str
) -> dict[str, Score]:
    """Return the scores to record, by name, on their natural scale."""
    if scores is None:
        names = (*THEOREM_SCORES, paired)
        scores = [name for name in names if draws > 1 or not OF_LOGITS[name].needs_draws]
    specs = score_specs(scores, OF_LOGITS)
    if not specs:
        expected = "names such as 'entropy', or functions of logits"
        raise NescioError(f"scores={scores!r}; expected {expected}")
    return {str(spec): partial(_natural_score, spec) for spec in specs}


def _natural_score(spec: ScoreSpec, logits: Tensor) -> Tensor:
    return natural(spec.name, spec(logits))


def _check_factors(alphas: Any, inputs: Tensor) -> Tensor:
    """Return positive, ascending factors in float64 that keep inputs finite, or raise an error."""
    values = FACTORS if alphas is None else alphas
    factors = as_float64("alphas", values, "a sequence of positive factors, ascending")
    if factors.dim() != 1 or not len(factors):
        shape = tuple(factors.shape)
        raise NescioError(f"alphas of shape {shape}; expected (A,) with A ≥ 1 factors")
    if not (factors.isfinite().all() and factors[0] > 0 and (factors.diff() > 0).all()):
        expected = "finite factors above 0, each larger than the one before"
        raise NescioError(f"alphas={factors.tolist()}; expected {expected}")
    largest = inputs.abs().max()
    if not (largest * factors[-1]).isfinite():
        raise NescioError(f"the factor {factors[-1]:g} makes inputs of up to {largest:g} infinite")
    return factors


def _measure(
    method: Method,
    scores: Mapping[str, Score],
    shown: Bar,
    batch_size: int,
    seed: int,
    x: Tensor,
    alpha: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return confidence and scores `(1 + K, A, M)` of inputs × factors, and norms of gradients."""

    def quantities(logits: Tensor) -> Tensor:
        values = {"confidence": method.confidence(logits)}
        values |= {name: score(logits) for name, score in scores.items()}
        return torch.stack(list(values.values()))

    scaled = _scaled(x, alpha, batch_size, shown)
    how: Any = {"batch_size": batch_size, "seed": seed, "progress": False}
    gradients = quantity_gradients(method, scaled, quantities, norms=True, **how)
    check_finite(["confidence", *scores], *gradients)
    values, norms = (rows.reshape(-1, len(alpha), len(x)).cpu() for rows in gradients)
    return values, norms


def _scaled(x: Tensor, alpha: Tensor, batch_size: int, shown: Bar) -> Iterator[Tensor]:
    """Yield batches of every factor times every input, the inputs running faster."""
    for rows in torch.split(torch.arange(len(alpha) * len(x)), batch_size):
        yield alpha[rows // len(x)].to(x.device) * x[rows % len(x)]
        shown.advance(len(rows))


def _gauges(scores: Sequence[str], values: Tensor) -> tuple[Gauge, ...]:
    """Return the thresholds, from confidence and scores `(1 + K, 1, N)` of unscaled inputs."""
    place = accepted_count(values.shape[2], ACCEPTED)
    thresholds = values[1:, 0].kthvalue(place).values.tolist()
    return tuple(map(Gauge, scores, map(natural_name, scores), thresholds))


def _direction(
    way: Way, inputs: Tensor, factors: Tensor, gauges: tuple[Gauge, ...], measure: Measure
) -> Direction:
    (name, position), flat = way, inputs.flatten(1)
    moves = flat.any(1) if position is None else flat[:, position] != 0
    if not moves.any():
        return Direction(name, position, 0, None, None, None, None)
    alpha = torch.ones(len(factors), flat.shape[1], dtype=torch.float64)
    alpha[:, slice(None) if position is None else [position]] = factors[:, None]
    alpha = alpha.reshape(-1, *inputs.shape[1:])
    (confidence, *values), (_, *norms) = measure(inputs[moves], alpha)
    medians = confidence.median(1).values  # of an even number of inputs the lower one
    # the smallest factor from which the median input stays certain
    run = int((medians > CERTAIN).int().flip(0).cumprod(0).sum())
    return Direction(
        name=name,
        feature=position,
        moved=int(moves.sum()),
        certain_from=float(factors[-run]) if run else None,
        confidence=tuple(confidence.mean(1).tolist()),
        median_confidence=tuple(medians.tolist()),
        scores=tuple(map(_course, gauges, values, norms)),
    )


def _course(gauge: Gauge, values: Tensor, norms: Tensor) -> Course:
    """Summarise one score and its gradient's norms `(A, M)` over the inputs that move."""
    flagged = (values > gauge.threshold + ROUNDING * abs(gauge.threshold)).double().mean(1).tolist()
    return Course(
        score=gauge.score,
        mean=tuple(values.mean(1).tolist()),
        gradient_mean=tuple(norms.mean(1).tolist()),
        gradient_largest=tuple(norms.amax(1).tolist()),
        flagged=tuple(flagged),
        notices=flagged[-1] >= NOTICED,
    )
