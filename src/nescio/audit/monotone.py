"""Is a model strictly monotonic in each feature? A sampled test → a `Monotonicity` record."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.inputs import as_float64, finite_or_none, named_features
from nescio.core.input_gradients import draws_and_classes, quantity_gradients
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import Method, as_method
from nescio.progress import bar
from nescio.records import CounterExample, Monotonicity, Stopwatch
from nescio.seeds import check_seed, derived_seed

DECADES = 12  # of distances along an unbounded side, the largest being `reach`
ROUNDING = 2.0**-50  # slopes of two logits that differ by a smaller fraction may be the same
NOISE = 1e-13  # a slope of the other sign and this much smaller may be rounding in the network
MIN_LEAD = 1e-9  # between what goes up and what goes down, relatively, to know which is more
SMALLEST = 5e-324
BATCH_SLOPES = 2**22  # slopes of logits at a time


def monotone(
    model: nn.Module,
    low: Any,
    high: Any,
    *,
    features: Sequence[int] | None = None,
    points: int = 4096,
    reach: float = 1e6,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Monotonicity:
    """Search a box for points where a class's mean probability rises and falls along one feature.

    *Know your limits*, definitions 6 and 7: a model is component-wise strictly monotonic on a box
    if every `∂p̄_c/∂x_d` has one and the same sign, and is not 0, all over it; the box is partially
    unbounded if a side of it has no end. This is a **sampled test**: two points with slopes of
    opposite sign, or one with a slope of 0, prove that the model is not monotonic, but that none
    were found is no proof that it is. A point where rounding hides the sign is ignored.

    Args:
        model: a method or a bare network, differentiable in its input.
        low, high: the box, one number per feature or of the input's shape; `−inf` and `inf` where
            it has no bound. A feature with `low == high` is fixed.
        features: positions (in the flattened input) to test; by default all that are not fixed.
        points, reach: how many to draw: uniformly between two bounds, else at log-uniform distances
            of at most `reach` from the one there is, or from 0.
        batch_size, seed, progress: as in `predict`.

    >>> net = nn.Linear(1, 2)
    >>> _ = net.load_state_dict({"weight": torch.tensor([[0.0], [2.0]]), "bias": torch.zeros(2)})
    >>> record = monotone(net, [0], [torch.inf])
    >>> record.monotone, record.partially_unbounded, record.signs
    (True, True, ((-1, 1),))
    """
    stopwatch = Stopwatch()
    check_int("points", points, least=2)
    check_float("reach", reach, 1e-300, 1e300)
    low, high = _check_box(low, high)
    chosen = _check_features(features, low, high)
    method, drawn = as_method(model), _draw(low, high, points, reach, check_seed(seed))
    extremes, draws = _search(method, drawn, chosen, batch_size, seed, progress)
    signs = extremes.signs().tolist()
    good = tuple(position for position, row in zip(chosen, signs, strict=True) if 0 not in row)
    settings = {"points": points, "reach": reach, "batch_size": batch_size}
    return Monotonicity(
        method=method.name,
        classes=extremes.best.shape[2],
        draws=draws,
        low=finite_or_none(low),
        high=finite_or_none(high),
        partially_unbounded=bool(low.isinf().any() or high.isinf().any()),
        points=points,
        features=tuple(chosen),
        signs=tuple(map(tuple, signs)),
        monotone_features=good,
        monotone=len(good) == len(chosen),
        counter_example=extremes.counter_example(chosen, drawn.flatten(1)),
        provenance=stopwatch.provenance(seed, settings),
    )


def _check_box(low: Any, high: Any) -> tuple[Tensor, Tensor]:
    """Return the sides of a box in float64, or raise an error."""
    sides = {"low": low, "high": high}
    for name, side in sides.items():
        bound = as_float64(name, side, "a number for each feature")
        if bound.dim() == 0 or bound.numel() == 0 or bound.isnan().any():
            what = "NaN" if bound.isnan().any() else f"shape {tuple(bound.shape)}"
            expected = "a number for each feature, infinite without a bound"
            raise NescioError(f"{name} has {what}; expected {expected}")
        sides[name] = bound
    low, high = sides.values()
    if low.shape != high.shape:
        shapes = f"low has shape {tuple(low.shape)} and high {tuple(high.shape)}"
        raise NescioError(f"{shapes}; expected the same")
    empty = ((low > high) | (low == torch.inf) | (high == -torch.inf)).flatten()
    if empty.any():
        where = int(empty.nonzero()[0])
        ends = f"from {low.flatten()[where]:g} to {high.flatten()[where]:g}"
        expected = "expected low ≤ high with a finite number between them"
        raise NescioError(f"feature {where} runs {ends}; {expected}")
    if (low == high).all():
        raise NescioError("low equals high everywhere; expected low < high for some feature")
    return low, high


def _check_features(features: Any, low: Tensor, high: Tensor) -> list[int]:
    """Return positions of features to test, by default all that vary in the box."""
    free = (low < high).flatten().nonzero().flatten().tolist()
    _, chosen = named_features(features, None, low.numel(), free)
    if fixed := sorted(set(chosen) - set(free)):
        raise NescioError(f"features {fixed} are fixed: low equals high")
    if not chosen:
        raise NescioError("no features to look at")
    return chosen


def _draw(low: Tensor, high: Tensor, points: int, reach: float, seed: int) -> Tensor:
    """Return points `(P, …)` of the box, which follow from the seed."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "points", 0))
    fraction, sign = torch.rand(2, points, *low.shape, generator=generator, dtype=torch.float64)
    distance = reach * 10.0 ** (DECADES * (fraction - 1))
    left, right = low.isfinite(), high.isfinite()
    a, b = low.where(left, 0.0), high.where(right, 0.0)
    beyond = torch.where(right, b - distance, distance * (sign - 0.5).sign())
    beyond = torch.where(left, a + distance, beyond)
    between = a * (1 - fraction) + b * fraction
    return torch.where(left & right, between, beyond).clamp(low, high)


