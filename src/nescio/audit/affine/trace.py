"""The whole of a ray: all breakpoints of a piecewise affine network, and its law in between."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.audit.affine.asymptote import check_law, check_rays, float64_copy, law_of
from nescio.audit.affine.choices import Rays, steepest
from nescio.errors import NescioError, check_float, check_int
from nescio.progress import bar

MAX_HALVINGS = 120
MAX_PIECES = 100_000
BATCH_LOGITS = 2**22  # differences of logits in memory at a time


@dataclass(frozen=True)
class Pieces:
    """Pieces of rays, `(P, …)`, on each of which the network obeys one law.

    Attributes:
        ray: `(P,)`, which ray a piece is of.
        begin, end: `(P,)`, from which t to which; the end of a ray's last piece may be infinite.
        slope, intercept: `(P, C)`; on its piece the logits are `slope · t + intercept`.
    """

    ray: Tensor
    begin: Tensor
    end: Tensor
    slope: Tensor
    intercept: Tensor

    def first_certain(self, eps: float) -> Tensor:
        """Return the smallest t of each piece with a probability ≥ `1 − eps`, or infinity, `(P,)`.

        `log p_c` is a concave function of t, so that it is high enough on an interval, whose left
        end is found by bisection on the rising side of its maximum.
        """
        level = math.log1p(-eps)
        first = self.begin.new_full((len(self.begin),), torch.inf)
        for rows in self._chunks():
            candidates = rows[self.select(rows)._bound() >= level]
            first[candidates] = self.select(candidates)._first_above(level)
        return first

    def select(self, rows: Tensor) -> "Pieces":
        """Return some of the pieces."""
        return Pieces(*(getattr(self, field.name)[rows] for field in fields(Pieces)))

    def _chunks(self) -> tuple[Tensor, ...]:
        """Return positions of pieces in parts whose differences of logits fit in memory."""
        size = max(1, BATCH_LOGITS // self.slope.shape[1] ** 2)
        return torch.split(torch.arange(len(self.begin)), size)

    def _first_above(self, level: float) -> Tensor:
        begin = self.begin[:, None].expand_as(self.slope)
        peak = self._peak(begin, self._far_end(level))
        _, first = _bisect(begin, peak, lambda t: ~(self._log_p(t) >= level))
        first = torch.where(self._log_p(begin) >= level, begin, first)
        return first.masked_fill(~(self._log_p(peak) >= level), torch.inf).amin(1)

    def _bound(self) -> Tensor:
        """Return an upper bound on all `log p`, `(P,)`: logits are farthest apart at the ends."""
        times = self.begin, self.end.nan_to_num(posinf=0.0)
        logits = [self.slope * t[:, None] + self.intercept for t in times]
        lead = torch.stack([z[:, :, None] - z[:, None, :] for z in logits]).amax(0)  # (P, C, C)
        return (-(-lead).logsumexp(2).amin(1)).masked_fill(self.end.isinf(), 0.0)

    def _least_log_rest(self) -> tuple[Tensor, Tensor]:
        """Return the smallest `log(1 − p)` of any class, exact where p rounds to 1, and its t."""
        begin = self.begin[:, None].expand_as(self.slope)
        peak = self._peak(begin, self._far_end(-1e-16))
        diagonal = torch.eye(self.slope.shape[1], dtype=torch.bool)
        logits = self._logits(peak)
        rest = logits.masked_fill(diagonal, -torch.inf).logsumexp(2) - logits.logsumexp(2)
        least, place = rest.min(1)
        ahead = self.intercept.masked_fill(~steepest(self.slope), -torch.inf)
        limit = ahead.masked_fill(F.one_hot(ahead.argmax(1), len(diagonal)).bool(), -torch.inf)
        limit = limit.logsumexp(1) - ahead.logsumexp(1)
        # slopes that are all alike are at their limit from the beginning
        approached = self.end.isinf() & (limit <= least) & ~steepest(self.slope).all(1)
        t = torch.where(approached, torch.inf, peak.gather(1, place[:, None]).squeeze(1))
        return torch.where(approached, limit, least), t

    def _logits(self, t: Tensor) -> Tensor:
        """Return all logits at a t for each class `(P, C)`: `(P, C, C)`."""
        return self.slope[:, None, :] * t[:, :, None] + self.intercept[:, None, :]

    def _log_p(self, t: Tensor) -> Tensor:
        """Return `log p_c`, `(P, C)`, of each class at its own t, `(P, C)`."""
        logits = self._logits(t)
        return torch.diagonal(logits, dim1=1, dim2=2) - logits.logsumexp(2)

    def _peak(self, begin: Tensor, end: Tensor) -> Tensor:
        """Return where `log p_c` is largest on its piece, `(P, C)`: where its derivative is 0."""

        def rises(t: Tensor) -> Tensor:
            p = self._logits(t).softmax(2)
            return self.slope - (p * self.slope[:, None, :]).sum(2) > 0

        low, high = _bisect(begin, end[:, None].expand_as(begin), rises)
        return (low + high) / 2

    def _far_end(self, level: float) -> Tensor:
        """Return the end of each piece, or a t beyond which no `log p` crosses the level, `(P,)`.

        There what other classes have left is less than the distance of the limit to the level.
        """
        ahead = steepest(self.slope)
        gap = (self.slope.amax(1, keepdim=True) - self.slope).masked_fill(ahead, torch.inf).amin(1)
        limit = self.intercept.masked_fill(~ahead, -torch.inf).log_softmax(1).amax(1)
        room = torch.expm1(limit - level).abs().clamp(min=1e-16)
        spread = self.intercept.amax(1) - self.intercept.amin(1)
        need = spread + 1 - room.log() + math.log(self.slope.shape[1])
        return torch.where(self.end.isinf(), self.begin + need / gap, self.end)


def _bisect(low: Tensor, high: Tensor, is_low: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Halve intervals until no digit is left, keeping the half in which `is_low` changes.

    An interval that closes in on 0 never runs out of digits; it is given up when it is tiny.
    """
    for _ in range(MAX_HALVINGS):
        if bool((high - low <= 2**-53 * high.abs()).all()):
            break
        middle = (low + high) / 2
        rises = is_low(middle)
        low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
    return low, high


