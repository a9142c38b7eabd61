"""How far along a ray until a model is certain: proved from breakpoint to breakpoint, or else measured."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.affine.asymptote import Asymptote, asymptote, audited, checked_rays, chunk, exact
from nescio.audit.affine.laws import NotAffineError
from nescio.audit.affine.trace import Pieces, followed_rays, least_bends, settled
from nescio.audit.budget import Budget, budget_of
from nescio.core.logits import softmax_confidence
from nescio.core.predict import predict
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import KernelMethod, as_method
from nescio.progress import Bar, bar
from nescio.seeds import check_seed, derived_seed

LIMIT = 400  # pieces of a ray that are looked at, unless more are asked for,
WORK = (
    10**10
)  # or following all rays takes more choices of single units than this: minutes, on two cores
PILOT = 8  # rays that tell whether the others are worth following
STEPS = 92  # of a scan, each by a factor of √2: from a hundredth of the way back to 0, to some 10¹¹ times as far
HALVINGS = 18  # of the step in which a scan found a ray certain


@dataclass(frozen=True)
class CertainFrom:
    """Where on rays a model is certain for the first time.

    Attributes:
        t: `(N,)`; infinite where it never is, or was not seen to be.
        proved: `(N,)`, whether no smaller t exists; else t was found by a scan, and something before it overlooked.
        unfollowed: rays that were scanned only because a budget was spent.
    """

    t: Tensor
    proved: Tensor
    unfollowed: int = 0


def certain_from(
    model: nn.Module,
    x: Any,
    direction: Any,
    *,
    confidence: float = 0.999,
    limit: int | None = None,
    budget: float | Budget | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> CertainFrom:
    """The smallest t at which the confidence in `x + t · direction` reaches some bar.

    A piecewise affine network is followed from breakpoint to breakpoint. Where there are too many, and for
    models with draws, kernels or other nonlinear layers, the ray is scanned in growing steps, and the step in which the
    model becomes certain is halved again and again; after the last breakpoint the law at infinity decides.

    Args:
        model: a method or a bare network.
        x, direction: rays, as in `asymptote`.
        confidence: the bar, in (½, 1).
        limit: pieces of a ray to look at before scanning it instead; 0 to scan all. By default 400, and none if to
            follow all rays takes longer than some minutes.
        budget: seconds. All rays are scanned then, and as many of them followed, in random order, as fit into the rest
            of it; how many that are hangs on the machine, what is proved of them does not.
        batch_size, seed, progress: as in `asymptote`.
    """
    x, direction = checked_rays(x, direction, model)
    time, size = budget_of(budget), chunk(x, batch_size)
    with audited(model) as model:
        law = law_of(model, x, direction, size, check_seed(seed), progress)
        return certain_along(
            model, x, direction, law, confidence, limit, time, size, seed, progress
        )


def certain_along(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    law: Asymptote | None,
    confidence: float,
    limit: int | None,
    budget: Budget,
    batch_size: int,
    seed: int,
    progress: bool | None,
) -> CertainFrom:
    """What `certain_from` gives, of checked rays whose law is known, or known to be none."""
    if not check_float("confidence", confidence, least=0.5, most=1) < 1:
        raise NescioError("confidence must be below 1, which no softmax reaches")
    eps = 1 - confidence
    t = x.new_full((len(x),), torch.inf)
    proved = torch.zeros(len(x), dtype=torch.bool)
    pieces = pieces_of(model, x, direction, law, limit, budget)
    follow = partial(_followed, model, x, direction, eps, pieces, batch_size, budget, t, proved)
    with bar(len(x), "certain", progress) as shown:
        if pieces and budget.seconds is None:
            follow(torch.arange(len(x)), shown)
        rest = (~proved).nonzero().flatten()
        t[rest] = _scanned(
            model, x[rest], direction[rest], eps, law and _of(law, rest), batch_size, seed, shown
        )
    if not pieces or budget.seconds is None:
        return CertainFrom(t, proved)
    generator = torch.Generator().manual_seed(derived_seed(seed, "followed", 0))
    with bar(len(x), "prove", progress) as shown:
        tried = follow(torch.randperm(len(x), generator=generator), shown)
    return CertainFrom(t, proved, len(x) - tried)


def law_of(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    batch_size: int,
    seed: int,
    progress: bool | None,
) -> Asymptote | None:
    """The law at infinity, or None if the model has none, or a confidence of its own, that is no softmax's."""
    if isinstance(model, KernelMethod):
        return None
    try:
        first = asymptote(model, x[:1], direction[:1], seed=seed, progress=False)
    except NotAffineError:
        return None
    any_logits = torch.linspace(-3, 3, 5 * first.slope.shape[-1]).sin().reshape(1, 5, -1)
    if not torch.equal(as_method(model).confidence(any_logits), softmax_confidence(any_logits)):
        return None
    return asymptote(model, x, direction, batch_size=batch_size, seed=seed, progress=progress)


def _followed(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    eps: float,
    limit: int,
    batch_size: int,
    budget: Budget,
    t: Tensor,
    proved: Tensor,
    order: Tensor,
    shown: Bar,
) -> int:
    """Write on `t` and `proved` what following rays in some order finds, and return how many the budget let end."""
    tried = 0
    with exact(model, x) as double:
        for some in budget.batches(len(order), batch_size):
            rays = order[some]
            step = partial(budget.show, shown, int(proved.sum()), len(order))
            found, done, cut = _followed_some(
                double, x[rays], direction[rays], eps, limit, budget, step
            )
            t[rays[done]], proved[rays] = found[done], done
            tried += len(rays) - cut
            budget.show(shown, int(proved.sum()), len(order))
    return tried


