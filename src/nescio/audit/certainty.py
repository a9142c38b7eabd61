"""How far along a ray until a model is certain: proved piece by piece, or measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from nescio.audit.affine.asymptote import (
    Asymptote,
    asymptote,
    check_rays,
    eval_replica,
    float64_copy,
    rays_per_batch,
)
from nescio.audit.affine.laws import NotAffineError
from nescio.audit.affine.trace import Pieces, least_breakpoints, next_pieces, without_near_ties
from nescio.audit.budget import Budget, as_budget
from nescio.core.logits import softmax_confidence
from nescio.core.predict import predict
from nescio.errors import NescioError, check_float, check_int
from nescio.methods import KernelMethod, as_method
from nescio.progress import Bar, bar
from nescio.seeds import check_seed, derived_seed

MAX_PIECES = 400  # of a ray that is followed, by default
MAX_WORK = 10**10  # choices of single units in following all rays by default: minutes, on two cores
PILOT_RAYS = 8  # which show whether the others are worth following
SCAN_STEPS = 92  # each by a factor of √2: from a hundredth of the way to 0, to 10¹¹ times as far
HALVINGS = 18  # of the step in which a scan finds a ray certain


@final
@dataclass(frozen=True)
class CertainFrom:
    """Where on rays a model is certain for the first time.

    Attributes:
        t: `(N,)`; infinite where it never is, or was not seen to be.
        proved: `(N,)`, whether no smaller t exists; else t was found by a scan, which may have
            missed something before it.
        unfollowed: rays that were only scanned because a budget was spent.
    """

    t: Tensor
    proved: Tensor
    unfollowed: int = 0


@dataclass(frozen=True)
class Following:
    """How rays are followed: up to how many pieces, how long, how many at a time."""

    limit: int | None  # None: MAX_PIECES, unless it would take too long
    budget: Budget
    batch_size: int
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        check_int("limit", 0 if self.limit is None else self.limit, least=0)
        check_seed(self.seed)

    def max_pieces(self, model: nn.Module, x: Tensor, direction: Tensor) -> int:
        """Return up to how many pieces to follow rays: 0 if some of them have too many."""
        limit = MAX_PIECES if self.limit is None else self.limit
        if limit == 0:
            return 0
        pilot = torch.linspace(0, len(x) - 1, min(PILOT_RAYS, len(x))).long()
        with float64_copy(model, x) as double:
            breakpoints, units = least_breakpoints(double, x[pilot], direction[pilot])
        by_default = self.limit is None and self.budget.seconds is None
        too_long = by_default and len(x) * breakpoints * units > MAX_WORK
        return 0 if too_long or breakpoints >= limit else limit

    def follow(
        self,
        model: nn.Module,
        x: Tensor,
        direction: Tensor,
        order: Tensor,
        max_pieces: int,
        visit: Callable[[Tensor, Pieces], Tensor],
        shown: Bar,
    ) -> tuple[Tensor, int]:
        """Follow rays in an order as long as the budget lasts, and return which reached their goal.

        Args:
            model: a piecewise affine network.
            x, direction: rays.
            order: which of them to follow, `(R,)`.
            max_pieces: of a ray.
            visit: from rays and the next piece of each to whether they go on, `(P,)`.
            shown: the progress bar.

        Returns:
            Whether each ray `(N,)` reached its goal, and how many the budget did not cut off.
        """
        reached, followed = torch.zeros(len(x), dtype=torch.bool), 0
        with float64_copy(model, x) as double:
            for batch in self.budget.batches(len(order), self.batch_size):
                rays, done = order[batch], int(reached.sum())
                going = torch.ones(len(rays), dtype=torch.bool)
                followed += len(rays)
                pieces_of_rays = next_pieces(
                    double, x[rays], direction[rays], torch.inf, max_pieces, going
                )
                for pieces in pieces_of_rays:
                    going[pieces.ray] = visit(rays[pieces.ray], pieces)
                    self.budget.show(shown, done, len(order))
                    if self.budget.left <= 0:
                        followed -= int(going.sum())
                        break
                reached[rays] = ~going
                self.budget.show(shown, int(reached.sum()), len(order))
        return reached, followed


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
    """Return the smallest t at which the confidence in `x + t · direction` reaches a level.

    A piecewise affine network is followed from breakpoint to breakpoint. Where there are too many,
    and for models with draws, kernels or other nonlinear layers, the ray is scanned in growing
    steps, and the step in which the model becomes certain is bisected; after the last breakpoint
    the law at infinity decides.

    Args:
        model: a method or a bare network.
        x, direction: rays, as in `asymptote`.
        confidence: the level, in (½, 1).
        limit: the most pieces of a ray to follow before scanning it instead; 0 to scan all. By
            default 400, and 0 if following all rays would take more than some minutes.
        budget: seconds. All rays are scanned, and as many of them followed, in random order, as fit
            into the rest. How many depends on the machine, what is proved of them does not.
        batch_size, seed, progress: as in `asymptote`.
    """
    x, direction = check_rays(x, direction, model)
    size = rays_per_batch(x, batch_size)
    following = Following(limit, as_budget(budget), size, seed, progress)
    with eval_replica(model) as model:
        law = law_or_none(model, x, direction, size, seed, progress)
        pieces = pieces_to_follow(model, x, direction, law, following)
        return certain_along(model, x, direction, law, pieces, confidence, following)


def law_or_none(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    batch_size: int,
    seed: int,
    progress: bool | None,
) -> Asymptote | None:
    """Return the law at infinity, or None without one or if the confidence is not a softmax's."""
    if isinstance(model, KernelMethod):
        return None
    try:
        first = asymptote(model, x[:1], direction[:1], seed=seed, progress=False)
    except NotAffineError:
        return None
    logits = torch.linspace(-3, 3, 5 * first.slope.shape[-1]).sin().reshape(1, 5, -1)
    if not torch.equal(as_method(model).confidence(logits), softmax_confidence(logits)):
        return None
    return asymptote(model, x, direction, batch_size=batch_size, seed=seed, progress=progress)


