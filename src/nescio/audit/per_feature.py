"""How far can one column of a table be wrong before a model is certain, and of what → a `FeatureAudit` record."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.asymptote import Asymptote, asymptote, checked_rays
from nescio.audit.certainty import LIMIT, CertainFrom, certain_from
from nescio.audit.features import feature_names, positions
from nescio.audit.inputs import all_inputs
from nescio.audit.kernels import UnknownFrom, unknown_from
from nescio.audit.laws import NotAffineError
from nescio.audit.monotone import monotone
from nescio.errors import NescioError, number
from nescio.methods import DUQ, Method, RBFNetwork, as_method
from nescio.metrics.ranking import accepted_count
from nescio.progress import Bar, bar
from nescio.records import AuditedFeature, FeatureAudit, FeatureSide, Provenance, Reach
from nescio.slopes import draws_and_classes
from nescio.untouched import untouched

BATCH = 256  # rows read at a time


def per_feature(
    model: nn.Module,
    x: Any,
    *,
    features: Sequence[int | str] | None = None,
    names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    confidence: float = 0.999,
    eps: float = 1e-3,
    limit: int = LIMIT,
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
        limit, batch_size, seed, progress: as in `certain_from`.

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
        raise NescioError(f"inputs of shape {tuple(rows.shape[1:])}; expected rows (N, D) of a table, whose features "
                          "have units. nescio.audit.scaling takes inputs of any shape")  # fmt: skip
    known_as = feature_names(names, rows.shape[1])
    chosen = positions(features, known_as, range(len(known_as)))
    if not chosen:
        raise NescioError("no features to look at")
    number("eps", eps, least=1e-300, most=1 - 1e-12)
    method = as_method(model)
    draws, count = draws_and_classes(method, rows[:1], seed=seed)
    called = _class_names(classes, count)
    along = partial(_along, method, rows, confidence, eps, limit, batch_size, seed)
    checked_rays(rows[:1], torch.ones_like(rows[:1]), model)  # warns, once, of BatchNorm in train mode
    with untouched(model), bar(2 * len(chosen) + 1, "features", progress) as shown:
        model.eval()
        straight = _monotone(method, rows, chosen, seed)
        shown.advance()
        found = [_audited(known_as[position], position, rows, straight.get(position), along, shown)
                 for position in chosen]  # fmt: skip
    settings = {"features": [known_as[position] for position in chosen], "limit": limit, "batch_size": batch_size}
    return FeatureAudit(
        method=method.name,
        rows=len(rows),
        classes=called,
        draws=draws,
        confidence=float(confidence),
        eps=float(eps) if isinstance(method, DUQ | RBFNetwork) else None,
        already=found[0][1],
        features=tuple(feature for feature, _ in found),
        provenance=Provenance.now(seed, settings, time.monotonic() - started),
    )


def _class_names(given: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if given is None:
        return tuple(f"class {label}" for label in range(count))
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != count:
        raise NescioError(f"classes={given!r}; expected a name for each of {count} classes")
    return tuple(str(one) for one in given)


def _monotone(method: Method, rows: Tensor, chosen: Sequence[int], seed: int) -> dict[int, bool]:
    """Which features are monotone in the box of the rows; those that it holds fixed, or all of a DUQ, are left out."""
    low, high = rows.amin(0), rows.amax(0)
    free = [position for position in chosen if low[position] < high[position]]
    if isinstance(method, DUQ) or not free:  # kernels are no probabilities: none need fall as another rises
        return {}
    found = monotone(method, low, high, features=free, seed=seed, progress=False)
    return {position: position in found.monotone_features for position in free}


Along = Callable[[int, float], tuple[CertainFrom, Asymptote | None, UnknownFrom | None]]


def _along(
    method: Method,
    rows: Tensor,
    confidence: float,
    eps: float,
    limit: int,
    batch_size: int | None,
    seed: int,
    position: int,
    sign: float,
) -> tuple[CertainFrom, Asymptote | None, UnknownFrom | None]:
    """What is to be known of the rays from all rows along one feature."""
    direction = torch.zeros_like(rows[0])
    direction[position] = sign
    how: dict[str, Any] = {"batch_size": batch_size, "progress": False}
    certain = certain_from(method, rows, direction, confidence=confidence, limit=limit, seed=seed, **how)
    try:
        if isinstance(method, DUQ | RBFNetwork):
            return certain, None, unknown_from(method, rows, direction, eps=eps, limit=limit, **how)
        return certain, asymptote(method, rows, direction, seed=seed, **how), None
    except NotAffineError:
        return certain, None, None


def _audited(
    name: str, position: int, rows: Tensor, straight: bool | None, along: Along, shown: Bar
) -> tuple[AuditedFeature, float]:
    """One feature, and the share of the rows that the model is certain of before they are moved."""
    column = rows[:, position]
    low, high = column.min().item(), column.max().item()
    spread = column.std(correction=0).item() if low < high else None
    sides, already = [], 0.0
    for sign in (-1.0, 1.0):
        certain, law, unknown = along(position, sign)
        already = _share(certain.t == 0)
        sides.append(
            FeatureSide(
                ends=None if law is None else tuple(law.winner.bincount(minlength=law.limit.shape[1]).tolist()),
                ends_certain=None if law is None else _share(_ends_certain(law)),
                certain=_reach(certain.t, certain.proved, spread),
                unknown=None if unknown is None else _reach(unknown.t, unknown.exact, spread),
            )
        )
        shown.advance()
    lower, higher = sides
    return AuditedFeature(name, position, low, high, spread, straight, lower, higher), already


def _ends_certain(law: Asymptote) -> Tensor:
    """Whether one class rises faster than all others, the same in all draws, `(N,)`.

    Of classes that tie a softmax may round to 1, too; it does not tend to it.
    """
    slope = law.slope if law.slope.dim() == 3 else law.slope[None]  # (S, N, C)
    most = slope == slope.amax(2, keepdim=True)
    return (most.sum(2) == 1).all(0) & (most == most[:1]).all(2).all(0)


def _reach(t: Tensor, proved: Tensor, spread: float | None) -> Reach:
    """Distances `(N,)` in a few numbers."""
    quarters = [t.kthvalue(accepted_count(len(t), share)).values.item() for share in (0.25, 0.5, 0.75)]
    lower, median, upper = (value if math.isfinite(value) else None for value in quarters)
    spreads = None if median is None or spread is None else median / spread
    return Reach(_share(t.isfinite()), _share(proved), lower, median, upper, spreads)


def _share(which: Tensor) -> float:
    return which.double().mean().item()
