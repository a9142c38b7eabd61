"""Affine laws along rays, pushed through a network by the operations that its layers come down to.

On a ray `x₀ + t·d` every value in a piecewise affine network is `slope·t + intercept` between two
breakpoints, and after the last one. A `Law` is a tensor of such pairs. Torch calls it with aten
operations; a rule says how each acts on laws. Rules that choose, as ReLU does, are in `choices`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from nescio.errors import NescioError

if TYPE_CHECKING:
    from nescio.audit.affine.choices import Rays

aten = torch.ops.aten
Rule = Callable[..., Any]  # of the rays, the operation, and what the operation was called with
R = TypeVar("R", bound=Rule)
RULES: dict[Any, Rule] = {}  # by operation
TOLERANCE = 1e-12  # values differ only by rounding up to this fraction of what they are made of


class NotAffineError(NescioError):
    """The model, or an operation in it, is not piecewise affine and so has no law."""


class Law(Tensor):
    """`slope · t + intercept`, entry by entry."""

    slope: Tensor
    intercept: Tensor
    rays: "Rays"

    @staticmethod
    def __new__(cls, slope: Tensor, intercept: Tensor, rays: "Rays") -> "Law":
        self: Law = Tensor._make_wrapper_subclass(
            cls, slope.shape, dtype=slope.dtype, device=slope.device, strides=slope.stride()
        )
        self.slope, self.intercept, self.rays = slope, intercept, rays
        return self

    def __init__(self, slope: Tensor, intercept: Tensor, rays: "Rays") -> None:
        super().__init__()

    def apply(self, linear: Callable[[Tensor], Tensor]) -> "Law":
        """Return the law whose slope and intercept a linear function makes of these."""
        return Law(linear(self.slope), linear(self.intercept), self.rays)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Catch circular padding by its name: it writes on views, which laws cannot."""
        kwargs = kwargs or {}
        if func is F.pad and "circular" in (*args[2:3], kwargs.get("mode")):
            return _pad_circularly(args[0], args[1] if len(args) > 1 else kwargs["pad"])
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        operation, kwargs = func.overloadpacket, kwargs or {}
        rays = next(_laws_in((args, kwargs))).rays
        try:
            if operation not in RULES:
                name = operation.__name__
                raise NotAffineError(f"uses {name!r}, which is not piecewise affine or has no rule")
            return RULES[operation](rays, func, *args, **kwargs)
        except NotAffineError as error:
            reason = f"{rays.where()} {error}; nescio.audit.scaling measures such a model instead"
            raise NotAffineError(reason) from error

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Law({self.slope!r}, {self.intercept!r})"


def rule(names: str) -> Callable[[R], R]:
    """Register how the aten operations of these names act on laws."""

    def register(function: R) -> R:
        RULES.update({getattr(aten, name): function for name in names.split()})
        return function

    return register


def as_law(value: Any, rays: "Rays") -> Law:
    """Return a law itself, or the law of a constant."""
    if isinstance(value, Law):
        return value
    constant = torch.as_tensor(value)
    return Law(torch.zeros_like(constant), constant, rays)


def _laws_in(tree: Any) -> Iterator[Law]:
    if isinstance(tree, Law):
        yield tree
    elif isinstance(tree, list | tuple | dict):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _laws_in(item)


def _pad_circularly(x: Tensor, pad: Sequence[int]) -> Tensor:
    """Continue each axis with what is at its other end; the last axis comes first in `pad`."""
    for step in range(0, len(pad), 2):
        axis = x.dim() - 1 - step // 2
        places = torch.arange(-pad[step], x.shape[axis] + pad[step + 1], device=x.device)
        x = x.index_select(axis, places % x.shape[axis])
    return x


def _part(tree: Any, name: str) -> Any:
    """Return the slopes, or the intercepts, in place of laws."""
    if isinstance(tree, list | tuple):
        return type(tree)(_part(item, name) for item in tree)
    return getattr(tree, name) if isinstance(tree, Law) else tree


def _pair(slope: Any, intercept: Any, rays: "Rays") -> Any:
    if isinstance(slope, Tensor):
        return Law(slope, intercept, rays)
    return type(slope)(_pair(s, b, rays) for s, b in zip(slope, intercept, strict=True))