def pieces_to_follow(
    model: nn.Module, x: Tensor, direction: Tensor, law: Asymptote | None, following: Following
) -> int:
    """Return up to how many pieces to follow rays: 0 without one law each."""
    if law is None or law.slope.dim() == 3:
        return 0
    return following.max_pieces(model, x, direction)


def certain_along(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    law: Asymptote | None,
    pieces: int,
    confidence: float,
    following: Following,
) -> CertainFrom:
    """Return what `certain_from` does, of checked rays whose law is known, or known to be none."""
    if not check_float("confidence", confidence, least=0.5, most=1) < 1:
        raise NescioError("confidence must be below 1, which no softmax reaches")
    eps, count, progress = 1 - confidence, len(x), following.progress
    t, first = x.new_full((2, count), torch.inf)
    proved = torch.zeros(count, dtype=torch.bool)

    def visit(rays: Tensor, pieces: Pieces) -> Tensor:
        first[rays] = pieces.first_certain(eps)
        going: Tensor = first[rays].isinf() & pieces.end.isfinite()
        return going

    def follow(order: Tensor, shown: Bar) -> tuple[Tensor, int]:
        return following.follow(model, x, direction, order, pieces, visit, shown)

    in_budget = pieces > 0 and following.budget.seconds is not None
    with bar(count, "certain", progress) as shown:
        if pieces and not in_budget:
            proved, _ = follow(torch.arange(count), shown)
        rest = (~proved).nonzero().flatten()
        rest_law = None if law is None else law.select(rest)
        t[rest] = _scan(model, x[rest], direction[rest], eps, rest_law, following, shown)
    followed = count
    if in_budget:
        generator = torch.Generator().manual_seed(derived_seed(following.seed, "followed", 0))
        with bar(count, "prove", progress) as shown:
            proved, followed = follow(torch.randperm(count, generator=generator), shown)
    return CertainFrom(torch.where(proved, first, t), proved, count - followed)


def _scan(
    model: nn.Module,
    x: Tensor,
    direction: Tensor,
    eps: float,
    law: Asymptote | None,
    following: Following,
    shown: Bar,
) -> Tensor:
    """Return the first certain t that steps which grow by √2 come across, `(N,)`."""
    method, size, seed = as_method(model), following.batch_size, following.seed
    low, high = (x.new_full((len(x),), torch.inf) for _ in range(2))

    def confidence_at(rays: Tensor, t: Tensor) -> Tensor:
        inputs = x[rays] + t.view(-1, *[1] * (x.dim() - 1)) * direction[rays]
        logits = predict(method, inputs, batch_size=size, seed=seed, progress=False)
        return method.confidence(logits).double()

    rays, before = torch.arange(len(x)), x.new_zeros(len(x))
    first = _first_step(x, direction)
    for step in range(SCAN_STEPS):
        if len(rays) == 0:
            break
        now = first[rays] * (2 ** (step / 2 - 0.5) if step else 0)
        confidence = confidence_at(rays, now)
        certain = confidence >= 1 - eps
        low[rays[certain]], high[rays[certain]] = before[rays[certain]], now[certain]
        decided = certain
        if law is not None:
            by_law = _decided_by(law.select(rays), now, confidence, eps) & ~certain
            if law.slope.dim() == 2:
                high[rays[by_law]] = _certain_after(law.select(rays[by_law]), now[by_law], eps)
            decided = certain | by_law
        before[rays] = now
        shown.advance(int(decided.sum()))
        rays = rays[~decided]
    rays = (low < high).nonzero().flatten()  # not those that were certain at once, or never
    for _ in range(HALVINGS if len(rays) else 0):
        middle = (low[rays] + high[rays]) / 2
        certain = confidence_at(rays, middle) >= 1 - eps
        low[rays] = torch.where(certain, low[rays], middle)
        high[rays] = torch.where(certain, middle, high[rays])
    return high


def _first_step(x: Tensor, direction: Tensor) -> Tensor:
    """Return a hundredth of the distance to 0, or of 1 at 0, in lengths of the direction."""
    away, length = (torch.linalg.vector_norm(rows.flatten(1), dim=1) for rows in (x, direction))
    first: Tensor = torch.where(away > 0, away / length, 1.0) / 100
    return first


def _decided_by(law: Asymptote, now: Tensor, confidence: Tensor, eps: float) -> Tensor:
    """Return which rays the law at infinity decides from now on, `(R,)`."""
    if law.slope.dim() == 2:
        return (now >= law.start) & (confidence < 1 - eps)
    # there is no closed form for a mean of softmaxes, but it converges
    limit = law.limit.amax(1)
    return (now >= law.start) & (limit < 1 - eps) & ((confidence - limit).abs() < 1e-6)


def _certain_after(law: Asymptote, now: Tensor, eps: float) -> Tensor:
    """Return the first certain t after now, on the last piece of each ray."""
    end = torch.full_like(now, torch.inf)
    slope = without_near_ties(law.slope, end)
    return Pieces(torch.arange(len(now)), now, end, slope, law.intercept).first_certain(eps)
