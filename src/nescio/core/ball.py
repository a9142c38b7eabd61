"""The ball around an input, and the box of possible inputs, that an attack may not leave."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from nescio.data.arrays import tensor
from nescio.errors import NescioError
from nescio.seeds import derived_seed

NORMS = ("linf", "l2")
HALVINGS = 40
SHRINK = 1 - 1e-14  # of a radius, for the roundings of what is measured against it


@dataclass(frozen=True)
class StartStreams:
    """Two streams of random starts, so that the size of a batch does not change them.

    What is alike for all inputs, such as which known ones to start from, follows from the seed.
    """

    directions: torch.Generator | None = None
    fractions: torch.Generator | None = None
    seed: int | None = None

    @classmethod
    def seeded(cls, seed: int) -> Self:
        """Return streams that follow from a seed."""
        ways, shares = (
            torch.Generator().manual_seed(derived_seed(seed, kind, 0))
            for kind in ("ways", "shares")
        )
        return cls(ways, shares, seed)

    def of_step(self, step: int) -> "StartStreams":
        """Return the streams of a random move."""
        return StartStreams.seeded(derived_seed(self.seed or 0, "move", step))

    def choose(self, most: int, known: Tensor) -> Tensor:
        """Return at most so many of known inputs `(M, …)`."""
        generator = None
        if self.seed is not None:
            generator = torch.Generator().manual_seed(derived_seed(self.seed, "known", 0))
        return known[torch.randperm(len(known), generator=generator)[:most].to(known.device)]


@dataclass(frozen=True)
class Ball:
    """Where an attack may go: at most `eps` from the centre `(N, …)`, between `low` and `high`.

    Lengths are in units of `scale`, of the shape of one input.
    """

    centre: Tensor
    norm: str
    eps: float
    scale: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def around(
        cls, x: Tensor, norm: str, eps: float, box: tuple[float, float] | None, scale: Tensor | None
    ) -> Self:
        """Return the ball around inputs, or raise if they do not fit the box or the scale."""
        low, high = _check_box(x, box)
        scale = x.new_ones(()) if scale is None else _check_scale(scale, x)
        lows = torch.minimum(_not_below(torch.full_like(x, low), low), x)
        highs = torch.maximum(-_not_below(-torch.full_like(x, high), -high), x)
        if norm == "linf":
            reach = eps * scale.double() * SHRINK
            lows = torch.maximum(lows, _edge(x, -reach))
            highs = torch.minimum(highs, _edge(x, reach))
        return cls(x, norm, eps, scale, lows, highs)

    def of(self, rows: Tensor) -> "Ball":
        """Return the ball around some of the inputs."""
        return replace(self, centre=self.centre[rows], low=self.low[rows], high=self.high[rows])

    def random(self, start: StartStreams, alike: bool = False) -> Tensor:
        """Return the centre moved in a random direction by a random fraction of eps.

        If `alike`, all inputs are moved in the same direction.
        """
        x, moves = self.centre, self.centre[:1] if alike else self.centre
        rand = partial(torch.rand, dtype=x.dtype, device="cpu")
        direction = 2 * rand(moves.shape, generator=start.directions).to(x.device) - 1
        fraction = rand(len(moves), generator=start.fractions).to(x.device)
        direction = _unit(direction) if self.norm == "l2" else direction
        return x + self.eps * self.scale * per_input(fraction, x) * direction

    def step(self, x: Tensor, gradient: Tensor, step_size: Tensor) -> Tensor:
        """Move upwards along the gradient's signs, or the gradient, in units of the scale."""
        direction = gradient.sign() if self.norm == "linf" else _unit(gradient * self.scale)
        return direction.mul_(per_input(step_size, x) * self.scale).add_(x)

    def project(self, x: Tensor) -> Tensor:
        """Return the nearest points of ball and box.

        For "l2" the farthest on the way from the centre, clipped to the box: the distance of what
        is clipped grows along the way, so it is found by halving, from the inner side.
        """
        clipped = x.clamp(self.low, self.high)
        if self.norm == "linf" or not (out := self._lengths(clipped) > self.eps * SHRINK).any():
            return clipped
        offset, best = x - self.centre, self.centre
        inner, outer = torch.zeros_like(out, dtype=torch.float64), torch.ones_like(out).double()
        for _ in range(HALVINGS):
            middle = (inner + outer) / 2
            point = self.centre + offset * per_input(middle.to(x.dtype), x)
            point = point.clamp(self.low, self.high)
            fits = self._lengths(point) <= self.eps * SHRINK
            inner, outer = torch.where(fits, middle, inner), torch.where(fits, outer, middle)
            best = torch.where(per_input(fits, x), point, best)
        return torch.where(per_input(out, x), best, clipped)

    def _lengths(self, x: Tensor) -> Tensor:
        offset = (x.double() - self.centre.double()) / self.scale.double()
        lengths: Tensor = torch.linalg.vector_norm(offset.flatten(1), dim=1)
        return lengths


def per_input(values: Tensor, x: Tensor) -> Tensor:
    """Return `(N,)` as `(N, 1, …)`, to be broadcast over inputs."""
    return values.view(-1, *[1] * (x.dim() - 1))


def _not_below(edge: Tensor, bound: float) -> Tensor:
    """An edge of the box, moved in by one float where it would lie below the bound."""
    above = torch.nextafter(edge, torch.full_like(edge, math.inf))
    return torch.where(edge.double() < bound, above, edge)


def _edge(x: Tensor, reach: Tensor) -> Tensor:
    """`x + reach`, rounded towards x where it would lie farther away."""
    edge = (x.double() + reach).to(x.dtype)
    too_far = (edge.double() - x.double()).abs() > reach.abs()
    return torch.where(too_far, torch.nextafter(edge, x), edge)


def _unit(x: Tensor) -> Tensor:
    """Each input over its length; its largest component is scaled to 1, lest squares underflow."""
    largest = x.flatten(1).abs().amax(1)
    x = x / per_input(largest.where(largest > 0, 1.0), x)
    return x / per_input(torch.linalg.vector_norm(x.flatten(1), dim=1).clamp(min=1e-30), x)


def _check_box(x: Tensor, box: tuple[float, float] | None) -> tuple[float, float]:
    if box is None:
        return -math.inf, math.inf
    pair = isinstance(box, tuple | list) and len(box) == 2
    if not pair or not all(isinstance(edge, int | float) for edge in box) or not box[0] < box[1]:
        expected = "a pair of numbers (low, high) such as (0.0, 1.0), or None"
        raise NescioError(f"box must be {expected}, got {box!r}")
    low, high = box
    outside = ((x < low) | (x > high)).flatten(1).any(1)
    if outside.any():
        raise NescioError(
            f"{int(outside.sum())} of {len(x)} inputs lie outside the box [{low:g}, {high:g}]: "
            f"they range from {x.min():g} to {x.max():g}. Images are expected in [0, 1], with "
            "normalisation inside the model; `attack` takes another box=, or None"
        )
    return float(low), float(high)


def _check_scale(scale: Any, x: Tensor) -> Tensor:
    if not isinstance(scale, Tensor):
        kind = type(scale).__name__
        raise NescioError(f"scale must be a tensor of the shape of one input, got {kind}")
    units: Tensor = tensor(scale).to(x.device, x.dtype)
    if units.shape != x.shape[1:] and units.dim() > 0:
        shape, expected = tuple(units.shape), tuple(x.shape[1:])
        raise NescioError(f"a scale of shape {shape} for inputs of shape {expected}")
    if not bool(((units > 0) & units.isfinite()).all()):
        raise NescioError("a scale must be above 0 for every feature")
    return units
