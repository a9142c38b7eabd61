"""Rays on their way through a network, and the rules of operations that choose among their laws."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.audit.affine.laws import TOLERANCE, Law, NotAffineError, as_law, aten, rule

PADDING = -1e200  # slope and intercept of padding, which no maximum chooses


class Rays:
    """Rays on their way through a network: what they choose, and how long that holds.

    They choose just after `now`, a t for each, `(N,)`, or at infinity if it is None.

    Attributes:
        since: `(N,)`, the t from which the choices at infinity hold.
        until: `(N,)`, the t up to which the choices just after `now` hold.
        choices: all choices, if it is set to a list.
    """

    def __init__(self, count: int, like: Tensor, now: Tensor | None = None) -> None:
        self.now = now
        self.choices: list[Tensor] | None = None
        self.since, self.until = like.new_zeros(count), like.new_full((count,), torch.inf)
        self.path: list[tuple[str, nn.Module]] = []

    def above(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return where `slope · t + intercept` is above 0: at infinity, or just after now."""
        crossing = torch.where(slope != 0, -intercept / slope, 0.0)
        if self.now is None:
            self._hold_since(crossing)
            return self._chosen((slope > 0) | ((slope == 0) & (intercept > 0)))
        now = self._now(slope)
        value = slope * now + intercept
        on_zero = value.abs() <= TOLERANCE * ((slope * now).abs() + intercept.abs())
        self._hold_until(crossing, (crossing > now) & ~on_zero)
        return self._chosen(torch.where(on_zero, slope > 0, value > 0))

    def largest(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Return which of the last axis is the largest, `(…, 1)`, at infinity or just after now."""
        if self.now is None:
            tied = steepest(slope)
            index = intercept.masked_fill(~tied, -torch.inf).argmax(-1, keepdim=True)
        else:
            value = slope * self._now(slope) + intercept
            most = value.amax(-1, keepdim=True)
            tied = most - value <= TOLERANCE * (value.abs() + intercept.abs() + most.abs())
            index = slope.masked_fill(~tied, -torch.inf).argmax(-1, keepdim=True)
        steeper = slope - slope.gather(-1, index)
        steeper = steeper.masked_fill(tied, 0.0) if self.now is None else steeper
        behind = intercept.gather(-1, index) - intercept
        crossing = torch.where(steeper != 0, behind / steeper, 0.0)
        if self.now is None:
            self._hold_since(crossing)
        else:
            self._hold_until(crossing, (steeper > 0) & (crossing > self._now(slope)))
        return self._chosen(index)

    def _chosen(self, choice: Tensor) -> Tensor:
        if self.choices is not None:
            self.choices.append(choice)
        return choice

    def _now(self, like: Tensor) -> Tensor:
        """`now` as `(N, 1, …)`."""
        assert self.now is not None  # noqa: S101 - asked for only then
        if len(like) != len(self.now):
            raise NotAffineError("moves the axis of the inputs, so that rays get mixed up")
        return self.now.view(-1, *[1] * (like.dim() - 1))

    def _hold_since(self, crossing: Tensor) -> None:
        latest = crossing.flatten(1).amax(1) if crossing.dim() > 1 else crossing
        if len(latest) != len(self.since):
            latest = latest.amax()  # rays are not the first axis: what holds for all holds for each
        self.since = torch.maximum(self.since, latest)

    def _hold_until(self, crossing: Tensor, ahead: Tensor) -> None:
        until = torch.where(ahead, crossing, torch.inf)
        until = until.flatten(1).amin(1) if until.dim() > 1 else until
        self.until = torch.minimum(self.until, until)

    def where(self) -> str:
        """Return which module is being run, in words."""
        if not self.path:
            return "the model"
        name, module = self.path[-1]
        return f"module {name or 'itself'!r} ({type(module).__name__})"


@contextmanager
def track_modules(model: nn.Module, rays: Rays) -> Iterator[None]:
    """Let rays know which module of a model they are in."""
    handles = []
    for name, module in model.named_modules():

        def enter(module: nn.Module, _: Any, name: str = name) -> None:
            rays.path.append((name, module))

        def leave(*_: Any) -> None:
            rays.path.pop()

        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def steepest(slope: Tensor) -> Tensor:
    """Return which of the last axis have the largest slope, up to rounding."""
    scale = slope.abs().masked_fill(slope == PADDING, 0.0).amax(-1, keepdim=True)
    return slope.amax(-1, keepdim=True) - slope <= TOLERANCE * scale


@rule("relu leaky_relu _prelu_kernel abs")
def _bend(rays: Rays, func: Any, x: Law, below: Any = 0.01) -> Law:
    """Multiply by a factor what is not above 0: by default that of a leaky ReLU."""
    below = {aten.relu: 0.0, aten.abs: -1.0}.get(func.overloadpacket, below)
    above = rays.above(x.slope, x.intercept)
    factor = torch.where(above, 1.0, torch.as_tensor(below, dtype=x.dtype))
    return x.apply(lambda part: part * factor)


@rule("where")
def _where(rays: Rays, func: Any, mask: Tensor, a: Any, b: Any) -> Law:
    if isinstance(mask, Law):
        raise NotAffineError("chooses by a value of the ray")
    a, b = as_law(a, rays), as_law(b, rays)
    return Law(func(mask, a.slope, b.slope), func(mask, a.intercept, b.intercept), rays)


@rule("masked_fill")
def _masked_fill(rays: Rays, func: Any, x: Law, mask: Tensor, value: Any) -> Law:
    return Law(x.slope.masked_fill(mask, 0.0), x.intercept.masked_fill(mask, value), rays)


@rule("maximum")
def _larger(rays: Rays, func: Any, a: Any, b: Any) -> Law:
    a, b = as_law(a, rays), as_law(b, rays)
    above = rays.above(a.slope - b.slope, a.intercept - b.intercept)
    return _where(rays, torch.where, above, a, b)


@rule("minimum")
def _smaller(rays: Rays, func: Any, a: Any, b: Any) -> Law:
    return _larger(rays, func, *(as_law(x, rays).apply(torch.neg) for x in (a, b))).apply(torch.neg)


@rule("hardtanh clamp clamp_min clamp_max")
def _clamp(rays: Rays, func: Any, x: Law, *bounds: Any, **named: Any) -> Law:
    """Clamp between two bounds, either of which may be missing."""
    operation = func.overloadpacket
    names = ("max",) if operation is aten.clamp_max else ("min", "max")
    default = {"min": -1.0, "max": 1.0} if operation is aten.hardtanh else {}
    limits = default | dict(zip(names, bounds, strict=False)) | named
    for name, choose in (("min", _larger), ("max", _smaller)):
        if limits.get(name) is not None:
            x = choose(rays, func, x, torch.as_tensor(limits[name], dtype=x.dtype))
    return x


@rule("amax")
def _amax(rays: Rays, func: Any, x: Law, dim: Any = (), keepdim: bool = False) -> Law:
    dims = [dim] if isinstance(dim, int) else dim or range(x.dim())
    axes = sorted(axis % x.dim() for axis in dims)
    if 0 in axes:
        raise NotAffineError("compares inputs of a batch with each other")
    last = tuple(range(-len(axes), 0))
    largest = _largest(rays, x.apply(lambda part: part.movedim(axes, last).flatten(-len(axes))))
    shape = [1 if axis in axes else side for axis, side in enumerate(x.shape)]
    return largest.apply(lambda part: part.reshape(shape)) if keepdim else largest


def _largest(rays: Rays, x: Law) -> Law:
    """Return the largest along the last axis."""
    index = rays.largest(x.slope, x.intercept)
    return x.apply(lambda part: part.gather(-1, index).squeeze(-1))


def _with_indices(law: Law) -> tuple[Law, Tensor]:
    """Add indices, which nobody who stays on the ray looks at."""
    return law, torch.zeros(law.shape, dtype=torch.long)


@rule("max")
def _max(rays: Rays, func: Any, x: Law, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the largest along one axis, or entry by entry of two laws."""
    if isinstance(dim, Tensor):
        return _larger(rays, func, x, dim)
    if dim is None:
        raise NotAffineError("compares inputs of a batch with each other")
    return _with_indices(_amax(rays, func, x, dim, keepdim))


@rule("max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices")
def _max_pool(
    rays: Rays,
    func: Any,
    x: Law,
    size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil: bool = False,
) -> Any:
    name = func.overloadpacket.__name__
    dims = int(name.removeprefix("max_pool")[0])
    size, padding, dilation = (_per_axis(value, dims) for value in (size, padding, dilation))
    axes = list(zip(size, _per_axis(stride or size, dims), padding, dilation, strict=True))
    largest = _largest(rays, x.apply(lambda part: _windows(part, axes, ceil)))
    return _with_indices(largest) if name.endswith("with_indices") else largest


@rule("adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(rays: Rays, func: Any, x: Law, size: Any) -> Any:
    """Pool to a size, which must divide that of the input, so that all windows are alike."""
    sides = tuple(x.shape[-len(size) :])
    windows = [side // count for side, count in zip(sides, size, strict=True)]
    if sides != tuple(w * count for w, count in zip(windows, size, strict=True)):
        pooled = f"pools {sides} to {tuple(size)}"
        raise NotAffineError(f"{pooled}, by windows that are not all of one size")
    pool = aten.max_pool2d_with_indices if len(size) == 2 else aten.max_pool3d_with_indices
    return _max_pool(rays, pool.default, x, windows)


def _per_axis(value: Any, dims: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * dims if len(values) == 1 else values


def _windows(x: Tensor, axes: list[tuple[int, int, int, int]], ceil: bool) -> Tensor:
    """Return the windows of a pooling, `(…, K)`; axes are size, stride, padding and dilation."""
    first = x.dim() - len(axes)
    pads: list[int] = []
    for side, (size, stride, padding, dilation) in zip(x.shape[first:], axes, strict=True):
        extent, more = dilation * (size - 1) + 1, 0
        if ceil:
            count = -(-(side + 2 * padding - extent) // stride) + 1
            if (count - 1) * stride >= side + padding:
                count -= 1  # a window may not begin in the padding on the right
            more = max(0, (count - 1) * stride + extent - side - 2 * padding)
        pads = [padding, padding + more, *pads]  # the last axis comes first
    x = F.pad(x, pads, value=PADDING) if any(pads) else x
    for axis, (size, stride, _, dilation) in enumerate(axes, first):
        x = x.unfold(axis, dilation * (size - 1) + 1, stride)[..., ::dilation]
    return x.flatten(-len(axes))
