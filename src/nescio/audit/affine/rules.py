"""How the operations that layers come down to act on laws; see `audit.laws`.

A rule takes the rays, the operation, and what the operation was called with.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from nescio.audit.affine.laws import LEAST, RULES, SAME, Law, NotAffineError, Rays, Rule

aten = torch.ops.aten


R = TypeVar("R", bound=Rule)


def _rule(*operations: Any) -> Callable[[R], R]:
    """Say how some operations act on laws."""

    def add(function: R) -> R:
        for operation in operations:
            RULES[operation] = function
        return function

    return add


def _part(tree: Any, name: str) -> Any:
    """The slopes, or the intercepts, in place of laws; a constant has no slope."""
    if isinstance(tree, Law):
        return getattr(tree, name)
    if isinstance(tree, list | tuple):
        return type(tree)(_part(item, name) for item in tree)
    return tree


def _paired(slope: Any, intercept: Any, rays: Rays) -> Any:
    if isinstance(slope, Tensor):
        return Law(slope, intercept, rays)
    return type(slope)(_paired(s, b, rays) for s, b in zip(slope, intercept, strict=True))


def _kept(slope: Tensor, most: Tensor | float, terms: Callable[[], Tensor]) -> Tensor:
    """Slopes that are sums, with 0 for those that are nothing but rounding of their `terms`, the sums of absolutes.

    A unit whose terms cancel would else seem to grow, slowly, for ever. `most` bounds all terms: only where a slope is
    so small beside it need they be known.
    """
    if not ((slope != 0) & (slope.abs() <= SAME * most)).any():
        return slope
    return slope.masked_fill(slope.abs() <= SAME * terms(), 0.0)


@_rule(
    aten.sum,
    aten.mean,
    aten.avg_pool1d,
    aten.avg_pool2d,
    aten.avg_pool3d,
    aten._adaptive_avg_pool2d,
    aten._adaptive_avg_pool3d,
    aten.adaptive_avg_pool1d,
    aten.upsample_bilinear2d,
)
def _summed(rays: Rays, func: Any, x: Law, *args: Any, **kwargs: Any) -> Law:
    """Sums with weights that are not negative."""
    slope = func(x.slope, *args, **kwargs)
    share = x.slope.numel() / max(1, slope.numel()) if func.overloadpacket is aten.sum else 1.0
    slope = _kept(slope, share * x.slope.abs().amax(), lambda: func(x.slope.abs(), *args, **kwargs))
    return Law(slope, func(x.intercept, *args, **kwargs), rays)


@_rule(
    aten.permute,
    aten.transpose,
    aten.t,
    aten.expand,
    aten.clone,
    aten.detach,
    aten.alias,
    aten.slice,
    aten.select,
    aten.unsqueeze,
    aten.squeeze,
    aten.split,
    aten.split_with_sizes,
    aten.unbind,
    aten.neg,
    aten.flip,
    aten.roll,
    aten.reflection_pad1d,
    aten.reflection_pad2d,
    aten.reflection_pad3d,
    aten.replication_pad1d,
    aten.replication_pad2d,
    aten.replication_pad3d,
    aten.upsample_nearest1d,
    aten.upsample_nearest2d,
    aten.upsample_nearest3d,
    aten.index,
    aten.index_select,
    aten._to_copy,
    aten.pixel_shuffle,
    aten.pixel_unshuffle,
    aten.channel_shuffle,
    aten.native_channel_shuffle,
    aten.unfold,
    aten.narrow,
    aten.repeat,
    aten.im2col,
    aten.diagonal,
)
def _linear(rays: Rays, func: Any, *args: Any, **kwargs: Any) -> Any:
    """What is linear in its one tensor acts on slopes and intercepts alike."""
    return _paired(
        func(*_part(args, "slope"), **kwargs), func(*_part(args, "intercept"), **kwargs), rays
    )


@_rule(aten.view, aten._unsafe_view, aten.reshape)
def _viewed(rays: Rays, func: Any, x: Law, size: Any) -> Law:
    """Slopes and intercepts may lie in memory in different ways, so neither need be a view."""
    return Law(x.slope.reshape(size), x.intercept.reshape(size), rays)


@_rule(
    aten.zeros_like, aten.ones_like, aten.full_like, aten.new_zeros, aten.new_ones, aten.new_full
)
def _constant(rays: Rays, func: Any, x: Law, *args: Any, **kwargs: Any) -> Tensor:
    """What is made in the likeness of a law hangs on its shape alone."""
    made: Tensor = func(x.slope, *args, **kwargs)
    return made


@_rule(aten.cat, aten.stack)
def _joined(rays: Rays, func: Any, tensors: Sequence[Tensor], *args: Any) -> Law:
    """Constants among the laws have slope 0."""
    laws = [_law(one, rays) for one in tensors]
    return Law(
        func([one.slope for one in laws], *args), func([one.intercept for one in laws], *args), rays
    )


def _law(value: Tensor, rays: Rays) -> Law:
    return value if isinstance(value, Law) else Law(torch.zeros_like(value), value, rays)


@_rule(aten.add, aten.sub)
def _added(rays: Rays, func: Any, a: Any, b: Any, alpha: float = 1) -> Law:
    slopes = [one.slope if isinstance(one, Law) else None for one in (a, b)]
    intercept = func(_part(a, "intercept"), _part(b, "intercept"), alpha=alpha)
    sign = alpha if func.overloadpacket is aten.add else -alpha
    if slopes[1] is None:
        slope = slopes[0]
    elif slopes[0] is None:
        slope = sign * slopes[1]
    else:
        one, other = slopes[0], sign * slopes[1]
        most = one.abs().amax() + other.abs().amax()
        slope = _kept(one + other, most, lambda: one.abs() + other.abs())
    return Law(slope.expand(intercept.shape), intercept, rays)  # type: ignore[union-attr]


@_rule(aten.rsub)
def _subtracted_from(rays: Rays, func: Any, a: Any, b: Any, alpha: float = 1) -> Law:
    """`b − alpha · a`."""
    return _added(
        rays,
        aten.sub.Tensor,
        b if isinstance(b, Tensor) else torch.as_tensor(b, dtype=a.dtype),
        a,
        alpha,
    )


@_rule(aten.mul, aten.div)
def _multiplied(rays: Rays, func: Any, a: Any, b: Any, **how: Any) -> Law:
    if isinstance(a, Law) and isinstance(b, Law):
        raise NotAffineError("multiplies or divides one value of the ray by another")
    if isinstance(b, Law) and func.overloadpacket is aten.div:
        raise NotAffineError("divides by a value of the ray")
    if how:
        raise NotAffineError("divides with rounding")
    return Law(
        func(_part(a, "slope"), _part(b, "slope")),
        func(_part(a, "intercept"), _part(b, "intercept")),
        rays,
    )


@_rule(aten.mm, aten.bmm, aten.matmul, aten.mv, aten.dot)
def _product(rays: Rays, func: Any, a: Tensor, b: Tensor) -> Law:
    if isinstance(a, Law) and isinstance(b, Law):
        raise NotAffineError("multiplies values of the ray by each other")
    left, right = _part(a, "slope"), _part(b, "slope")
    inner = left.shape[-1]  # as many terms there are to a sum
    slope = _kept(
        func(left, right),
        inner * left.abs().amax() * right.abs().amax(),
        lambda: func(left.abs(), right.abs()),
    )
    return Law(slope, func(_part(a, "intercept"), _part(b, "intercept")), rays)


@_rule(aten.addmm, aten.baddbmm)
def _affine(
    rays: Rays, func: Any, bias: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1
) -> Law:
    times = aten.mm.default if func.overloadpacket is aten.addmm else aten.bmm.default
    inner = _product(rays, times, a, b)
    inner = inner if alpha == 1 else Law(alpha * inner.slope, alpha * inner.intercept, rays)
    return _added(rays, aten.add.Tensor, inner, bias, beta)


@_rule(aten.convolution)
def _convolved(rays: Rays, func: Any, x: Any, weight: Any, bias: Tensor | None, *how: Any) -> Law:
    if isinstance(weight, Law) or isinstance(bias, Law):
        raise NotAffineError("convolves with weights that hang on the ray")
    both = func(torch.cat([x.slope, x.intercept]), weight, None, *how)
    slope, intercept = both.tensor_split(2)
    most = weight.abs().flatten(1).sum(1).amax() * x.slope.abs().amax()
    slope = _kept(slope, most, lambda: func(x.slope.abs(), weight.abs(), None, *how))
    if bias is not None:
        intercept = intercept + bias.view(-1, *[1] * (intercept.dim() - 2))
    return Law(slope, intercept, rays)


@_rule(
    aten.native_batch_norm, aten._native_batch_norm_legit_no_training, aten._native_batch_norm_legit
)
def _normalised(
    rays: Rays, func: Any, x: Law, weight: Any, bias: Any, mean: Any, var: Any, *how: Any
) -> Any:
    training = (
        how[0] if func.overloadpacket is not aten._native_batch_norm_legit_no_training else False
    )
    if training or mean is None:
        raise NotAffineError("normalises by the statistics of its batch")
    shape = (-1, *[1] * (x.dim() - 2))
    factor = (var + how[-1]).rsqrt() * (1 if weight is None else weight)
    offset = (0 if bias is None else bias) - mean * factor
    empty = x.slope.new_empty(0)
    return (
        Law(
            x.slope * factor.view(shape),
            x.intercept * factor.view(shape) + offset.view(shape),
            rays,
        ),
        empty,
        empty,
    )


@_rule(aten.constant_pad_nd)
def _padded(rays: Rays, func: Any, x: Law, pad: Any, value: float = 0) -> Law:
    return Law(func(x.slope, pad, 0), func(x.intercept, pad, value), rays)


def _chosen(rays: Rays, first: Law, other: Law) -> Law:
    """Entry by entry the larger of two laws."""
    wins = rays.above(first.slope - other.slope, first.intercept - other.intercept)
    return Law(
        torch.where(wins, first.slope, other.slope),
        torch.where(wins, first.intercept, other.intercept),
        rays,
    )


@_rule(aten.gather)
def _gathered(rays: Rays, func: Any, x: Law, dim: int, index: Tensor, **how: Any) -> Law:
    return Law(func(x.slope, dim, index), func(x.intercept, dim, index), rays)


@_rule(aten.where)
def _either(rays: Rays, func: Any, mask: Tensor, a: Any, b: Any) -> Law:
    """One of two, by a mask that does not hang on the ray."""
    if isinstance(mask, Law):
        raise NotAffineError("chooses by a value of the ray")
    first, other = (
        _law(one if isinstance(one, Tensor) else torch.as_tensor(one), rays) for one in (a, b)
    )
    return Law(
        func(mask, first.slope, other.slope), func(mask, first.intercept, other.intercept), rays
    )


@_rule(aten.masked_fill)
def _masked(rays: Rays, func: Any, x: Law, mask: Tensor, value: Any) -> Law:
    return Law(x.slope.masked_fill(mask, 0.0), x.intercept.masked_fill(mask, value), rays)


@_rule(aten.amax)
def _maximum(rays: Rays, func: Any, x: Law, dim: Any = (), keepdim: bool = False) -> Law:
    """The largest along some axes."""
    axes = sorted(
        axis % x.dim() for axis in ([dim] if isinstance(dim, int) else dim or range(x.dim()))
    )
    if 0 in axes:
        raise NotAffineError("compares inputs of a batch with each other")
    moved = [
        part.movedim(axes, tuple(range(-len(axes), 0))).flatten(-len(axes))
        for part in (x.slope, x.intercept)
    ]
    index = rays.largest(*moved)
    slope, intercept = (part.gather(-1, index).squeeze(-1) for part in moved)
    for axis in axes if keepdim else ():
        slope, intercept = slope.unsqueeze(axis), intercept.unsqueeze(axis)
    return Law(slope, intercept, rays)


@_rule(aten.max)
def _maximum_of(rays: Rays, func: Any, x: Law, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest along one axis, or entry by entry of two laws; nobody who stays on the ray looks at the indices."""
    if isinstance(dim, Tensor):
        return _larger(rays, func, x, dim)
    if dim is None:
        raise NotAffineError("compares inputs of a batch with each other")
    found = _maximum(rays, func, x, dim, keepdim)
    return found, torch.zeros(found.shape, dtype=torch.long)


