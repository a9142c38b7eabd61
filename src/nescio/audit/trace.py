"""The whole of a ray: every breakpoint of a piecewise affine network along it, and its exact law in between."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.audit.asymptote import checked_rays, law_at
from nescio.errors import number, whole_number
from nescio.progress import bar
from nescio.untouched import untouched

HALVINGS = 60


@dataclass(frozen=True)
class Trace:
    """A network along rays, piece by piece; pieces of all rays stand one after the other, `(P, …)`.

    Attributes:
        ray: `(P,)`, which ray a piece is of.
        begin, end: `(P,)`, from which t to which; the last piece of a ray ends at `t_max`, or never.
        slope, intercept: `(P, C)`; on its piece the logits are `slope · t + intercept`.
        whole: `(N,)`, whether a ray was followed to its end; if not, it had more pieces than allowed.
    """

    ray: Tensor
    begin: Tensor
    end: Tensor
    slope: Tensor
    intercept: Tensor
    whole: Tensor

    def breakpoints(self, ray: int) -> Tensor:
        """The t between two pieces of a ray."""
        return self.begin[self.ray == ray][1:]

    def at(self, ray: int, t: Tensor) -> Tensor:
        """Logits `(T, C)` of one ray at some t `(T,)`."""
        own = (self.ray == ray).nonzero().flatten()
        piece = own[torch.searchsorted(self.begin[own], t, right=True).sub(1).clamp(min=0)]
        return self.slope[piece] * t[:, None] + self.intercept[piece]

    def first_certain(self, eps: float = 1e-3) -> Tensor:
        """The smallest t at which some class has probability at least `1 − eps`, `(N,)`; infinite if there is none.

        On a piece `log p_c` is a concave function of t, so where it is high enough is an interval, whose left end is
        found by halving on the rising side of its maximum.
        """
        bar_ = math.log1p(-number("eps", eps, least=1e-300, most=0.5))
        end = torch.where(self.end.isinf(), self._far_end(bar_), self.end)[:, None]
        begin = self.begin[:, None].expand_as(self.slope)
        peak = self._peak(begin, end.expand_as(begin))
        reached = self._log_p(peak) >= bar_
        low, high = begin.clone(), peak.clone()
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            fits = self._log_p(middle) >= bar_
            low, high = torch.where(fits, low, middle), torch.where(fits, middle, high)
        found = torch.where(self._log_p(begin) >= bar_, begin, high).masked_fill(~reached, torch.inf).amin(1)
        first = found.new_full((len(self.whole),), torch.inf)
        return first.scatter_reduce(0, self.ray, found, "amin")

    def _log_p(self, t: Tensor) -> Tensor:
        """`log p_c`, `(P, C)`, of each class at a t of its own, `(P, C)`."""
        logits = self.slope[:, None, :] * t[:, :, None] + self.intercept[:, None, :]  # (P, C, C)
        return torch.diagonal(logits, dim1=1, dim2=2) - logits.logsumexp(2)

    def _peak(self, begin: Tensor, end: Tensor) -> Tensor:
        """Where `log p_c` is largest on its piece, `(P, C)`: where its derivative changes sign, by halving."""
        low, high = begin.clone(), end.clone()
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            logits = self.slope[:, None, :] * middle[:, :, None] + self.intercept[:, None, :]
            rising = self.slope - (logits.softmax(2) * self.slope[:, None, :]).sum(2) > 0
            low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
        return (low + high) / 2

    def _far_end(self, bar_: float) -> Tensor:
        """A t on each piece beyond which no probability crosses the bar any more, `(P,)`."""
        most = self.slope.amax(1, keepdim=True)
        gap = (most - self.slope).masked_fill(self.slope == most, torch.inf)
        spread = self.intercept.amax(1) - self.intercept.amin(1)
        need = spread + 1 - math.log(-math.expm1(bar_)) + math.log(self.slope.shape[1])
        return torch.maximum(self.begin, torch.zeros_like(self.begin)) + need / gap.amin(1) + 1


def trace(
    model: nn.Module,
    x: Any,
    direction: Any,
    t_max: float = math.inf,
    *,
    limit: int = 100_000,
    progress: bool | None = None,
) -> Trace:
    """Follow the rays `x + t · direction` from t = 0 on, from breakpoint to breakpoint, in float64 and eval mode.

    Args:
        model, x, direction: as in `asymptote`.
        t_max: how far to go; by default to the last breakpoint, after which one law holds for ever.
        limit: pieces a ray may have; one with more is left there, and not `whole`.
        progress: a bar on standard error; by default only on a terminal.
    """
    x, direction = checked_rays(x, direction, model)
    t_max = number("t_max", t_max, most=math.inf)
    limit = whole_number("limit", limit)
    parts: list[tuple[Tensor, ...]] = []
    whole = torch.ones(len(x), dtype=torch.bool)
    rays, now = torch.arange(len(x)), x.new_zeros(len(x))
    with untouched(model), torch.no_grad(), bar(len(x), "trace", progress) as shown:
        double = copy.deepcopy(model).double().eval().requires_grad_(False)
        for _ in range(limit):
            slope, intercept, found = law_at(double, x[rays], direction[rays], now)
            end = found.until.clamp(max=t_max)
            parts.append((rays, now, end, slope, intercept))
            going = end < t_max
            shown.advance(int((~going).sum()))
            rays, now = rays[going], end[going]
            if len(rays) == 0:
                break
        whole[rays] = False
    ray, begin, end, slope, intercept = (torch.cat(values) for values in zip(*parts, strict=True))
    order = torch.argsort(ray, stable=True)
    return Trace(ray[order], begin[order], end[order], slope[order], intercept[order], whole)