@dataclass(frozen=True)
class Trace(Pieces):
    """A network along rays, piece by piece; the pieces `(P, …)` of a ray stand together, in order.

    Attributes:
        whole: `(N,)`, whether a ray was followed to its end; if not, it had too many pieces.
    """

    whole: Tensor

    def breakpoints(self, ray: int) -> Tensor:
        """Return the t between two pieces of a ray."""
        return self.begin[self._rows(ray)][1:]

    def at(self, ray: int, t: Tensor) -> Tensor:
        """Return logits `(T, C)` of one ray at some t `(T,)`."""
        rows = self._rows(ray)
        piece = rows[torch.searchsorted(self.begin[rows], t, right=True).sub(1).clamp(min=0)]
        return self.slope[piece] * t[:, None] + self.intercept[piece]

    def first_certain(self, eps: float = 1e-3) -> Tensor:
        """Return the smallest t with a probability of at least `1 − eps`, or infinity, `(N,)`."""
        first = super().first_certain(check_float("eps", eps, least=1e-300, most=0.5))
        return self._least(first, torch.inf)

    def largest(self) -> tuple[Tensor, Tensor]:
        """Return the largest confidence on each ray and its t, infinite if only approached."""
        parts = [self.select(rows)._least_log_rest() for rows in self._chunks()]
        rest, t = (torch.cat(values) for values in zip(*parts, strict=True))
        least = self._least(rest, 0.0)
        t = t.masked_fill(rest > least[self.ray], torch.inf)
        return -least.expm1(), self._least(t, torch.inf)

    def _rows(self, ray: int) -> Tensor:
        check_int("ray", ray, least=0, below=len(self.whole))
        return (self.ray == ray).nonzero().flatten()

    def _least(self, values: Tensor, default: float) -> Tensor:
        """Return the smallest of values `(P,)` of the pieces of each ray, `(N,)`."""
        smallest = values.new_full((len(self.whole),), default)
        return smallest.scatter_reduce(0, self.ray, values, "amin")