def _without_rounding(slope: Tensor, bound: Tensor | float, terms: Callable[[], Tensor]) -> Tensor:
    """Set slopes to 0 that are nothing but rounding of the sums of absolute values, `terms`.

    A unit whose terms cancel would else seem to grow, slowly, for all t. `bound` is above all
    terms: they need be known only where a slope is so small beside it.
    """
    if not ((slope != 0) & (slope.abs() <= TOLERANCE * bound)).any():
        return slope
    return slope.masked_fill(slope.abs() <= TOLERANCE * terms(), 0.0)


@rule(
    "permute transpose t expand clone detach alias slice select unsqueeze squeeze split "
    "split_with_sizes unbind neg flip roll reflection_pad1d reflection_pad2d reflection_pad3d "
    "replication_pad1d replication_pad2d replication_pad3d upsample_nearest1d upsample_nearest2d "
    "upsample_nearest3d index index_select gather _to_copy pixel_shuffle pixel_unshuffle "
    "channel_shuffle native_channel_shuffle unfold narrow repeat im2col diagonal"
)
def _linear(rays: "Rays", func: Any, *args: Any, **kwargs: Any) -> Any:
    """What is linear in its one tensor acts on slopes and intercepts alike."""
    slope, intercept = (func(*_part(args, name), **kwargs) for name in ("slope", "intercept"))
    return _pair(slope, intercept, rays)


@rule(
    "sum mean avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "adaptive_avg_pool1d upsample_bilinear2d cumsum"
)
def _sum(rays: "Rays", func: Any, x: Law, *args: Any, **kwargs: Any) -> Law:
    """Sums with weights ≥ 0."""
    slope = func(x.slope, *args, **kwargs)
    averages = func.overloadpacket not in (aten.sum, aten.cumsum)
    bound = x.slope.abs().amax() * (1 if averages else x.slope.numel())
    slope = _without_rounding(slope, bound, lambda: func(x.slope.abs(), *args, **kwargs))
    return Law(slope, func(x.intercept, *args, **kwargs), rays)


@rule("view _unsafe_view reshape")
def _view(rays: "Rays", func: Any, x: Law, size: Any) -> Law:
    """Slopes and intercepts may lie in memory in different ways, so neither need be a view."""
    return x.apply(lambda part: part.reshape(size))


@rule("zeros_like ones_like full_like new_zeros new_ones new_full")
def _constant(rays: "Rays", func: Any, x: Law, *args: Any, **kwargs: Any) -> Any:
    return func(x.slope, *args, **kwargs)


@rule("cat stack")
def _join(rays: "Rays", func: Any, tensors: Sequence[Tensor], *args: Any) -> Law:
    laws = [as_law(tensor, rays) for tensor in tensors]
    return Law(func(_part(laws, "slope"), *args), func(_part(laws, "intercept"), *args), rays)


@rule("add sub")
def _add(rays: "Rays", func: Any, a: Any, b: Any, alpha: float = 1) -> Law:
    intercept = func(_part(a, "intercept"), _part(b, "intercept"), alpha=alpha)
    sign = alpha if func.overloadpacket is aten.add else -alpha
    if not isinstance(b, Law):
        slope = a.slope
    elif not isinstance(a, Law):
        slope = sign * b.slope
    else:
        first, second = a.slope, sign * b.slope
        bound = first.abs().amax() + second.abs().amax()
        slope = _without_rounding(first + second, bound, lambda: first.abs() + second.abs())
    return Law(slope.expand(intercept.shape), intercept, rays)


@rule("rsub")
def _subtract_from(rays: "Rays", func: Any, a: Any, b: Any, alpha: float = 1) -> Law:
    """`b − alpha · a`."""
    b = b if isinstance(b, Tensor) else torch.as_tensor(b, dtype=a.dtype)
    return _add(rays, aten.sub.Tensor, b, a, alpha)


@rule("mul div")
def _multiply(rays: "Rays", func: Any, a: Any, b: Any, **rounding: Any) -> Any:
    if isinstance(a, Law) and isinstance(b, Law):
        raise NotAffineError("multiplies or divides one value of the ray by another")
    if isinstance(b, Law) and func.overloadpacket is aten.div:
        raise NotAffineError("divides by a value of the ray")
    if rounding:
        raise NotAffineError("divides with rounding")
    return _linear(rays, func, a, b)