@_rule(aten.adaptive_max_pool2d, aten.adaptive_max_pool3d)
def _adapted(rays: Rays, func: Any, x: Law, size: Any) -> Any:
    """Pooling to a size, which must divide that of the input, so that all windows are alike."""
    sides = x.shape[-len(size) :]
    if any(side % wanted for side, wanted in zip(sides, size, strict=True)):
        raise NotAffineError(
            f"pools {tuple(sides)} to {tuple(size)}, by windows that are not all of one size"
        )
    windows = [side // wanted for side, wanted in zip(sides, size, strict=True)]
    pool = aten.max_pool2d_with_indices if len(size) == 2 else aten.max_pool3d_with_indices
    return _pooled(rays, pool.default, x, windows)


@_rule(aten.cumsum)
def _running(rays: Rays, func: Any, x: Law, dim: int, **how: Any) -> Law:
    slope = _kept(
        func(x.slope, dim), x.slope.abs().amax() * x.shape[dim], lambda: func(x.slope.abs(), dim)
    )
    return Law(slope, func(x.intercept, dim), rays)


@_rule(aten.maximum)
def _larger(rays: Rays, func: Any, a: Any, b: Any) -> Law:
    return _chosen(rays, *_alike(a, b, rays))


@_rule(aten.minimum)
def _smaller(rays: Rays, func: Any, a: Any, b: Any) -> Law:
    found = _chosen(rays, *(Law(-one.slope, -one.intercept, rays) for one in _alike(a, b, rays)))
    return Law(-found.slope, -found.intercept, rays)


def _alike(a: Any, b: Any, rays: Rays) -> tuple[Law, Law]:
    """Two laws of one shape."""
    first, other = _law(a, rays), _law(b, rays)
    shape = (first.slope + other.slope).shape
    return tuple(
        Law(one.slope.expand(shape), one.intercept.expand(shape), rays) for one in (first, other)
    )  # type: ignore[return-value]


@_rule(aten.relu)
def _rectified(rays: Rays, func: Any, x: Law) -> Law:
    above = rays.above(x.slope, x.intercept)
    return Law(x.slope * above, x.intercept * above, rays)


@_rule(aten.leaky_relu)
def _leaky(rays: Rays, func: Any, x: Law, slope: float = 0.01) -> Law:
    above = rays.above(x.slope, x.intercept)
    return Law(
        torch.where(above, x.slope, slope * x.slope),
        torch.where(above, x.intercept, slope * x.intercept),
        rays,
    )


@_rule(aten._prelu_kernel)
def _prelu(rays: Rays, func: Any, x: Law, weight: Tensor) -> Law:
    factor = torch.where(rays.above(x.slope, x.intercept), 1.0, weight)
    return Law(x.slope * factor, x.intercept * factor, rays)


@_rule(aten.abs)
def _absolute(rays: Rays, func: Any, x: Law) -> Law:
    factor = torch.where(rays.above(x.slope, x.intercept), 1.0, -1.0).to(x.slope.dtype)
    return Law(x.slope * factor, x.intercept * factor, rays)


@_rule(aten.hardtanh, aten.clamp, aten.clamp_min, aten.clamp_max)
def _clamped(rays: Rays, func: Any, x: Law, *bounds: Any, **named: Any) -> Law:
    """Between two bounds, either of which may be missing."""
    low, high = _bounds(func.overloadpacket, bounds, named)
    found = x
    if low is not None:
        found = _larger(rays, aten.maximum, found, torch.as_tensor(low, dtype=x.dtype))
    if high is not None:
        found = _smaller(rays, aten.minimum, found, torch.as_tensor(high, dtype=x.dtype))
    return found


def _bounds(operation: Any, bounds: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any]:
    given = [*bounds, None, None]
    if operation is aten.hardtanh:
        return (-1.0 if given[0] is None else given[0]), (1.0 if given[1] is None else given[1])
    if operation is aten.clamp_min:
        return given[0], None
    if operation is aten.clamp_max:
        return None, given[0]
    return named.get("min", given[0]), named.get("max", given[1])


@_rule(
    aten.max_pool2d_with_indices,
    aten.max_pool3d_with_indices,
    aten.max_pool1d,
    aten.max_pool2d,
    aten.max_pool3d,
)
def _pooled(
    rays: Rays,
    func: Any,
    x: Law,
    size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil: bool = False,
) -> Any:
    """Of each window the law that is largest."""
    dims = {"1": 1, "2": 2, "3": 3}[func.overloadpacket.__name__.split("pool")[1][0]]
    size, padding, dilation = (_each(value, dims) for value in (size, padding, dilation))
    stride = _each(stride, dims) if stride else size
    slope = _windows(
        x.slope, size, stride, padding, dilation, ceil, LEAST
    )  # (…, K); the padding never wins
    intercept = _windows(x.intercept, size, stride, padding, dilation, ceil, LEAST)
    index = rays.largest(slope, intercept)
    found = Law(slope.gather(-1, index).squeeze(-1), intercept.gather(-1, index).squeeze(-1), rays)
    # nobody who stays on the ray looks at the indices
    return (
        (found, torch.zeros(found.shape, dtype=torch.long))
        if "indices" in func.overloadpacket.__name__
        else found
    )


def _each(value: Any, dims: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * dims if len(values) == 1 else values


def _windows(
    x: Tensor,
    size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil: bool,
    fill: float,
) -> Tensor:
    """The windows of a pooling, `(…, K)`."""
    dims = len(size)
    room = []
    for side, k, s, p, d in zip(x.shape[-dims:], size, stride, padding, dilation, strict=True):
        reach, more = d * (k - 1) + 1, 0
        if ceil:
            count = -(-(side + 2 * p - reach) // s) + 1
            if (count - 1) * s >= side + p:  # a window may not begin in the padding on the right
                count -= 1
            more = max(0, (count - 1) * s + reach - side - 2 * p)
        room.append((p, p + more))
    if any(sum(pair) for pair in room):
        x = F.pad(x, [edge for pair in reversed(room) for edge in pair], value=fill)
    for i, (k, s, d) in enumerate(zip(size, stride, dilation, strict=True)):
        x = x.unfold(x.dim() - dims if i == 0 else 2 + i, d * (k - 1) + 1, s)[..., ::d]
    return x.flatten(-dims)


@_rule(
    aten.relu_,
    aten.leaky_relu_,
    aten.hardtanh_,
    aten.add_,
    aten.sub_,
    aten.mul_,
    aten.div_,
    aten.clamp_,
    aten.clamp_min_,
    aten.clamp_max_,
    aten.neg_,
    aten.abs_,
    aten.masked_fill_,
)
def _in_place(rays: Rays, func: Any, x: Law, *args: Any, **kwargs: Any) -> Law:
    """As the operation that writes elsewhere; the law itself is then exchanged."""
    other = getattr(aten, func.overloadpacket.__name__.removesuffix("_"))
    found = RULES[other](rays, getattr(other, func._overloadname), x, *args, **kwargs)
    x.slope, x.intercept = found.slope, found.intercept
    return x


@_rule(aten.equal)
def _equal(rays: Rays, func: Any, a: Any, b: Any) -> bool:
    """Laws are equal that are so for every t."""
    first, other = _law(a, rays), _law(b, rays)
    return torch.equal(first.slope, other.slope) and torch.equal(first.intercept, other.intercept)


@_rule(aten.as_strided_)
def _laid_out(rays: Rays, func: Any, x: Law, size: Any, stride: Any, offset: Any = None) -> Law:
    """Pooling to one pixel sets the strides of its result anew, which changes no value."""
    if tuple(size) != tuple(x.shape):
        raise NotAffineError("lays out its memory anew")
    return x