def trace(
    model: nn.Module,
    x: Any,
    direction: Any,
    t_max: float = math.inf,
    *,
    limit: int = MAX_PIECES,
    progress: bool | None = None,
) -> Trace:
    """Follow the rays `x + t · direction` from t = 0 from breakpoint to breakpoint.

    The model is run in float64 and eval mode.

    Args:
        model, x, direction, progress: as in `asymptote`; several draws have no one law to follow.
        t_max: how far to go; by default to the last breakpoint, after which one law holds.
        limit: the most pieces of a ray; one with more is left there, and not `whole`.

    >>> trace(net, x[:1], torch.tensor([1.0, 0.0])).whole
    tensor([True])
    """
    x, direction = check_rays(x, direction, model)
    t_max = check_float("t_max", t_max, most=math.inf)
    check_int("limit", limit)
    whole, parts = torch.zeros(len(x), dtype=torch.bool), []
    with float64_copy(model, x) as double, bar(len(x), "trace", progress) as shown:
        for pieces in next_pieces(double, x, direction, limit, t_max=t_max):
            parts.append(pieces)
            ended = pieces.ray[pieces.end >= t_max]
            whole[ended] = True
            shown.advance(len(ended))
    columns = [torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Pieces)]
    order = torch.argsort(columns[0], stable=True)
    ray, begin, end, slope, intercept = (column[order] for column in columns)
    return Trace(ray, begin, end, slope, intercept, whole)


def least_breakpoints(double: nn.Module, x: Tensor, direction: Tensor) -> tuple[int, int]:
    """Return a lower bound on a ray's mean number of breakpoints, and its number of choices.

    A choice that is not the same at 0 and at infinity has changed at least once.
    """
    begin, end = Rays(len(x), x, x.new_zeros(len(x))), Rays(len(x), x)
    for rays in (begin, end):
        rays.choices = []
        law_of(double, x, direction, rays)
    pairs = list(zip(begin.choices or (), end.choices or (), strict=True))
    changed = sum(int((a != b).sum()) for a, b in pairs)
    return changed // len(x), sum(choice.numel() for choice, _ in pairs) // len(x)


def next_pieces(
    double: nn.Module,
    x: Tensor,
    direction: Tensor,
    limit: int,
    going: Tensor | None = None,
    t_max: float = math.inf,
) -> Iterator[Pieces]:
    """Yield the next piece of every ray that goes on, at most `limit` times.

    A caller that has seen enough of a ray clears `going` `(N,)`, which is read before each step.
    """
    rays, now = torch.arange(len(x)), x.new_zeros(len(x))
    for step in range(limit):
        if going is not None:
            rays, now = rays[going[rays]], now[going[rays]]
        if len(rays) == 0:
            break
        law = law_of(double, x[rays], direction[rays], Rays(len(rays), x, now))
        if law.dim() == 3:
            draws = f"the model has {len(law)} draws, and no one law to follow"
            raise NescioError(f"{draws}; trace one network of it, such as ensemble.member(0)")
        until = law.rays.until
        if step == 0:  # at a t on each first piece
            check_law(double, x, direction, law, torch.where(until.isinf(), 1.0, until / 2))
        end = until.clamp(max=t_max)
        yield Pieces(rays, now, end, without_near_ties(law.slope, end), law.intercept)
        rays, now = rays[end < t_max], end[end < t_max]


def without_near_ties(slope: Tensor, end: Tensor) -> Tensor:
    """Make slopes `(P, C)` equal to the largest if only rounding differs, on endless pieces."""
    tied = steepest(slope) & end.isinf()[:, None]
    return torch.where(tied, slope.amax(1, keepdim=True), slope)
