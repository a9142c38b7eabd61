"""How far along a ray until a model is certain: proved piece by piece, or measured."""

from collections.abc import Callable
from contextlib import suppress
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
from nescio.methods import as_method
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
        proved: `(N,)`, whether no smaller t exists; else a scan found t, and may have missed one.
        unfollowed: rays that were only scanned because a budget was spent.
    """

    t: Tensor
    proved: Tensor
    unfollowed: int = 0


@dataclass(frozen=True)
class RaySearch:
    """Rays `x + t · direction` of a model, and how they are followed."""

    model: nn.Module
    x: Tensor
    direction: Tensor
    limit: int | None  # pieces of a ray; None for MAX_PIECES, unless it would take too long
    budget: Budget
    batch_size: int
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        check_int("limit", 0 if self.limit is None else self.limit, least=0)
        check_seed(self.seed)

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the model's logits `(S, N, C)` at some inputs."""
        how: dict[str, Any] = {"batch_size": self.batch_size, "seed": self.seed, "progress": False}
        return predict(self.model, inputs, **how)

    def law(self) -> Asymptote | None:
        """Return the law at infinity, or None if the model is not piecewise affine."""
        if as_method(self.model).kernels():
            return None
        how: dict[str, Any] = {"batch_size": self.batch_size, "progress": self.progress}
        with suppress(NotAffineError):
            return asymptote(self.model, self.x, self.direction, seed=self.seed, **how)
        return None

    def softmax_law(self, law: Asymptote | None) -> Asymptote | None:
        """Return a law of the model, or None if its confidence is not a softmax of its logits."""
        if law is None:
            return None
        # a method of a user's may have a confidence of its own: compare it on some logits
        logits = torch.linspace(-3, 3, 5 * law.slope.shape[-1]).sin().reshape(1, 5, -1)
        confidence = as_method(self.model).confidence(logits)
        return law if torch.equal(confidence, softmax_confidence(logits)) else None

    def max_pieces(self) -> int:
        """Return up to how many pieces to follow rays: 0 if some of them have too many."""
        if (limit := MAX_PIECES if self.limit is None else self.limit) == 0:
            return 0
        count = len(self.x)
        pilot = torch.linspace(0, count - 1, min(PILOT_RAYS, count)).long()
        with float64_copy(self.model, self.x) as double:
            breakpoints, units = least_breakpoints(double, self.x[pilot], self.direction[pilot])
        by_default = self.limit is None and self.budget.seconds is None
        too_long = by_default and count * breakpoints * units > MAX_WORK
        return 0 if too_long or breakpoints >= limit else limit

    def follow(
        self, order: Tensor, max_pieces: int, visit: Callable[[Tensor, Pieces], Tensor], shown: Bar
    ) -> tuple[Tensor, int]:
        """Follow rays in an order `(R,)` as long as the budget lasts.

        `visit` takes rays and the next piece of each, and returns whether they go on, `(P,)`. The
        result is whether each ray `(N,)` reached its goal, and how many the budget did not cut off.
        """
        x, direction = self.x, self.direction
        reached, followed = torch.zeros(len(x), dtype=torch.bool), 0
        with float64_copy(self.model, x) as double:
            for batch in self.budget.batches(len(order), self.batch_size):
                rays, done = order[batch], int(reached.sum())
                going = torch.ones(len(rays), dtype=torch.bool)
                followed += len(rays)
                for pieces in next_pieces(double, x[rays], direction[rays], max_pieces, going):
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

    >>> found = certain_from(net, x[:1], torch.tensor([1.0, 0.0]), confidence=0.999)
    >>> bool(found.proved), float(found.t) > 0
    (True, True)
    """
    x, direction = check_rays(x, direction, model)
    time, size = as_budget(budget), rays_per_batch(x, batch_size)
    with eval_replica(model) as model:
        search = RaySearch(model, x, direction, limit, time, size, seed, progress)
        law = search.softmax_law(search.law())
        return certain_along(search, law, confidence)[0]


def certain_along(
    search: RaySearch, law: Asymptote | None, confidence: float
) -> tuple[CertainFrom, int]:
    """Return what `certain_from` does for rays of a law, and how many pieces they were followed."""
    if not check_float("confidence", confidence, least=0.5, most=1) < 1:
        raise NescioError("confidence must be below 1, which no softmax reaches")
    max_pieces = 0 if law is None or law.slope.dim() == 3 else search.max_pieces()
    eps, count = 1 - confidence, len(search.x)
    t, first = (search.x.new_full((count,), torch.inf) for _ in range(2))
    proved, followed = torch.zeros(count, dtype=torch.bool), count

    def visit(rays: Tensor, pieces: Pieces) -> Tensor:
        first[rays] = pieces.first_certain(eps)
        return first[rays].isinf() & pieces.end.isfinite()

    in_budget = max_pieces > 0 and search.budget.seconds is not None
    with bar(count, "certain", search.progress) as shown:
        if max_pieces and not in_budget:
            proved, _ = search.follow(torch.arange(count), max_pieces, visit, shown)
        rest = (~proved).nonzero().flatten()
        t[rest] = _scan(search, rest, law and law.select(rest), eps, shown)
    if in_budget:
        generator = torch.Generator().manual_seed(derived_seed(search.seed, "followed", 0))
        order = torch.randperm(count, generator=generator)
        with bar(count, "prove", search.progress) as shown:
            proved, followed = search.follow(order, max_pieces, visit, shown)
    return CertainFrom(torch.where(proved, first, t), proved, count - followed), max_pieces


def _scan(
    search: RaySearch, chosen: Tensor, law: Asymptote | None, eps: float, shown: Bar
) -> Tensor:
    """Return the first certain t that steps which grow by √2 come across, of some rays, `(R,)`."""
    method, x, direction = as_method(search.model), search.x[chosen], search.direction[chosen]
    low, high = (x.new_full((len(x),), torch.inf) for _ in range(2))

    def confidence_at(rays: Tensor, t: Tensor) -> Tensor:
        inputs = x[rays] + t.view(-1, *[1] * (x.dim() - 1)) * direction[rays]
        return method.confidence(search.logits(inputs)).double()

    rays, before = torch.arange(len(x)), x.new_zeros(len(x))
    away, length = (torch.linalg.vector_norm(rows.flatten(1), dim=1) for rows in (x, direction))
    first = torch.where(away > 0, away / length, 1.0) / 100  # of the way to 0, if there is one
    for step in range(SCAN_STEPS):
        if len(rays) == 0:
            break
        now = first[rays] * (2 ** (step / 2 - 0.5) if step else 0)
        confidence = confidence_at(rays, now)
        decided = certain = confidence >= 1 - eps
        low[rays[certain]], high[rays[certain]] = before[rays[certain]], now[certain]
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


def _decided_by(law: Asymptote, now: Tensor, confidence: Tensor, eps: float) -> Tensor:
    """Return which rays the law at infinity decides from now on, `(R,)`."""
    limit, uncertain = law.limit.amax(1), confidence < 1 - eps
    if law.slope.dim() == 3:  # no closed form for a mean of softmaxes, but it converges
        uncertain = (limit < 1 - eps) & ((confidence - limit).abs() < 1e-6)
    return (now >= law.start) & uncertain


def _certain_after(law: Asymptote, now: Tensor, eps: float) -> Tensor:
    """Return the first certain t after now, on the last piece of each ray."""
    end = torch.full_like(now, torch.inf)
    slope = without_near_ties(law.slope, end)
    return Pieces(torch.arange(len(now)), now, end, slope, law.intercept).first_certain(eps)
