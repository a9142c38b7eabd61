"""How far one feature must move until a model is certain, and of what → a `FeatureAudit` record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nescio.audit.affine.asymptote import eval_replica, rays_per_batch
from nescio.audit.budget import Budget, as_budget
from nescio.audit.certainty import RaySearch, certain_along
from nescio.audit.inputs import all_inputs, finite_or_none, fraction, named_features
from nescio.audit.kernels import unknown_or_none
from nescio.audit.monotone import monotone
from nescio.core.input_gradients import draws_and_classes
from nescio.core.logits import classes as predicted_classes
from nescio.errors import NescioError, check_float
from nescio.methods import as_method
from nescio.metrics.ranking import accepted_count
from nescio.records import AuditedFeature, FeatureAudit, FeatureSide, Reach, Stopwatch

READ_ROWS = 256  # at a time
BATCH_NUMBERS = 2**22  # numbers of rays followed together
Way = tuple[int, float]  # the position of a feature, and a sign


def per_feature(
    model: nn.Module,
    x: Any,
    *,
    features: Sequence[int | str] | None = None,
    names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    confidence: float = 0.999,
    eps: float = 1e-3,
    limit: int | None = None,
    budget: float | Budget | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> FeatureAudit:
    """Move the rows of a table along one feature at a time, down and up, all else held as it is.

    From row x a ray leaves along `x ± t e_d`, so that t is in the units of feature d. Where it
    ends is proved by `asymptote`, where the model is certain by `certain_from`, and where a model
    of kernels is unsure by `unknown_from`; if it is not piecewise affine, distances are measured.
    A feature is marked monotone if `monotone` found nothing against it in the range of the rows.

    Args:
        model: a method or a bare network.
        x: rows `(N, D)` of a table, as `predict` takes them; labels are ignored.
        features: positions or names; by default all.
        names, classes: a name for each feature, such as `known.features`, and for each class.
        confidence: what counts as certain, in (½, 1).
        eps: how low the confidence of a model of kernels must stay, as in `unknown_from`.
        limit, budget, batch_size, seed, progress: as in `certain_from`.

    >>> record = per_feature(net, known.test.inputs[:5], names=known.features)
    >>> [feature.name for feature in record.features]
    ['x', 'y']
    """
    stopwatch = Stopwatch()
    rows = _check_rows(all_inputs(model, x, READ_ROWS if batch_size is None else batch_size, seed))
    names, chosen = named_features(features, names, rows.shape[1], range(rows.shape[1]))
    if not chosen:
        raise NescioError("no features to look at")
    check_float("eps", eps, most=1, inside=True)
    method, time_left, size = as_method(model), as_budget(budget), rays_per_batch(rows, batch_size)
    draws, count = draws_and_classes(method, rows[:1], seed=seed)
    classes = _class_names(classes, count)
    with eval_replica(method) as method:
        search = RaySearch(method, rows, rows, limit, time_left, size, seed, progress)
        found = _move_each(search, names, chosen, count, confidence, eps)
    audited = [names[position] for position in chosen]
    settings = {"features": audited, "limit": limit, "batch_size": batch_size}
    return FeatureAudit(
        method=method.name,
        rows=len(rows),
        classes=classes,
        draws=draws,
        confidence=float(confidence),
        eps=float(eps) if method.kernels() else None,
        **found,
        provenance=stopwatch.provenance(seed, settings),
        budget=time_left.seconds,
    )


def _check_rows(rows: Tensor) -> Tensor:
    if rows.dim() != 2:
        expected = "expected rows (N, D) of a table, whose features have units"
        other = "nescio.audit.scaling takes inputs of any shape"
        raise NescioError(f"inputs of shape {tuple(rows.shape[1:])}; {expected}. {other}")
    return rows


def _class_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"class {label}" for label in range(count))
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != count:
        raise NescioError(f"classes={names!r}; expected a name for each of {count} classes")
    return tuple(str(name) for name in names)


def _move_each(
    search: RaySearch, names: list[str], chosen: list[int], classes: int, level: float, eps: float
) -> dict[str, Any]:
    """Return what an audit says of its features, from rays along them out of each row."""
    rows, ways = search.x, [(position, sign) for position in chosen for sign in (-1.0, 1.0)]
    size, parts = max(1, BATCH_NUMBERS // rows.numel()), []
    is_monotone = _monotone_features(search, chosen)
    for start in range(0, len(ways), size):
        batch = ways[start : start + size]
        x, direction = _rays(rows, batch)
        part = search.budget.part(size / max(size, len(ways) - start))
        rays = replace(search, x=x, direction=direction, budget=part)
        parts.append(_sides(rays, rows, batch, classes, level, eps))
    sides = [side for part, _, _ in parts for side in part]
    features = [
        AuditedFeature(names[i], i, *_range(rows, i), is_monotone.get(i), lower, higher)
        for i, lower, higher in zip(chosen, sides[::2], sides[1::2], strict=True)
    ]
    unfollowed = sum(left_out for _, _, left_out in parts)
    return {"already": parts[0][1], "features": tuple(features), "unfollowed": unfollowed}


def _monotone_features(search: RaySearch, chosen: Sequence[int]) -> dict[int, bool]:
    """Return which features are monotone in the box of the rows, of those that vary."""
    method, rows = as_method(search.model), search.x
    low, high = rows.amin(0), rows.amax(0)
    free = [position for position in chosen if low[position] < high[position]]
    # kernels are no probabilities: none need fall as another rises
    if method.confidence_kind == "kernel" or not free:
        return {}
    how: dict[str, Any] = {"seed": search.seed, "progress": search.progress}
    record = monotone(method, low, high, features=free, batch_size=1024, **how)
    return {position: position in record.monotone_features for position in free}


def _range(rows: Tensor, position: int) -> tuple[float, float, float | None]:
    """Return a feature's smallest and largest value, and spread, None if all are the same."""
    column = rows[:, position]
    low, high = column.min().item(), column.max().item()
    if low == high:
        return low, high, None
    size = max(abs(low), abs(high))  # over it, squares neither overflow nor vanish
    return low, high, (column / size).std(correction=0).item() * size