def pieces_of(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    law: Asymptote | None,
    limit: int | None,
    budget: Budget,
) -> int:
    """Up to how many pieces rays are worth following: none without one law each."""
    checked_limit(limit)
    return (
        0
        if law is None or law.slope.dim() == 3
        else worth_following(model, x, direction, limit, budget)
    )


def checked_limit(limit: int | None) -> int:
    """The limit, or what it is by default."""
    return LIMIT if limit is None else check_int("limit", limit, least=0)


def worth_following(
    model: nn.Module, x: Tensor, direction: Tensor, limit: int | None, budget: Budget
) -> int:
    """Up to how many pieces rays are worth following: none if, as some of them show, there are too many.

    Without a limit and a budget, following all of them must not take longer than some minutes either.
    """
    most = checked_limit(limit)
    if most == 0:
        return 0
    some = torch.linspace(0, len(x) - 1, min(PILOT, len(x))).long()
    with exact(model, x) as double:
        bends, units = least_bends(double, x[some], direction[some])
    long = limit is None and budget.seconds is None and len(x) * bends * units > WORK
    return 0 if long or bends >= most else most


def _followed_some(
    double: nn.Module,
    x: Tensor,
    direction: Tensor,
    eps: float,
    limit: int,
    budget: Budget,
    step: Callable[[], None],
) -> tuple[Tensor, Tensor, int]:
    """The first certain t of rays, whether each was followed up to it, or to its end, and how many the budget cut."""
    t, still = x.new_full((len(x),), torch.inf), torch.ones(len(x), dtype=torch.bool)
    for pieces in followed_rays(double, x, direction, torch.inf, limit, still):
        t[pieces.ray] = pieces.first_certain(eps)
        still[pieces.ray] = t[pieces.ray].isinf() & pieces.end.isfinite()
        step()
        if budget.left <= 0:
            return t, ~still, int(still.sum())
    return t, ~still, 0


def _scanned(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    eps: float,
    law: Asymptote | None,
    batch_size: int,
    seed: int,
    shown: Bar,
) -> Tensor:
    """The first certain t that steps which grow by √2 come across, `(N,)`."""
    method = as_method(model)
    low, high = (x.new_full((len(x),), torch.inf) for _ in range(2))

    def confidence(rays: Tensor, t: Tensor) -> Tensor:
        inputs = x[rays] + t.view(-1, *[1] * (x.dim() - 1)) * direction[rays]
        return method.confidence(
            predict(method, inputs, batch_size=batch_size, seed=seed, progress=False)
        ).double()

    rays = torch.arange(len(x))
    first, before = _first_step(x, direction), x.new_zeros(len(x))
    for step in range(STEPS):
        if len(rays) == 0:
            break
        now = first[rays] * (2 ** (step / 2 - 0.5) if step else 0)
        found = confidence(rays, now)
        sure = found >= 1 - eps
        low[rays[sure]], high[rays[sure]] = before[rays[sure]], now[sure]
        over = sure if law is None else sure | _over(_of(law, rays), now, found, eps, high, rays)
        before[rays] = now
        shown.advance(int(over.sum()))
        rays = rays[~over]
    rays = (low < high).nonzero().flatten()  # not those that were certain at once, or never
    for _ in range(HALVINGS if len(rays) else 0):
        middle = (low[rays] + high[rays]) / 2
        sure = confidence(rays, middle) >= 1 - eps
        low[rays], high[rays] = (
            torch.where(sure, low[rays], middle),
            torch.where(sure, middle, high[rays]),
        )
    return high


def _first_step(x: Tensor, direction: Tensor) -> Tensor:
    """A hundredth of the distance to 0, in lengths of the direction; of that length itself, where the ray is at 0."""
    away, length = (torch.linalg.vector_norm(one.flatten(1), dim=1) for one in (x, direction))
    first: Tensor = torch.where(away > 0, away / length, 1.0) / 100
    return first


def _over(
    law: Asymptote, now: Tensor, found: Tensor, eps: float, high: Tensor, rays: Tensor
) -> Tensor:
    """Which rays the law at infinity decides from now on, `(R,)`; where they will be certain is written on `high`."""
    most = law.limit.amax(1)
    if law.slope.dim() == 3:  # there is no closed form for a mean of softmaxes, but it settles
        return (now >= law.start) & (most < 1 - eps) & ((found - most).abs() < 1e-6)
    last = (now >= law.start) & (found < 1 - eps)
    where = last.nonzero().flatten()
    never = torch.full_like(now[where], torch.inf)
    tail = Pieces(where, now[where], never, settled(law.slope[where], never), law.intercept[where])
    high[rays[where]] = tail.first_certain(eps)
    return last


def _of(law: Asymptote, rays: Tensor) -> Asymptote:
    """The law of some rays."""
    slope, intercept = law.slope[..., rays, :], law.intercept[..., rays, :]
    return Asymptote(slope, intercept, law.start[rays], law.winner[rays], law.limit[rays])
