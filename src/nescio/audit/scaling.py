"""Theorem 1 of *Know your limits*, measured: inputs scaled by growing factors, and which score notices → `Scaling`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from nescio.arrays import is_array
from nescio.audit.features import feature_names, positions
from nescio.audit.inputs import all_inputs
from nescio.core.input_gradients import check_finite, draws_and_classes, gradient_norms
from nescio.data.arrays import tensor
from nescio.errors import NescioError
from nescio.methods import Method, as_method
from nescio.metrics.ranking import accepted_count
from nescio.progress import Bar, bar
from nescio.records import Course, Direction, Gauge, Provenance, Scaling
from nescio.scores import OF_LOGITS, Score, ScoreSpec, natural, natural_name, score_specs

FOUR = ("max_prob", "variance", "entropy", "mutual_information")  # those of the theorem
FACTORS = tuple(10.0 ** (step / 4) for step in range(25))  # 1 to a million
ACCEPTED = 0.95  # share of the inputs, as they are, that each score's threshold accepts
CERTAIN = 0.999
NOTICED = 0.5  # share of moved inputs a score must flag at the largest factor
ROUNDING = 1e-9  # a score that only rounding lifts above its threshold is not flagged


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
    """Move inputs ever farther out, and record confidence, scores and the norms of the scores' gradients in x.

    An input is moved along a feature by `α ⊙ x` with one factor `α_d` and all others 1, as in lemmas 4–9 of *Know
    your limits*, and along its ray by `α x`, both in raw units. One whose feature is 0 stays where it is and is not
    counted. Scores are on the scale of the paper (`nescio.scores.natural`), gradients those of autograd in float64.

    A score flags an input that lies above its threshold: the smallest observed score that accepts 95 % of all inputs
    as they are.

    Args:
        model: a method or a bare network, differentiable in its input.
        x: inputs `(N, …)` that the model knows, as `predict` takes them; labels are passed over.
        features: positions (in the flattened input) or names; by default all of a table, none of images.
        names: a name for each feature, such as `known.features`.
        alphas: positive factors, ascending; by default 25 from 1 to a million.
        rays: whether to move whole inputs, too.
        scores: names in `OF_LOGITS`, or functions of logits `(S, N, C)` giving `(N,)`; by default those of the theorem
            that the model's draws allow, and the one its paper pairs with it.
        batch_size, seed, progress: as in `predict`. A batch runs over inputs and factors alike.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> found = scaling(net, torch.tensor([[1.0, 0.5], [0.0, 3.0]]), alphas=[1, 10, 100])
    >>> [(one.name, one.moved, one.certain_from) for one in found.directions]
    [('feature 0', 1, 10.0), ('feature 1', 2, 100.0), ('ray', 2, 100.0)]
    """
    started = time.monotonic()
    method, inputs = as_method(model), all_inputs(model, x, batch_size, seed)
    factors = _factors(alphas, inputs)
    known_as = feature_names(names, inputs[0].numel())
    chosen = positions(features, known_as, range(len(known_as)) if inputs.dim() == 2 else ())
    if not chosen and not rays:
        raise NescioError("nothing to move: no features were given, and rays=False")
    draws, classes = draws_and_classes(method, inputs[:1], seed=seed)
    used = _used(scores, draws, method.score)
    along = [(known_as[position], position) for position in chosen] + [("ray", None)] * bool(rays)
    total = len(inputs) * (1 + len(along) * len(factors))
    with bar(total, "scaling", progress) as shown:
        look = partial(_look, method, used, shown, batch_size, seed)
        gauges = _gauges(list(used), look(inputs, torch.ones_like(inputs[:1]))[0])
        directions = [
            _direction(name, position, inputs, factors, gauges, look) for name, position in along
        ]
    settings = {
        "features": [name for name, _ in along],
        "scores": list(used),
        "batch_size": batch_size,
    }
    return Scaling(
        method=method.name,
        inputs=len(inputs),
        classes=classes,
        draws=draws,
        factors=tuple(factors.tolist()),
        gauges=gauges,
        directions=tuple(directions),
        provenance=Provenance.now(seed, settings, time.monotonic() - started),
    )


def _used(scores: Sequence[str | Score] | None, draws: int, paired: str) -> dict[str, Score]:
    """The scores to record, by name and on their natural scale; a function of logits goes by its own name."""
    if scores is None:
        scores = [name for name in (*FOUR, paired) if draws > 1 or not OF_LOGITS[name].needs_draws]
    specs = score_specs(scores, OF_LOGITS)
    if not specs:
        raise NescioError(
            f"scores={scores!r}; expected names such as 'entropy', or functions of logits"
        )
    return {str(spec): partial(_natural, spec) for spec in specs}


def _natural(spec: ScoreSpec, logits: Tensor) -> Tensor:
    return natural(spec.name, spec(logits))


def _factors(alphas: Any, inputs: Tensor) -> Tensor:
    """The factors in float64, or an error if they do not rise from above 0, or take the inputs beyond all numbers."""
    try:
        given = FACTORS if alphas is None else tensor(alphas) if is_array(alphas) else alphas
        factors = torch.as_tensor(given, dtype=torch.float64).detach().cpu()
    except NescioError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise NescioError(
            f"alphas={alphas!r}; expected a sequence of positive factors, ascending"
        ) from error
    if factors.dim() != 1 or not len(factors):
        raise NescioError(
            f"alphas of shape {tuple(factors.shape)}; expected (A,) with A ≥ 1 factors"
        )
    if not (
        factors.isfinite().all()
        and factors[0] > 0
        and all(a < b for a, b in pairwise(factors.tolist()))
    ):
        raise NescioError(
            f"alphas={factors.tolist()}; expected finite factors above 0, each larger than the one before"
        )
    if not (inputs.abs().max() * factors[-1]).isfinite():
        raise NescioError(
            f"the factor {factors[-1]:g} takes inputs of up to {inputs.abs().max():g} beyond all numbers"
        )
    return factors


Look = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _look(
    method: Method,
    scores: Mapping[str, Score],
    shown: Bar,
    batch_size: int,
    seed: int,
    x: Tensor,
    alpha: Tensor,
) -> tuple[Tensor, Tensor]:
    """Confidence and scores `(1 + K, A, M)` of `(M, …)` inputs times `(A, …)` factors, and the gradients' norms."""

    def quantities(logits: Tensor) -> Tensor:
        found = {"confidence": method.confidence(logits)} | {
            name: score(logits) for name, score in scores.items()
        }
        for name, values in found.items():
            if not isinstance(values, Tensor) or values.shape != logits.shape[1:2]:
                what = (
                    f"shape {tuple(values.shape)}"
                    if isinstance(values, Tensor)
                    else f"a {type(values).__name__}"
                )
                raise NescioError(
                    f"{name} gave {what} for logits {tuple(logits.shape)}; expected one number for each "
                    f"of {logits.shape[1]} inputs"
                )
        return torch.stack(list(found.values()))

    scaled = _scaled(x, alpha, batch_size, shown)
    found = gradient_norms(
        method, scaled, quantities, batch_size=batch_size, seed=seed, progress=False
    )
    check_finite(["confidence", *scores], *found)
    values, norms = (rows.reshape(-1, len(alpha), len(x)).cpu() for rows in found)
    return values, norms