def _rays(rows: Tensor, ways: Sequence[Way]) -> tuple[Tensor, Tensor]:
    """Return starts and directions of rays from all rows along each way."""
    direction = rows.new_zeros(len(ways), rows.shape[1])
    for way, (position, sign) in zip(direction, ways, strict=True):
        way[position] = sign
    return rows.repeat(len(ways), 1), direction.repeat_interleave(len(rows), 0)


def _sides(
    search: RaySearch, rows: Tensor, ways: Sequence[Way], classes: int, level: float, eps: float
) -> tuple[list[FeatureSide], float, int]:
    """Return where ways lead, the fraction certain before any step, and the rays left out."""
    law = search.law()
    certain, _ = certain_along(search, search.softmax_law(law), level)
    unknown = unknown_or_none(search, eps)
    there = search.x + certain.t.nan_to_num(posinf=0.0)[:, None] * search.direction
    predicted = predicted_classes(search.logits(there)).masked_fill(certain.t.isinf(), -1)
    # a row that is certain as it is does not say where a step leads
    moved = predicted.masked_fill(certain.t == 0, -1)
    sides = []
    for place, (position, _) in enumerate(ways):
        block = slice(place * len(rows), (place + 1) * len(rows))
        spread, t = _range(rows, position)[2], certain.t[block]
        side = FeatureSide(
            ends=law and _counts(law.winner[block], classes),
            ends_certain=law and fraction(law.certain[block]),
            certain=_reach(t, certain.proved[block], spread, beyond=0.0),
            certain_of=_counts((moved if (t > 0).any() else predicted)[block], classes),
            unknown=unknown and _reach(unknown.t[block], unknown.exact[block], spread),
        )
        sides.append(side)
    already = fraction(certain.t[: len(rows)] == 0)
    return sides, already, (unknown or certain).unfollowed


def _counts(labels: Tensor, classes: int) -> tuple[int, ...]:
    """Return how often each class occurs; a label of −1 is none."""
    return tuple(labels[labels >= 0].bincount(minlength=classes).tolist())


def _reach(t: Tensor, proved: Tensor, spread: float | None, beyond: float = -1.0) -> Reach:
    """Summarise distances `(N,)`; the quartiles are those of rows beyond, if there are any."""
    reached, exact = fraction(t.isfinite()), fraction(proved)
    t = t[t > beyond] if (t > beyond).any() else t
    places = [accepted_count(len(t), level) - 1 for level in (0.25, 0.5, 0.75)]
    quartiles = t.sort().values[places]
    lower, median, upper = finite_or_none(quartiles)
    spreads = None if spread is None else finite_or_none(quartiles[1] / spread)[0]
    return Reach(reached, exact, lower, median, upper, spreads)