def _slopes(method: Method, x: Tensor, classes: int, chosen: list[int], seed: int) -> Tensor:
    """Return slopes `(B, F, C)` at points; NaN where rounding hides the sign.

    By the derivative of the softmax `S ∂p̄_c/∂x_d = Σ_s Σ_k p_sc p_sk (∂f_sc/∂x_d − ∂f_sk/∂x_d)`:
    what goes up and what goes down are summed apart, as logs, so that neither a probability that
    rounds to 0 or 1 nor a draw that stands still hides the others.
    """

    def rows(logits: Tensor) -> Tensor:
        return logits.permute(0, 2, 1).flatten(0, 1)  # (S C, B)

    how: dict[str, Any] = {"batch_size": len(x), "seed": seed, "progress": False}
    values, gradients = quantity_gradients(method, x, rows, **how)  # (S C, B), (S C, B, …)
    gradients = gradients.flatten(2)[:, :, chosen].cpu()
    gradients = gradients.reshape(-1, classes, len(x), len(chosen))  # (S, C, B, F)
    if not gradients.isfinite().all():
        bad = ~gradients.isfinite().permute(2, 0, 1, 3).flatten(1).all(1)
        where = f"{int(bad.sum())} of {len(x)} points, the first of them"
        problem = f"slopes are NaN or infinite at {where} {x[bad][0].flatten()[:5].tolist()}"
        raise NescioError(f"{problem}; expected a differentiable model")
    log_p = values.reshape(-1, classes, len(x)).cpu().log_softmax(1)
    return torch.stack([_class_slope(label, gradients, log_p) for label in range(classes)], -1)


