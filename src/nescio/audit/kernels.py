"""The t along a ray after which a model of kernels, DUQ or an RBF network, is unsure."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn

from nescio.audit.affine.asymptote import asymptote, check_rays, eval_replica, rays_per_batch
from nescio.audit.affine.laws import NotAffineError
from nescio.audit.affine.trace import Pieces
from nescio.audit.budget import Budget, as_budget
from nescio.audit.certainty import RaySearch
from nescio.errors import NescioError, check_float
from nescio.methods import KernelMethod, as_method
from nescio.progress import bar


@final
@dataclass(frozen=True)
class UnknownFrom:
    """The t after which a model of kernels is never confident again.

    Attributes:
        t: `(N,)`; infinite on rays along which it stays confident.
        exact: `(N,)`, whether no smaller t would do; else t is only surely late enough.
        limit: `(N,)`, the confidence that is left at infinity.
        unfollowed: rays whose t is not exact only because a budget was spent.
    """

    t: Tensor
    exact: Tensor
    limit: Tensor
    unfollowed: int = 0


def unknown_from(
    model: nn.Module,
    x: Any,
    direction: Any,
    *,
    eps: float = 1e-3,
    limit: int | None = None,
    budget: float | Budget | None = None,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> UnknownFrom:
    """Return the t after which the confidence in `x + t · direction` stays low, in float64.

    DUQ's certainty then stays below `eps`. Where its network is affine, each log-kernel is a
    concave quadratic in t, or a constant, so that the last t at which one reaches `log eps` is a
    root; the rays are followed from breakpoint to breakpoint, unless there are too many. The
    confidence of an RBF network over K classes then stays below `1/K + eps` by theorem 3.2.

    Args:
        model: a DUQ over a piecewise affine network, or an RBF network.
        x, direction: rays, as in `asymptote`.
        eps: how low.
        limit: the most pieces of a ray to follow, as in `certain_from`; where there are more, t is
            at most the start of the last one, or exact there.
        budget, batch_size, progress: as in `certain_from`.

    >>> model = nescio.methods.DUQ(nescio.models.mlp(2, hidden=[8]), classes=3)
    >>> found = unknown_from(model, x[:1], torch.tensor([1.0, 0.0]))
    >>> bool(found.limit < 0.001)  # the confidence at infinity
    True
    """
    if not (kernels := as_method(model).kernels()):
        got = f"a {type(model).__name__} given, which need not become uncertain far away"
        expected = "a method of kernels, DUQ or RBFNetwork. nescio.audit.asymptote takes others"
        raise NescioError(f"{got}; expected {expected}")
    x, direction = check_rays(x, direction, model)
    eps = check_float("eps", eps, most=1, inside=True)
    time, size = as_budget(budget), rays_per_batch(x, batch_size)
    with eval_replica(kernels) as kernels:
        search = RaySearch(kernels, x, direction, limit, time, size, progress=progress)
        return _unknown_along(kernels, search, eps)


def unknown_or_none(search: RaySearch, eps: float) -> UnknownFrom | None:
    """Return what `unknown_from` does, or None of models without kernels over an affine network."""
    if kernels := as_method(search.model).kernels():
        with suppress(NotAffineError):
            return _unknown_along(kernels, search, eps)
    return None


def _unknown_along(model: KernelMethod, search: RaySearch, eps: float) -> UnknownFrom:
    search = replace(search, model=model.kernel_features())
    late = _at_infinity(model, search, eps)
    max_pieces = search.max_pieces() if model.exact_reach else 0
    return _follow(model, search, late, max_pieces, eps) if max_pieces else late


def _at_infinity(model: KernelMethod, search: RaySearch, eps: float) -> UnknownFrom:
    """Return what the law at infinity says, exact if it is confident on the last piece."""
    parts = []
    batches = (torch.split(rows, search.batch_size) for rows in (search.x, search.direction))
    with bar(len(search.x), "unknown", search.progress) as shown:
        for rays in zip(*batches, strict=True):
            law = asymptote(search.model, *rays, progress=False)
            end = torch.full_like(law.start, torch.inf)
            last = model.last_known(law.slope, law.intercept, law.start, end, eps)
            limit = model.limit_confidence(law.slope, law.intercept)
            exact = (last > law.start) & model.exact_reach
            parts.append((torch.maximum(last, law.start), exact, limit))
            shown.advance(len(end))
    t, exact, limit = (torch.cat(values) for values in zip(*parts, strict=True))
    return UnknownFrom(t, exact, limit)


def _follow(
    model: KernelMethod, search: RaySearch, late: UnknownFrom, max_pieces: int, eps: float
) -> UnknownFrom:
    """Find the exact t also where the model is confident only before the last piece."""
    order = (~late.exact).nonzero().flatten()
    if search.budget.seconds is not None:
        order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(0))]
    last = torch.full_like(late.t, -torch.inf)

    def visit(rays: Tensor, pieces: Pieces) -> Tensor:
        law = pieces.slope, pieces.intercept, pieces.begin, pieces.end
        last[rays] = torch.maximum(last[rays], model.last_known(*law, eps))
        return pieces.end < late.t[rays]

    with bar(len(order), "prove", search.progress) as shown:
        reached, followed = search.follow(order, max_pieces, visit, shown)
    # a ray along which it never was confident is unknown from 0 on
    t = torch.where(reached, last.clamp(min=0), late.t)
    return UnknownFrom(t, late.exact | reached, late.limit, len(order) - followed)
