"""How far can one column of a table be wrong before a model is certain, and of what → a `FeatureAudit` record."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from torch import Tensor, nn

from nescio.audit.affine.asymptote import asymptote, audited, chunk
from nescio.audit.affine.laws import NotAffineError
from nescio.audit.budget import Budget, budget_of
from nescio.audit.certainty import certain_from
from nescio.audit.features import feature_names, positions
from nescio.audit.inputs import all_inputs
from nescio.audit.kernels import checked_eps, unknown_from
from nescio.audit.monotone import monotone
from nescio.core.input_gradients import draws_and_classes
from nescio.core.logits import classes as claimed_classes
from nescio.core.predict import predict
from nescio.errors import NescioError
from nescio.methods import KernelMethod, Method, as_method
from nescio.metrics.ranking import accepted_count
from nescio.records import AuditedFeature, FeatureAudit, FeatureSide, Provenance, Reach

BATCH = 256  # rows read at a time
TOGETHER = 2**22  # numbers of rays looked at together


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
    """Move the rows of a table along one feature at a time, down and up for ever, all else held as it is.

    The way from row x is `x ± t e_d`, so that t is in the units of feature d. Where it ends is proved by the law at
    infinity, and where the model is certain for the first time by following it from breakpoint to breakpoint; of a
    model that is not piecewise affine the end is not known, and distances are measured. A DUQ or an RBF network is
    asked besides from where on it does not know. A feature is marked monotone if `monotone` found nothing against it
    between the smallest and the largest values of the rows.

    Args:
        model: a method or a bare network.
        x: rows `(N, D)` of a table, as `predict` takes them; labels are passed over.
        features: positions or names; by default all.
        names, classes: a name for each feature, such as `known.features`, and for each class.
        confidence: what counts as certain, in (½, 1).
        eps: how low a model of kernels must stay, as in `unknown_from`.
        limit, budget, batch_size, seed, progress: as in `certain_from`.

    >>> import torch
    >>> net = nn.Linear(2, 2)
    >>> _ = net.load_state_dict({"weight": torch.tensor([[0.0, 0.0], [0.5, 0.0]]), "bias": torch.zeros(2)})
    >>> age, idle = per_feature(net, torch.tensor([[1.0, 3.0], [2.0, 5.0]]), names=["age", "idle"]).features
    >>> age.higher.ends, round(age.higher.certain.median, 2)  # of log 999 / 0.5 − 1 and log 999 / 0.5 − 2
    ((0, 2), 11.81)
    >>> idle.higher.certain.median is None, idle.higher.ends_certain
    (True, 0.0)
    """
    started = time.monotonic()
    rows = all_inputs(model, x, BATCH if batch_size is None else batch_size, seed)
    if rows.dim() != 2:
        raise NescioError(
            f"inputs of shape {tuple(rows.shape[1:])}; expected rows (N, D) of a table, whose features "
            "have units. nescio.audit.scaling takes inputs of any shape"
        )
    known_as = feature_names(names, rows.shape[1])
    chosen = positions(features, known_as, range(len(known_as)))
    if not chosen:
        raise NescioError("no features to look at")
    checked_eps(eps)
    method = as_method(model)
    draws, count = draws_and_classes(method, rows[:1], seed=seed)
    called = _class_names(classes, count)
    ways = [(position, sign) for position in chosen for sign in (-1.0, 1.0)]
    size = max(1, TOGETHER // rows.numel())
    sides: list[tuple[FeatureSide, float]] = []
    time_left, unfollowed = budget_of(budget), 0
    with audited(method) as method:
        straight = _monotone(method, rows, chosen, seed, progress)
        for start in range(0, len(ways), size):
            how = {
                "limit": limit,
                "budget": time_left.part(size / max(size, len(ways) - start)),
                "progress": progress,
            }
            found, left_out = _sides(
                method,
                rows,
                ways[start : start + size],
                confidence,
                eps,
                how,
                batch_size,
                seed,
                count,
            )
            sides, unfollowed = sides + found, unfollowed + left_out
    by_feature = zip(chosen, sides[::2], sides[1::2], strict=True)
    settings = {
        "features": [known_as[position] for position in chosen],
        "limit": limit,
        "batch_size": batch_size,
    }
    return FeatureAudit(
        method=method.name,
        rows=len(rows),
        classes=called,
        draws=draws,
        confidence=float(confidence),
        eps=float(eps) if isinstance(method, KernelMethod) else None,
        already=sides[0][1],
        features=tuple(
            AuditedFeature(
                known_as[position],
                position,
                *_range(rows, position),
                straight.get(position),
                lower,
                higher,
            )
            for position, (lower, _), (higher, _) in by_feature
        ),
        provenance=Provenance.now(seed, settings, time.monotonic() - started),
        budget=time_left.seconds,
        unfollowed=unfollowed,
    )


def _class_names(given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if given is None:
        return tuple(f"class {label}" for label in range(count))
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != count:
        raise NescioError(f"classes={given!r}; expected a name for each of {count} classes")
    return tuple(str(one) for one in given)


def _monotone(
    method: Method, rows: Tensor, chosen: Sequence[int], seed: int, progress: bool | None
) -> dict[int, bool]:
    """Which features are monotone in the box of the rows; those that it holds fixed, or all of a DUQ, are left out."""
    low, high = rows.amin(0), rows.amax(0)
    free = [position for position in chosen if low[position] < high[position]]
    # kernels are no probabilities: none need fall as another rises
    if method.confidence_kind == "kernel" or not free:
        return {}
    found = monotone(
        method, low, high, features=free, batch_size=1024, seed=seed, progress=progress
    )
    return {position: position in found.monotone_features for position in free}


def _range(rows: Tensor, position: int) -> tuple[float, float, float | None]:
    """The smallest and the largest value of a feature, and its standard deviation, None if all are the same."""
    column = rows[:, position]
    low, high = column.min().item(), column.max().item()
    if low == high:
        return low, high, None
    size = max(abs(low), abs(high))  # over it, squares neither overflow nor vanish
    return low, high, (column / size).std(correction=0).item() * size


def _sides(
    method: Method,
    rows: Tensor,
    ways: Sequence[tuple[int, float]],
    confidence: float,
    eps: float,
    how: dict[str, Any],
    batch_size: int | None,
    seed: int,
    count: int,
) -> tuple[list[tuple[FeatureSide, float]], int]:
    """Where some ways, position and sign, lead from all rows; beside each, the share that is certain before any step.

    All rays go at once, W · N of them: to follow many costs little more than to follow a few. How many a budget left
    out comes last; `how` is the limit, the budget and the progress of following.
    """
    direction = rows.new_zeros(len(ways), rows.shape[1])
    for one, (position, sign) in zip(direction, ways, strict=True):
        one[position] = sign
    rays = rows.repeat(len(ways), 1), direction.repeat_interleave(len(rows), 0)
    law, unknown = None, None
    kernels = isinstance(method, KernelMethod)
    with suppress(NotAffineError):  # then only distances are known
        if not kernels:
            law = asymptote(
                method, *rays, batch_size=batch_size, seed=seed, progress=how["progress"]
            )
    certain = certain_from(
        method, *rays, confidence=confidence, batch_size=batch_size, seed=seed, **how
    )
    with suppress(NotAffineError):
        if kernels:
            unknown = unknown_from(method, *rays, eps=eps, batch_size=batch_size, **how)
    there = rays[0] + certain.t.nan_to_num(posinf=0.0)[:, None] * rays[1]
    logits = predict(method, there, batch_size=chunk(there, batch_size), seed=seed, progress=False)
    claimed = claimed_classes(logits).masked_fill(certain.t.isinf(), -1)
    moved = claimed.masked_fill(
        certain.t == 0, -1
    )  # of a row that is certain as it is no step tells anything
    found = []
    for place, (position, _) in enumerate(ways):
        own = slice(place * len(rows), (place + 1) * len(rows))
        spread = _range(rows, position)[2]
        side = FeatureSide(
            ends=None if law is None else _counts(law.winner[own], count),
            ends_certain=None if law is None else _share(law.certain[own]),
            certain=_reach(certain.t[own], certain.proved[own], spread, beyond=0.0),
            certain_of=_counts((moved if (certain.t[own] > 0).any() else claimed)[own], count),
            unknown=None if unknown is None else _reach(unknown.t[own], unknown.exact[own], spread),
        )
        found.append((side, _share(certain.t[own] == 0)))
    return found, (certain if unknown is None else unknown).unfollowed


def _counts(labels: Tensor, classes: int) -> tuple[int, ...]:
    """How often each class occurs; a label of −1 is none."""
    return tuple(labels[labels >= 0].bincount(minlength=classes).tolist())


def _reach(t: Tensor, proved: Tensor, spread: float | None, beyond: float = -1.0) -> Reach:
    """Distances `(N,)` in a few numbers; the quartiles are those of rows that are not there from the beginning."""
    got, proof = _share(t.isfinite()), _share(proved)
    t = t[t > beyond] if (t > beyond).any() else t
    quarters = [
        t.kthvalue(accepted_count(len(t), share)).values.item() for share in (0.25, 0.5, 0.75)
    ]
    lower, median, upper = map(_finite, quarters)
    spreads = None if median is None or spread is None else _finite(median / spread)
    return Reach(got, proof, lower, median, upper, spreads)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _share(which: Tensor) -> float:
    return which.double().mean().item()