def _class_slope(label: int, gradients: Tensor, log_p: Tensor) -> Tensor:
    """Return the slope `(B, F)` of a class: the mean of `∂f_c − ∂f_k` ≠ 0, by `p_c p_k`."""
    of_label, others = gradients[:, label, None], gradients  # (S, 1, B, F), (S, C, B, F)
    change = of_label - others
    unsure = (change != 0) & (change.abs() <= ROUNDING * (of_label.abs() + others.abs()))
    change = change.masked_fill(unsure, 0.0)
    weight = (log_p[:, label, None] + log_p).unsqueeze(-1)  # log p_c p_k, (S, C, B, 1)

    def log_sum(terms: Tensor, where: Tensor) -> Tensor:
        return torch.where(where, terms, -torch.inf).flatten(0, 1).logsumexp(0)

    sides = ((part.clamp(min=SMALLEST).log(), part > 0) for part in (change, -change))
    up, down = (log_sum(weight + logs, positive) for logs, positive in sides)
    whole = log_sum(weight, change != 0)
    size = torch.maximum(up, down)
    moves = size > -torch.inf
    lead = torch.where(moves, up - down, 0.0)  # infinite where all pairs agree
    slope = (size - whole).exp() * -torch.expm1(-lead.abs()) * lead.sign()
    hidden = torch.where(moves, lead.abs() <= MIN_LEAD, unsure.flatten(0, 1).any(0))
    return torch.where(moves, slope, 0.0).masked_fill(hidden, torch.nan)


def _search(
    method: Method, drawn: Tensor, chosen: list[int], size: int, seed: int, progress: bool | None
) -> tuple["_Extremes", int]:
    """Return the extreme slopes at points `(P, …)`, and the number of draws."""
    draws, classes = draws_and_classes(method, drawn[:1], seed=seed)
    most = max(1, BATCH_SLOPES // (draws * classes * drawn[0].numel()))
    extremes = _Extremes(len(chosen), classes)
    with bar(len(drawn), "monotone", progress) as shown:
        for batch in torch.split(drawn, min(check_int("batch_size", size), most)):
            extremes.add(_slopes(method, batch, classes, chosen, seed))
            shown.advance(len(batch))
    return extremes, draws


class _Extremes:
    """For each feature × class the largest slope so far, the smallest and the one nearest to 0.

    `best` `(3, F, C)` holds the largest of `slope`, `−slope` and `−|slope|`, `at` their points.
    """

    def __init__(self, features: int, classes: int) -> None:
        self.best = torch.full((3, features, classes), -torch.inf, dtype=torch.float64)
        self.at, self.count = torch.zeros(3, features, classes, dtype=torch.int64), 0

    def add(self, slopes: Tensor) -> None:
        """Add slopes `(B, F, C)` of the next points; NaN is ignored."""
        candidates = torch.stack([slopes, -slopes, -slopes.abs()])
        values, where = candidates.nan_to_num(-torch.inf, torch.inf, -torch.inf).max(1)
        better = values > self.best
        self.best = values.where(better, self.best)
        self.at = (where + self.count).where(better, self.at)
        self.count += len(slopes)

    def steepest(self) -> Tensor:
        """Return the steepest slope up and down, `(2, F, C)`; −1 where there is none but noise."""
        up, down = self.best[:2]
        return torch.stack([up.where(up > NOISE * down, -1.0), down.where(down > NOISE * up, -1.0)])

    def signs(self) -> Tensor:
        """Return +1, −1 or 0 for each feature × class."""
        up, down = self.steepest()
        strict = self.best[2] < 0
        rises, falls = strict & (up > 0) & (down < 0), strict & (down > 0) & (up < 0)
        return torch.sub(rises.int(), falls.int())

    def counter_example(self, features: Sequence[int], drawn: Tensor) -> CounterExample | None:
        """Return two points with slopes of opposite sign, steep ones; else one without a slope."""
        lesser, flat = self.steepest().amin(0), self.best[2]
        if not (opposite := bool(lesser.max() > 0)) and flat.max() < 0:
            return None
        feature, label = divmod(int((lesser if opposite else flat).argmax()), flat.shape[1])
        rows = self.at[:2, feature, label] if opposite else self.at[2:, feature, label]
        most, least, _ = self.best[:, feature, label].tolist()
        points = tuple(map(tuple, drawn[rows].tolist()))
        slopes = (most, -least) if opposite else (0.0,)
        return CounterExample(features[feature], label, points, slopes)