@rule("mm bmm matmul mv dot")
def _product(rays: "Rays", func: Any, a: Tensor, b: Tensor) -> Law:
    if isinstance(a, Law) and isinstance(b, Law):
        raise NotAffineError("multiplies values of the ray by each other")
    left, right = _part(a, "slope"), _part(b, "slope")
    bound = left.shape[-1] * left.abs().amax() * right.abs().amax()
    slope = _without_rounding(func(left, right), bound, lambda: func(left.abs(), right.abs()))
    return Law(slope, func(_part(a, "intercept"), _part(b, "intercept")), rays)


@rule("addmm baddbmm")
def _affine(
    rays: "Rays", func: Any, bias: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1
) -> Law:
    times = aten.mm.default if func.overloadpacket is aten.addmm else aten.bmm.default
    product = _product(rays, times, a, b)
    product = product if alpha == 1 else product.apply(lambda part: alpha * part)
    return _add(rays, aten.add.Tensor, product, bias, beta)


@rule("convolution")
def _convolve(rays: "Rays", func: Any, x: Any, weight: Any, bias: Any, *how: Any) -> Law:
    if isinstance(weight, Law) or isinstance(bias, Law):
        raise NotAffineError("convolves with weights that depend on the ray")
    slope, intercept = func(torch.cat([x.slope, x.intercept]), weight, None, *how).tensor_split(2)
    bound = weight.abs().flatten(1).sum(1).amax() * x.slope.abs().amax()
    slope = _without_rounding(slope, bound, lambda: func(x.slope.abs(), weight.abs(), None, *how))
    if bias is not None:
        intercept = intercept + bias.view(-1, *[1] * (intercept.dim() - 2))
    return Law(slope, intercept, rays)


@rule("native_batch_norm _native_batch_norm_legit_no_training _native_batch_norm_legit")
def _batch_norm(
    rays: "Rays", func: Any, x: Law, weight: Any, bias: Any, mean: Any, var: Any, *how: Any
) -> Any:
    in_eval = func.overloadpacket is aten._native_batch_norm_legit_no_training or not how[0]
    if mean is None or not in_eval:
        raise NotAffineError("normalises by the statistics of its batch")
    shape = (-1, *[1] * (x.dim() - 2))
    factor = (var + how[-1]).rsqrt() * (1 if weight is None else weight)
    offset = (0 if bias is None else bias) - mean * factor
    intercept = x.intercept * factor.view(shape) + offset.view(shape)
    empty = x.slope.new_empty(0)  # statistics of the batch
    return Law(x.slope * factor.view(shape), intercept, rays), empty, empty


@rule("constant_pad_nd")
def _pad(rays: "Rays", func: Any, x: Law, pad: Any, value: float = 0) -> Law:
    return Law(func(x.slope, pad, 0), func(x.intercept, pad, value), rays)


@rule(
    "relu_ leaky_relu_ hardtanh_ add_ sub_ mul_ div_ clamp_ clamp_min_ clamp_max_ neg_ abs_ "
    "masked_fill_"
)
def _in_place(rays: "Rays", func: Any, x: Law, *args: Any, **kwargs: Any) -> Law:
    """Apply the rule of the operation that writes elsewhere, and exchange the law itself."""
    operation = getattr(aten, func.overloadpacket.__name__.removesuffix("_"))
    law = RULES[operation](rays, getattr(operation, func._overloadname), x, *args, **kwargs)
    x.slope, x.intercept = law.slope, law.intercept
    return x


@rule("equal")
def _equal(rays: "Rays", func: Any, a: Any, b: Any) -> bool:
    """Laws are equal that are so for every t."""
    a, b = as_law(a, rays), as_law(b, rays)
    return torch.equal(a.slope, b.slope) and torch.equal(a.intercept, b.intercept)


@rule("as_strided_")
def _as_strided(rays: "Rays", func: Any, x: Law, size: Any, stride: Any, offset: Any = None) -> Law:
    """Pooling to one pixel sets the strides of its result anew, which changes no value."""
    if tuple(size) != tuple(x.shape):
        raise NotAffineError("lays out its memory anew")
    return x