def _scaled(x: Tensor, alpha: Tensor, batch_size: int, shown: Bar) -> Iterator[Tensor]:
    """Batches of every factor times every input, the inputs running faster; they never stand in memory together."""
    every = torch.arange(len(alpha) * len(x))
    for start in range(0, len(every), batch_size):
        rows = every[start : start + batch_size]
        yield alpha[rows // len(x)].to(x.device) * x[rows % len(x)]
        shown.advance(len(rows))


def _gauges(scores: Sequence[str], values: Tensor) -> tuple[Gauge, ...]:
    """The thresholds, from confidence and scores `(1 + K, 1, N)` of the inputs as they are."""
    place = accepted_count(values.shape[2], ACCEPTED)
    thresholds = values[1:, 0].kthvalue(place).values.tolist()
    return tuple(
        Gauge(name, natural_name(name), cut) for name, cut in zip(scores, thresholds, strict=True)
    )


def _direction(
    name: str,
    position: int | None,
    inputs: Tensor,
    factors: Tensor,
    gauges: tuple[Gauge, ...],
    look: Look,
) -> Direction:
    flat = inputs.flatten(1)
    moves = flat.any(1) if position is None else flat[:, position] != 0
    if not moves.any():
        return Direction(name, position, 0, None, None, None, None)
    alpha = torch.ones(len(factors), flat.shape[1], dtype=torch.float64)
    alpha[:, slice(None) if position is None else slice(position, position + 1)] = factors[:, None]
    (confidence, *values), (_, *norms) = look(inputs[moves], alpha.reshape(-1, *inputs.shape[1:]))
    medians = confidence.median(1).values  # of an even number of inputs the lower one
    return Direction(
        name=name,
        feature=position,
        moved=int(moves.sum()),
        certain_from=_certain_from(factors, medians),
        confidence=tuple(confidence.mean(1).tolist()),
        median_confidence=tuple(medians.tolist()),
        scores=tuple(_course(*one) for one in zip(gauges, values, norms, strict=True)),
    )


def _certain_from(factors: Tensor, medians: Tensor) -> float | None:
    """The smallest factor from which on the median input stays certain."""
    run = int((medians > CERTAIN).int().flip(0).cumprod(0).sum())
    return float(factors[-run]) if run else None


def _course(gauge: Gauge, values: Tensor, norms: Tensor) -> Course:
    """One score `(A, M)` and the norms of its gradient, over the inputs that move."""
    flagged = (values > gauge.threshold + ROUNDING * abs(gauge.threshold)).double().mean(1).tolist()
    return Course(
        score=gauge.score,
        mean=tuple(values.mean(1).tolist()),
        gradient_mean=tuple(norms.mean(1).tolist()),
        gradient_largest=tuple(norms.amax(1).tolist()),
        flagged=tuple(flagged),
        notices=flagged[-1] >= NOTICED,
    )
