"""The whole of a ray: every breakpoint of a piecewise affine network along it, and its exact law in between."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.audit.affine.asymptote import check_law, checked_rays, exact, law_at
from nescio.audit.affine.laws import Rays, leading
from nescio.errors import NescioError, check_float, check_int
from nescio.progress import bar

HALVINGS = 120
LIMIT = 100_000
TOGETHER = 2**22  # logits that are looked at together


@dataclass(frozen=True)
class Pieces:
    """Some pieces of rays, `(P, …)`, on each of which the network obeys one law.

    Attributes:
        ray: `(P,)`, which ray a piece is of.
        begin, end: `(P,)`, from which t to which; the last piece of a ray may never end.
        slope, intercept: `(P, C)`; on its piece the logits are `slope · t + intercept`.
    """

    ray: Tensor
    begin: Tensor
    end: Tensor
    slope: Tensor
    intercept: Tensor

    def first_certain(self, eps: float) -> Tensor:
        """The smallest t of each piece at which some class has probability at least `1 − eps`, or infinity, `(P,)`.

        `log p_c` is a concave function of t, so where it is high enough is an interval, whose left end is found by
        halving on the rising side of its maximum.
        """
        wanted = math.log1p(-eps)
        found = self.begin.new_full((len(self.begin),), torch.inf)
        for some in self._chunks():
            hopeful = some[self._only(some)._bound() >= wanted]
            found[hopeful] = self._only(hopeful)._first(wanted)
        return found

    def _only(self, some: Tensor) -> "Pieces":
        return Pieces(*(getattr(self, part.name)[some] for part in fields(Pieces)))

    def _chunks(self) -> tuple[Tensor, ...]:
        """Positions of pieces in parts, so that the differences of all their logits fit in memory."""
        return torch.split(
            torch.arange(len(self.begin)), max(1, TOGETHER // self.slope.shape[1] ** 2)
        )

    def _first(self, wanted: float) -> Tensor:
        begin = self.begin[:, None].expand_as(self.slope)
        peak = self._peak(begin, self._far_end(wanted))
        reached = self._log_p(peak) >= wanted
        low, high = begin.clone(), peak.clone()
        for middle in _halved(low, high):
            fits = self._log_p(middle) >= wanted
            low.copy_(torch.where(fits, low, middle))
            high.copy_(torch.where(fits, middle, high))
        found = torch.where(self._log_p(begin) >= wanted, begin, high)
        return found.masked_fill(~reached, torch.inf).amin(1)

    def _bound(self) -> Tensor:
        """What no `log p` exceeds on its piece, `(P,)`: differences of logits are largest at one of the ends."""
        ends = [
            self.slope * t[:, None] + self.intercept
            for t in (self.begin, self.end.nan_to_num(posinf=0.0))
        ]
        lead = torch.stack([z[:, :, None] - z[:, None, :] for z in ends]).amax(
            0
        )  # (P, C, C), of one over another
        bound = -(-lead).logsumexp(2).amin(1)
        return bound.masked_fill(self.end.isinf(), 0.0)

    def largest(self) -> tuple[Tensor, Tensor]:
        """The largest probability of any class on each piece, and at which t, `(P,)` both.

        On a piece that never ends it may only be approached; t is then infinite.
        """
        log_rest, t = self._most()
        return -log_rest.expm1(), t

    def _most(self) -> tuple[Tensor, Tensor]:
        parts = [self._only(some)._least_rest() for some in self._chunks()]
        return torch.cat([rest for rest, _ in parts]), torch.cat([t for _, t in parts])

    def _least_rest(self) -> tuple[Tensor, Tensor]:
        """The smallest `log(1 − p)` of any class on each piece, and its t: it tells apart what p would round to 1."""
        begin = self.begin[:, None].expand_as(self.slope)
        peak = self._peak(begin, self._far_end(-1e-16))
        own = torch.eye(self.slope.shape[1], dtype=torch.bool)
        logits = self.slope[:, None, :] * peak[:, :, None] + self.intercept[:, None, :]  # (P, C, C)
        rest = logits.masked_fill(own, -torch.inf).logsumexp(2) - logits.logsumexp(2)
        least, place = rest.min(1)
        ahead = self.intercept.masked_fill(~leading(self.slope), -torch.inf)
        limit = ahead.masked_fill(F.one_hot(ahead.argmax(1), len(own)).bool(), -torch.inf)
        limit = limit.logsumexp(1) - ahead.logsumexp(1)
        # slopes that are all alike are at their limit from the beginning
        approached = self.end.isinf() & (limit <= least) & ~leading(self.slope).all(1)
        t = torch.where(approached, torch.inf, peak.gather(1, place[:, None]).squeeze(1))
        return torch.where(approached, limit, least), t

    def _log_p(self, t: Tensor) -> Tensor:
        """`log p_c`, `(P, C)`, of each class at a t of its own, `(P, C)`."""
        logits = self.slope[:, None, :] * t[:, :, None] + self.intercept[:, None, :]  # (P, C, C)
        return torch.diagonal(logits, dim1=1, dim2=2) - logits.logsumexp(2)

    def _peak(self, begin: Tensor, end: Tensor) -> Tensor:
        """Where `log p_c` is largest on its piece, `(P, C)`: where its derivative changes sign, by halving."""
        low, high = begin.clone(), end[:, None].expand_as(begin).clone()
        for middle in _halved(low, high):
            logits = self.slope[:, None, :] * middle[:, :, None] + self.intercept[:, None, :]
            rising = self.slope - (logits.softmax(2) * self.slope[:, None, :]).sum(2) > 0
            low.copy_(torch.where(rising, middle, low))
            high.copy_(torch.where(rising, high, middle))
        return (low + high) / 2

    def _far_end(self, wanted: float) -> Tensor:
        """The end of each piece or, where it has none, a t beyond which no `log p` crosses what is wanted, `(P,)`.

        There what other classes have left is less than the distance of the limit to what is wanted.
        """
        ahead = leading(self.slope)
        gap = (self.slope.amax(1, keepdim=True) - self.slope).masked_fill(ahead, torch.inf).amin(1)
        limit = self.intercept.masked_fill(~ahead, -torch.inf).log_softmax(1).amax(1)
        room = torch.expm1(limit - wanted).abs().clamp(min=1e-16)
        spread = self.intercept.amax(1) - self.intercept.amin(1)
        need = spread + 1 - room.log() + math.log(self.slope.shape[1])
        return torch.where(self.end.isinf(), self.begin + need / gap, self.end)


def _halved(low: Tensor, high: Tensor) -> Iterator[Tensor]:
    """The middles of intervals that whoever asks makes narrower, in place, until no digit is left to be found.

    An interval that closes in on 0 never runs out of digits; it is given up when it is tiny beside its beginning.
    """
    for _ in range(HALVINGS):
        if bool((high - low <= 2**-53 * high.abs()).all()):
            return
        yield (low + high) / 2


def settled(slope: Tensor, end: Tensor) -> Tensor:
    """Slopes `(P, C)`, of which those that only rounding tells from the largest are that, on pieces that never end."""
    tied = leading(slope) & end.isinf()[:, None]
    return torch.where(tied, slope.amax(1, keepdim=True), slope)


@dataclass(frozen=True)
class Trace(Pieces):
    """A network along rays, piece by piece; pieces of all rays stand one after the other, `(P, …)`.

    Attributes:
        whole: `(N,)`, whether a ray was followed to its end; if not, it had more pieces than allowed.
    """

    whole: Tensor

    def breakpoints(self, ray: int) -> Tensor:
        """The t between two pieces of a ray."""
        check_int("ray", ray, least=0, below=len(self.whole))
        return self.begin[self.ray == ray][1:]

    def at(self, ray: int, t: Tensor) -> Tensor:
        """Logits `(T, C)` of one ray at some t `(T,)`."""
        check_int("ray", ray, least=0, below=len(self.whole))
        own = (self.ray == ray).nonzero().flatten()
        piece = own[torch.searchsorted(self.begin[own], t, right=True).sub(1).clamp(min=0)]
        return self.slope[piece] * t[:, None] + self.intercept[piece]

    def first_certain(self, eps: float = 1e-3) -> Tensor:
        """The smallest t at which some class has probability at least `1 − eps`, `(N,)`; infinite if there is none."""
        found = super().first_certain(check_float("eps", eps, least=1e-300, most=0.5))
        first = found.new_full((len(self.whole),), torch.inf)
        return first.scatter_reduce(0, self.ray, found, "amin")

    def largest(self) -> tuple[Tensor, Tensor]:
        """The largest confidence on each ray, and at which t, `(N,)` both; t is infinite if it is only approached."""
        rest, t = self._most()
        least = rest.new_zeros(len(self.whole)).scatter_reduce(0, self.ray, rest, "amin")
        t = t.masked_fill(rest > least[self.ray], torch.inf)
        return -least.expm1(), least.new_full(least.shape, torch.inf).scatter_reduce(
            0, self.ray, t, "amin"
        )


def trace(
    model: nn.Module,
    x: Any,
    direction: Any,
    t_max: float = math.inf,
    *,
    limit: int = LIMIT,
    progress: bool | None = None,
) -> Trace:
    """Follow the rays `x + t · direction` from t = 0 on, from breakpoint to breakpoint, in float64 and eval mode.

    Args:
        model, x, direction: as in `asymptote`; a model with several draws has no one law to follow.
        t_max: how far to go; by default to the last breakpoint, after which one law holds for ever.
        limit: pieces a ray may have; one with more is left there, and not `whole`.
        progress: a bar on standard error; by default only on a terminal.
    """
    x, direction = checked_rays(x, direction, model)
    t_max = check_float("t_max", t_max, most=math.inf)
    check_int("limit", limit)
    whole = torch.zeros(len(x), dtype=torch.bool)
    parts = []
    with exact(model, x) as double, bar(len(x), "trace", progress) as shown:
        for pieces in followed_rays(double, x, direction, t_max, limit):
            parts.append(pieces)
            whole[pieces.ray[pieces.end >= t_max]] = True
            shown.advance(int((pieces.end >= t_max).sum()))
    ray = torch.cat([one.ray for one in parts])
    order = torch.argsort(ray, stable=True)
    begin, end = torch.cat([one.begin for one in parts]), torch.cat([one.end for one in parts])
    slope, intercept = (
        torch.cat([one.slope for one in parts]),
        torch.cat([one.intercept for one in parts]),
    )
    return Trace(ray[order], begin[order], end[order], slope[order], intercept[order], whole)


def _within(until: Tensor) -> Tensor:
    """A t on each first piece."""
    return torch.where(until.isinf(), 1.0, until / 2)


class _Remembered(Rays):
    """Rays that keep what they chose."""

    def __init__(self, count: int, like: Tensor, now: Tensor | None = None) -> None:
        super().__init__(count, like, now)
        self.choices: list[Tensor] = []

    def above(self, slope: Tensor, intercept: Tensor) -> Tensor:
        self.choices.append(super().above(slope, intercept))
        return self.choices[-1]

    def largest(self, slope: Tensor, intercept: Tensor) -> Tensor:
        self.choices.append(super().largest(slope, intercept))
        return self.choices[-1]


def least_bends(double: nn.Module, x: Tensor, direction: Tensor) -> tuple[int, int]:
    """How many breakpoints rays surely have, in the mean, and of how many choices, of which they must change that many.

    A choice that is not the same at 0 and at infinity has changed at least once.
    """
    begin, end = (
        law_at(double, x, direction, now, kind=_Remembered)[2]
        for now in (x.new_zeros(len(x)), None)
    )
    pairs = list(zip(begin.choices, end.choices, strict=True))  # type: ignore[attr-defined]
    changed, all_ = (
        sum(int((one != other).sum()) for one, other in pairs),
        sum(one.numel() for one, _ in pairs),
    )
    return changed // len(x), all_ // len(x)


def followed_rays(
    double: nn.Module,
    x: Tensor,
    direction: Tensor,
    t_max: float,
    limit: int,
    still: Tensor | None = None,
) -> Iterator[Pieces]:
    """The next piece of every ray that goes on, again and again, at most `limit` times.

    Whoever has seen enough of a ray says so by `still` `(N,)`, which is looked at before each step.
    """
    rays, now = torch.arange(len(x)), x.new_zeros(len(x))
    for step in range(limit):
        if still is not None:
            rays, now = rays[still[rays]], now[still[rays]]
        if len(rays) == 0:
            break
        slope, intercept, found = law_at(double, x[rays], direction[rays], now)
        if slope.dim() == 3:
            raise NescioError(
                f"the model has {len(slope)} draws, and no one law to follow; trace one network of it, "
                "such as ensemble.member(0)"
            )
        if step == 0:
            check_law(double, x, direction, slope, intercept, _within(found.until))
        end = found.until.clamp(max=t_max)
        yield Pieces(rays, now, end, settled(slope, end), intercept)
        going = end < t_max
        rays, now = rays[going], end[going]
