"""Affine laws along rays: what `audit.asymptote` and `audit.trace` push through a network.

On a ray `x₀ + t·d` every value in a piecewise affine network is `slope·t + intercept` from one breakpoint to the next,
and after the last one for ever. A `Law` is a tensor that holds both, one pair for each entry. Torch calls it by the few
operations that all layers come down to; `audit.rules` says how each acts. Where an operation chooses, as ReLU and max
pooling do, the rays say what is chosen, at infinity or just after some t, and keep how long that holds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.errors import NescioError

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}  # by operation; see audit.rules
LEAST = -1e200  # slope and intercept of padding, which no maximum chooses
SAME = 1e-12  # values are taken for equal that differ by no more than this share of what they are made of


class Rays:
    """Some rays on their way through a network: what is larger there, and how long that holds.

    Args:
        count: how many.
        like: a tensor of their type and device.
        now: `(N,)`, the t just after which to choose; None for infinity.

    Attributes:
        since: `(N,)`, from which t on the choices at infinity hold.
        until: `(N,)`, up to which t the choices just after `now` hold.
    """

    def __init__(self, count: int, like: Tensor, now: Tensor | None = None) -> None:
        self.now = now
        self.since = like.new_zeros(count)
        self.until = like.new_full((count,), torch.inf)
        self.path: list[tuple[str, nn.Module]] = []

    def above(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Where `slope · t + intercept` is above 0: at infinity, or just after now."""
        crossing = torch.where(slope != 0, -intercept / slope, 0.0)
        if self.now is None:
            self._hold(since=crossing)
            return (slope > 0) | ((slope == 0) & (intercept > 0))
        now = self._times(slope)
        value = slope * now + intercept
        on_zero = value.abs() <= SAME * ((slope * now).abs() + intercept.abs())
        self._hold(until=torch.where((crossing > now) & ~on_zero, crossing, torch.inf))
        return torch.where(on_zero, slope > 0, value > 0)

    def largest(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Which of the last axis is the largest, `(…, 1)`: at infinity, or just after now."""
        if self.now is None:
            tied = leading(slope)
            index = intercept.masked_fill(~tied, -torch.inf).argmax(-1, keepdim=True)
        else:
            value = slope * self._times(slope) + intercept
            most = value.amax(-1, keepdim=True)
            near = most - value <= SAME * (value.abs() + intercept.abs() + most.abs())
            index = slope.masked_fill(~near, -torch.inf).argmax(-1, keepdim=True)
        steeper = slope - slope.gather(-1, index)
        steeper = steeper if self.now is not None else steeper.masked_fill(tied, 0.0)
        behind = intercept.gather(-1, index) - intercept
        crossing = torch.where(steeper != 0, behind / steeper, 0.0)
        if self.now is None:
            self._hold(since=crossing)
        else:
            self._hold(
                until=torch.where(
                    (steeper > 0) & (crossing > self._times(slope)), crossing, torch.inf
                )
            )
        return index

    def _times(self, like: Tensor) -> Tensor:
        """`now` as `(N, 1, …)`."""
        assert self.now is not None  # noqa: S101 - asked for only then
        if len(like) != len(self.now):
            raise NotAffineError(
                "moves the axis of the inputs, so that rays can no longer be told apart"
            )
        return self.now.view(-1, *[1] * (like.dim() - 1))

    def _hold(self, since: Tensor | None = None, until: Tensor | None = None) -> None:
        if since is not None:
            latest = since.flatten(1).amax(1) if since.dim() > 1 else since
            if len(latest) != len(
                self.since
            ):  # rays are no longer the first axis: what holds for all holds for each
                latest = latest.amax()
            self.since = torch.maximum(self.since, latest)
        if until is not None:
            self.until = torch.minimum(
                self.until, until.flatten(1).amin(1) if until.dim() > 1 else until
            )

    def where(self) -> str:
        """The module being run, in words."""
        if not self.path:
            return "the model"
        name, module = self.path[-1]
        return f"module {name or 'itself'!r} ({type(module).__name__})"


def leading(slope: Tensor) -> Tensor:
    """Which of the last axis have the largest slope, or one that only rounding tells from it."""
    scale = slope.abs().masked_fill(slope == LEAST, 0.0).amax(-1, keepdim=True)
    return slope.amax(-1, keepdim=True) - slope <= SAME * scale


class Law(Tensor):
    """`slope · t + intercept`, entry by entry."""

    slope: Tensor
    intercept: Tensor
    rays: Rays

    @staticmethod
    def __new__(cls, slope: Tensor, intercept: Tensor, rays: Rays) -> "Law":
        self: Law = Tensor._make_wrapper_subclass(
            cls, slope.shape, dtype=slope.dtype, device=slope.device, strides=slope.stride()
        )
        self.slope, self.intercept, self.rays = slope, intercept, rays
        return self

    def __init__(self, slope: Tensor, intercept: Tensor, rays: Rays) -> None:
        super().__init__()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Circular padding comes down to writing on views, which laws cannot; here it still has its name."""
        kwargs = kwargs or {}
        if func is F.pad and "circular" in (*args[2:3], kwargs.get("mode")):
            return _around(args[0], args[1] if len(args) > 1 else kwargs["pad"])
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        rule = RULES.get(func.overloadpacket)
        rays = next(laws_in((args, kwargs))).rays
        if rule is None:
            told = f"{rays.where()} uses {func.overloadpacket.__name__!r}, which is not piecewise affine, or has no rule"
            raise NotAffineError(f"{told} here; nescio.audit.scaling measures such a model instead")
        try:
            return rule(rays, func, *args, **kwargs)
        except NotAffineError as error:
            told = f"{rays.where()} {error}; nescio.audit.scaling measures such a model instead"
            raise NotAffineError(told) from error

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Law({self.slope!r}, {self.intercept!r})"


def _around(x: Tensor, pad: Any) -> Tensor:
    """Circular padding: to either side of an axis, what is at its other end; the last axis comes first."""
    for step in range(0, len(pad), 2):
        axis, (before, after) = x.dim() - 1 - step // 2, pad[step : step + 2]
        size = x.shape[axis]
        ends = [x.narrow(axis, size - before, before)] if before > 0 else []
        ends += [x.narrow(axis, max(0, -before), size + min(0, before) + min(0, after))]
        ends += [x.narrow(axis, 0, after)] if after > 0 else []
        x = torch.cat(ends, axis)
    return x


class NotAffineError(NescioError):
    """A model that is not piecewise affine, or an operation that is not: then a law cannot be told, only measured."""


@contextmanager
def followed(model: nn.Module, rays: Rays) -> Iterator[None]:
    """A block in which rays know which module they are in."""
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


def laws_in(tree: Any) -> Iterator[Law]:
    """All laws in what an operation was called with."""
    if isinstance(tree, Law):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from laws_in(item)
    elif isinstance(tree, dict):
        yield from laws_in(list(tree.values()))
