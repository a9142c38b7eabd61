"""Is a model component-wise strictly monotonic on a box? A sampled test → a `Monotonicity` record."""

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio.arrays import is_array
from nescio.audit.features import positions
from nescio.core.input_gradients import draws_and_classes, quantity_gradients
from nescio.data.arrays import tensor
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import Method, as_method
from nescio.progress import bar
from nescio.records import CounterExample, Monotonicity, Provenance
from nescio.seeds import check_seed, derived_seed

DECADES = 12  # of distances along an unbounded side, the largest being `reach`
ROUNDING = 2.0**-50  # two slopes of logits that differ by less than this may well be the same
NOISE = 1e-13  # a slope so much smaller than the largest, and of the other sign, may be rounding within the network
LEAST = (
    1e-9  # what goes up and what goes down must differ by this, relatively, to tell which is more
)
TINY = 5e-324
TOGETHER = 2**22  # slopes of logits at a time


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
    """Look for a place in a box where a class's mean probability has no slope, or one of either sign, along a feature.

    *Know your limits*, definitions 6 and 7: a model is component-wise strictly monotonic on a box if every
    `∂p̄_c/∂x_d` has one and the same sign, and is not 0, all over it; the box is partially unbounded if a side of it has
    no end. This is a **sampled test**: two points with slopes of opposite sign prove that the model is not monotonic,
    but that none were found is no proof that it is. One point with a slope of 0 is one where no logit moves apart from
    another in float64: a dead ReLU, or a sigmoid that has run out of digits. A point where rounding hides the sign is
    passed over. Slopes are autograd's, in float64.

    The slopes given are `∂p̄_c/∂x_d` over the mean of `p_c p_k` (other classes k, in draws in which the two move apart):
    for one draw, as a rule, the slope of the log-odds of class c. They have the sign of the probability's own, and do
    not underflow far away.

    Args:
        model: a method or a bare network, differentiable in its input.
        low, high: the box, one number per feature or of the input's shape; `−inf` and `inf` where it has no bound.
            A feature with `low == high` is held fixed.
        features: positions (in the flattened input) of those to look at; by default all that are not fixed.
        points: how many are drawn: evenly between two bounds, and at log-uniform distances where there is only one,
            or from 0 where there is none.
        reach: the largest such distance.
        batch_size, seed, progress: as in `predict`.

    >>> net = nn.Linear(1, 2)
    >>> _ = net.load_state_dict({"weight": torch.tensor([[0.0], [2.0]]), "bias": torch.zeros(2)})
    >>> found = monotone(net, [0], [torch.inf])
    >>> found.monotone, found.partially_unbounded, found.signs
    (True, True, ((-1, 1),))
    """
    started = time.monotonic()
    points, low, high = (
        check_int("points", points, least=2),
        _bound("low", low),
        _bound("high", high),
    )
    _check_box(low, high, reach)
    free = (low < high).flatten().nonzero().flatten().tolist()
    chosen = positions(features, [f"feature {position}" for position in range(low.numel())], free)
    if not chosen or (fixed := sorted(set(chosen) - set(free))):
        raise NescioError(
            "no features to look at"
            if not chosen
            else f"features {fixed} are fixed: low equals high"
        )
    method, drawn = as_method(model), _drawn(low, high, points, reach, check_seed(seed))
    draws, classes = draws_and_classes(method, drawn[:1], seed=seed)
    together = max(1, TOGETHER // (draws * classes * low.numel()))
    seen = _Seen(len(chosen), classes)
    with bar(points, "monotone", progress) as shown:
        for part in torch.split(drawn, min(check_int("batch_size", batch_size), together)):
            seen.add(_slopes(method, part, classes, chosen, seed))
            shown.advance(len(part))
    signs = seen.signs()
    good = [position for position, row in zip(chosen, signs.tolist(), strict=True) if 0 not in row]
    settings = {"points": points, "reach": reach, "batch_size": batch_size}
    return Monotonicity(
        method=method.name,
        classes=classes,
        draws=draws,
        low=_plain(low),
        high=_plain(high),
        partially_unbounded=bool(low.isinf().any() or high.isinf().any()),
        points=points,
        features=tuple(chosen),
        signs=tuple(tuple(row) for row in signs.tolist()),
        monotone_features=tuple(good),
        monotone=len(good) == len(chosen),
        counter_example=seen.counter_example(chosen, drawn.flatten(1)),
        provenance=Provenance.now(seed, settings, time.monotonic() - started),
    )


def _bound(name: str, given: Any) -> Tensor:
    try:
        bound = (
            torch.as_tensor(tensor(given) if is_array(given) else given, dtype=torch.float64)
            .detach()
            .cpu()
        )
    except NescioError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise NescioError(f"{name}={given!r}; expected a number for each feature") from error
    if bound.dim() == 0 or bound.numel() == 0 or bound.isnan().any():
        what = "NaN" if bound.isnan().any() else f"shape {tuple(bound.shape)}"
        raise NescioError(
            f"{name} has {what}; expected a number for each feature, infinite where there is no bound"
        )
    return bound


def _check_box(low: Tensor, high: Tensor, reach: Any) -> None:
    if low.shape != high.shape:
        raise NescioError(
            f"low has shape {tuple(low.shape)} and high {tuple(high.shape)}; expected the same"
        )
    empty = (low > high) | (low == torch.inf) | (high == -torch.inf)
    if empty.any():
        where = int(empty.flatten().nonzero()[0])
        raise NescioError(
            f"feature {where} runs from {low.flatten()[where]:g} to {high.flatten()[where]:g}; "
            "expected low ≤ high with a finite number between them"
        )
    if (low == high).all():
        raise NescioError(
            "low equals high everywhere: a box of a single point; expected low < high for some feature"
        )
    check_float("reach", reach, 1e-300, 1e300)


def _drawn(low: Tensor, high: Tensor, points: int, reach: float, seed: int) -> Tensor:
    """Points `(P, …)` of the box, which follow from the seed."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "points", 0))
    share, sign = torch.rand(2, points, *low.shape, generator=generator, dtype=torch.float64)
    distance = reach * 10.0 ** (DECADES * (share - 1))
    left, right = low.isfinite(), high.isfinite()
    a, b = low.where(left, 0.0), high.where(right, 0.0)
    beyond = torch.where(
        left, a + distance, torch.where(right, b - distance, distance * (sign - 0.5).sign())
    )
    return torch.where(left & right, a * (1 - share) + b * share, beyond).clamp(low, high)


def _slopes(method: Method, x: Tensor, classes: int, chosen: list[int], seed: int) -> Tensor:
    """Slopes `(B, F, C)` of the points; NaN where rounding hides the sign.

    By the derivative of the softmax `S ∂p̄_c/∂x_d = Σ_s Σ_k p_sc p_sk (∂f_sc/∂x_d − ∂f_sk/∂x_d)`: what goes up and what
    goes down are summed apart, as logs, so that neither a probability that rounds to 0 or 1 nor a draw that stands
    still hides the others.
    """
    values, gradients = quantity_gradients(
        method,
        x,
        lambda logits: logits.permute(0, 2, 1).flatten(0, 1),
        batch_size=len(x),
        seed=seed,
        progress=False,
    )  # (S C, B), (S C, B, …)
    steep = (
        gradients.flatten(2)[:, :, chosen].reshape(-1, classes, len(x), len(chosen)).cpu()
    )  # (S, C, B, F)
    if not steep.isfinite().all():
        bad = ~steep.isfinite().permute(2, 0, 1, 3).flatten(1).all(1)
        raise NescioError(
            f"slopes are NaN or infinite at {int(bad.sum())} of {len(x)} points, the first of them "
            f"{x[bad][0].flatten()[:5].tolist()}; expected a differentiable model"
        )
    log_p = values.reshape(-1, classes, len(x)).cpu().log_softmax(1)
    return torch.stack([_slope_of(label, steep, log_p) for label in range(classes)], -1)


def _slope_of(label: int, steep: Tensor, log_p: Tensor) -> Tensor:
    """The slope `(B, F)` of one class: the mean of `∂f_c − ∂f_k`, by `p_c p_k`, over the pairs that change at all."""
    own, others = steep[:, label, None], steep  # (S, 1, B, F), (S, C, B, F)
    change = own - others
    unsure = (change != 0) & (change.abs() <= ROUNDING * (own.abs() + others.abs()))
    change = change.masked_fill(unsure, 0.0)
    weight = (log_p[:, label, None] + log_p).unsqueeze(-1)  # log p_c p_k, (S, C, B, 1)
    up, down = (
        torch.where(part > 0, weight + part.clamp(min=TINY).log(), -torch.inf)
        .flatten(0, 1)
        .logsumexp(0)
        for part in (change, -change)
    )
    whole = torch.where(change != 0, weight, -torch.inf).flatten(0, 1).logsumexp(0)
    size = torch.maximum(up, down)
    moves = size > -torch.inf
    lead = torch.where(moves, up - down, 0.0)  # infinite where all pairs agree
    slope = (size - whole).exp() * -torch.expm1(-lead.abs()) * lead.sign()
    hidden = torch.where(moves, lead.abs() <= LEAST, unsure.flatten(0, 1).any(0))
    return torch.where(moves, slope, 0.0).masked_fill(hidden, torch.nan)


class _Seen:
    """Of each feature × class the largest slope so far, the smallest and the one nearest to 0, and at which points.

    `best` `(3, F, C)` holds the largest of `slope`, `−slope` and `−|slope|`.
    """

    def __init__(self, features: int, classes: int) -> None:
        self.best = torch.full((3, features, classes), -torch.inf, dtype=torch.float64)
        self.at, self.count = torch.zeros(3, features, classes, dtype=torch.int64), 0

    def add(self, found: Tensor) -> None:
        """Slopes `(B, F, C)` of the next points; NaN says nothing."""
        values, where = (
            torch.stack([found, -found, -found.abs()])
            .nan_to_num(-torch.inf, torch.inf, -torch.inf)
            .max(1)
        )
        better = values > self.best
        self.best, self.at = (
            values.where(better, self.best),
            (where + self.count).where(better, self.at),
        )
        self.count += len(found)

    def sides(self) -> Tensor:
        """The steepest slope up and down of each feature × class, `(2, F, C)`; −1 where there is none to speak of."""
        up, down = self.best[:2]
        return torch.stack([up.where(up > NOISE * down, -1.0), down.where(down > NOISE * up, -1.0)])

    def signs(self) -> Tensor:
        """+1, −1 or 0 of each feature × class."""
        up, down = self.sides()
        strict = self.best[2] < 0
        signs: Tensor = (strict & (up > 0) & (down < 0)).int() - (
            strict & (down > 0) & (up < 0)
        ).int()
        return signs

    def counter_example(self, features: Sequence[int], drawn: Tensor) -> CounterExample | None:
        """Two points with slopes of opposite sign, the steeper the better; else one without a slope; else None."""
        lesser, flat = self.sides().amin(0), self.best[2]
        if not (opposite := bool(lesser.max() > 0)) and flat.max() < 0:
            return None
        feature, label = divmod(int((lesser if opposite else flat).argmax()), flat.shape[1])
        rows = self.at[:2, feature, label] if opposite else self.at[2:, feature, label]
        most, least, _ = self.best[:, feature, label].tolist()
        return CounterExample(
            feature=features[feature],
            label=label,
            points=tuple(tuple(point) for point in drawn[rows].tolist()),
            slopes=(most, -least) if opposite else (0.0,),
        )


def _plain(bound: Tensor) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in bound.flatten().tolist())
