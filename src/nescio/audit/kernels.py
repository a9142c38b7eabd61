"""From where on along a ray a model of kernels does not know: certificates for DUQ and for the RBF network."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.affine.asymptote import asymptote, audited, checked_rays, chunk, exact
from nescio.audit.affine.trace import followed_rays
from nescio.audit.budget import Budget, budget_of
from nescio.audit.certainty import checked_limit, worth_following
from nescio.errors import NescioError, check_float
from nescio.methods import KernelMethod
from nescio.progress import bar


@dataclass(frozen=True)
class UnknownFrom:
    """After which t a model of kernels never is certain again.

    Attributes:
        t: `(N,)`; infinite on rays along which it stays certain for ever.
        exact: `(N,)`, whether no smaller t would do: at t itself the model is still that certain, or t is 0. Else t is
            only surely late enough.
        limit: `(N,)`, the confidence that is left at infinity.
        unfollowed: rays of which t is not exact only because a budget was spent.
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
    """The t after which the confidence in `x + t · direction` stays low for ever, in float64 and eval mode.

    DUQ's certainty then stays below `eps`. Where its network is affine, each log-kernel is a concave quadratic in t, or
    a constant, so that the last t at which one reaches `log eps` is a root; the rays are followed from breakpoint to
    breakpoint, unless there are too many. The confidence of an RBF network over K classes then stays below
    `1/K + eps`, since the ray has left all its centres farther behind than theorem 3.2 asks for.

    Args:
        model: a DUQ over a piecewise affine network, or an RBF network.
        x, direction: rays, as in `asymptote`.
        eps: how low.
        limit: pieces of a ray to look at, as in `certain_from`; where there are more, t is at most the start of the
            last one, or exact there.
        budget: seconds in which to follow rays, as in `certain_from`; of those that it leaves out, t is that, too.
        batch_size: rays at a time.
        progress: a bar on standard error; by default only on a terminal.
    """
    if not isinstance(model, KernelMethod):
        raise NescioError(
            f"a {type(model).__name__} was given, which need not grow uncertain far away; expected a DUQ "
            "or an RBFNetwork. nescio.audit.asymptote tells what others do"
        )
    x, direction = checked_rays(x, direction, model)
    checked_limit(limit)
    eps, time = checked_eps(eps), budget_of(budget)
    size = chunk(x, batch_size)
    parts = []
    with audited(model) as model:
        with bar(len(x), "unknown", progress) as shown:
            for pair in zip(x.split(size), direction.split(size), strict=True):
                parts.append(_at_infinity(model, *pair, eps))
                shown.advance(len(pair[0]))
        t, tight, left = (
            torch.cat([getattr(one, name) for one in parts]) for name in ("t", "exact", "limit")
        )
        found = UnknownFrom(t, tight, left)
        if not model.exact_reach or not (
            limit := worth_following(model.kernel_features(), x, direction, limit, time)
        ):
            return found
        return _followed(model, x, direction, found, eps, limit, size, time, progress)


def checked_eps(eps: float) -> float:
    """How low a confidence must stay, or an error if that is not above 0 and below 1."""
    if not 0 < check_float("eps", eps, most=1) < 1:
        raise NescioError(f"eps must be above 0 and below 1, not {eps!r}")
    return float(eps)


def _at_infinity(model: KernelMethod, x: Tensor, direction: Tensor, eps: float) -> UnknownFrom:
    """As the law at infinity has it, exact where the model is certain somewhere on the last piece."""
    law = asymptote(model.kernel_features(), x, direction, progress=False)
    endless = torch.full_like(law.start, torch.inf)
    last = model.last_known(law.slope, law.intercept, law.start, endless, eps)
    limit = model.limit_confidence(law.slope, law.intercept)
    exact = (last > law.start) & model.exact_reach
    return UnknownFrom(torch.maximum(last, law.start), exact, limit)


def _followed(
    model: KernelMethod,
    x: Tensor,
    direction: Tensor,
    late: UnknownFrom,
    eps: float,
    limit: int,
    batch_size: int,
    budget: Budget,
    progress: bool | None,
) -> UnknownFrom:
    """What is exact also of rays that are certain for the last time before their last piece, up to which they go."""
    t, tight = late.t.clone(), late.exact.clone()
    order = (~tight).nonzero().flatten()
    if budget.seconds is not None:
        order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(0))]
    unfollowed = len(order)
    with exact(model.kernel_features(), x) as net, bar(len(order), "prove", progress) as shown:
        for some in budget.batches(len(order), batch_size):
            rays = order[some]
            step = partial(budget.show, shown, len(order) - unfollowed, len(order))
            t[rays], tight[rays], cut = _before(
                model, net, x[rays], direction[rays], t[rays], eps, limit, budget, step
            )
            unfollowed -= len(rays) - cut
            budget.show(shown, len(order) - unfollowed, len(order))
    return UnknownFrom(t, tight, late.limit, unfollowed)


def _before(
    model: KernelMethod,
    net: nn.Module,
    x: Tensor,
    direction: Tensor,
    start: Tensor,
    eps: float,
    limit: int,
    budget: Budget,
    step: Callable[[], None],
) -> tuple[Tensor, Tensor, int]:
    """The last certain t on rays that know nothing after `start`, whether they were followed so far, how many cut."""
    t, still = x.new_full((len(x),), -torch.inf), torch.ones(len(x), dtype=torch.bool)
    cut = 0
    for pieces in followed_rays(net, x, direction, torch.inf, limit, still):
        last = model.last_known(pieces.slope, pieces.intercept, pieces.begin, pieces.end, eps)
        t[pieces.ray] = torch.maximum(t[pieces.ray], last)
        still[pieces.ray] = pieces.end < start[pieces.ray]
        step()
        if budget.left <= 0:
            cut = int(still.sum())
            break
    # a ray along which it never was certain does not know from 0 on
    return torch.where(still, start, t.clamp(min=0)), ~still, cut
