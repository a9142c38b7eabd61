"""Layers that are cheap to differentiate twice: once in the input, and what comes of that in the weights.

A penalty on `g = ∇ₓ S` needs `∇_θ ⟨v, ∇ₓ S⟩` for a fixed v. Torch finds it by going back through its own backward pass,
which is the pass of the direction v through the network, layer by layer. For a linear layer that costs what it must;
for BatchNorm, ReLU and pooling torch falls back on long chains of general formulas, in slow memory layouts. Inside
`cheap_twice()` these few layers go by rules of their own, exact, each a pass or two over its activations; every other
layer stays torch's, so a network may hold any.
"""


# mypy: disable-error-code="no-untyped-call, no-any-return, call-overload"

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nescio.errors import NescioError

aten = torch.ops.aten


def cheap_twice(data: Tensor | None = None) -> AbstractContextManager[Any]:
    """A block of forward passes that are to be differentiated first in the input alone, then in the weights.

    The first derivative, `torch.autograd.grad(…, x, create_graph=True)`, reaches no weights: they get theirs from the
    backward pass that follows it, which is the last. That one may spare itself the gradient of `data`, the input as a
    leaf of the graph, if it is given here.
    """
    return _Rules(data)


class _Rules(TorchFunctionMode):
    """Sends calls of torch's functions to the rules in `RULES`."""

    def __init__(self, data: Tensor | None) -> None:
        super().__init__()
        convolutions = {
            native: _convolution(native, sides, data) for native, sides in SIDES.items()
        }
        self.rules: dict[Callable[..., Any], Callable[..., Any]] = RULES | convolutions

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.rules.get(func, func)(*args, **(kwargs or {}))


def _last(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The backward pass of a derivative in x, which is not to be differentiated: it would know of no weights."""

    def checked(ctx: Any, *grads: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise NescioError(
                "what was made under cheap_twice() can be differentiated in the weights only once, "
                "by backward() without create_graph=True"
            )
        return backward(ctx, *grads)

    return checked


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, how: list[Any], of_data: bool
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased, ctx.how, ctx.of_data = None if bias is None else list(bias.shape), how, of_data
        y: Tensor = aten.convolution(x, weight, bias, *how)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (s,), (x, weight) = grads, ctx.saved_tensors
        if torch.is_grad_enabled():  # the first derivative, in the input
            return _ConvolutionInX.apply(s, weight, x, ctx.how), None, None, None, None
        wanted = [ctx.needs_input_grad[0] and not ctx.of_data, *ctx.needs_input_grad[1:3]]
        return *aten.convolution_backward(s, x, weight, ctx.biased, *ctx.how, wanted), None, None


class _ConvolutionInX(torch.autograd.Function):
    """`s ↦ Wᵀ s`; backwards, a direction t goes on as `W t` and the weights get `s ⊗ t`."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, weight: Tensor, x: Tensor, how: list[Any]) -> Tensor:
        ctx.save_for_backward(s, weight)
        ctx.how = how
        g: Tensor = aten.convolution_backward(s, x, weight, None, *how, [True, False, False])[0]
        return g

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (t,), (s, weight) = grads, ctx.saved_tensors
        in_weight = None
        if ctx.needs_input_grad[1]:
            in_weight = aten.convolution_backward(
                s, t, weight, None, *ctx.how, [False, True, False]
            )[1]
        return aten.convolution(t, weight, None, *ctx.how), in_weight, None, None


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Any,
        bias: Any,
        mean: Any,
        var: Any,
        momentum: float,
        eps: float,
    ) -> Tensor:
        y, centre, scale = torch.native_batch_norm(x, weight, bias, mean, var, True, momentum, eps)
        ctx.save_for_backward(x, weight, centre, scale)  # scale = 1 / sqrt(var + eps)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (s,), (x, weight, centre, scale) = grads, ctx.saved_tensors
        if torch.is_grad_enabled():
            return (
                _BatchNormInX.apply(s, x, weight, centre, scale),
                None,
                None,
                None,
                None,
                None,
                None,
            )
        return (
            *_normalised_back(s, x, weight, centre, scale, ctx.needs_input_grad[:3]),
            None,
            None,
            None,
            None,
        )


class _BatchNormInX(torch.autograd.Function):
    """`s ↦ B s = γσ⁻¹ (s − mean s − x̂ mean(s x̂))`, over M values of each channel, with x̂ = (x − μ)/σ.

    B is its own transpose, so a direction t goes on as `B t`. With a = mean(s x̂), b = mean(t x̂) and
    Q = mean(t s) − mean(s) mean(t) − a b, it is `⟨t, B s⟩ = M γ Q / σ`; that is M Q / σ in γ, and in x
    `−γσ⁻² [(Q − 2ab) x̂ + b (s − mean s) + a (t − mean t)]`.
    """

    @staticmethod
    def forward(
        ctx: Any, s: Tensor, x: Tensor, weight: Any, centre: Tensor, scale: Tensor
    ) -> Tensor:
        g, s_x, s_sum = _normalised_back(s, x, weight, centre, scale)
        ctx.save_for_backward(s, x, weight, centre, scale, s_x, s_sum)
        return g

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (t,), (s, x, weight, centre, scale, s_x, s_sum) = grads, ctx.saved_tensors
        onward, t_x, t_sum = _normalised_back(t, x, weight, centre, scale)
        count = x.numel() // x.shape[1]
        a, b, s_mean, t_mean = (v / count for v in (s_x, t_x, s_sum, t_sum))
        # Σ t s over each channel, in one pass: what a BatchNorm of s with mean 0 and scale 1 would give its weights
        plain = torch.zeros_like(centre), torch.ones_like(scale)
        t_s = aten.native_batch_norm_backward(
            t, s, None, None, None, *plain, True, 0.0, [False, True, False]
        )[1]
        q = t_s / count - s_mean * t_mean - a * b
        outer = -scale.square() if weight is None else -weight * scale.square()
        of_x = outer * (q - 2 * a * b) * scale
        rest = -of_x * centre - outer * (b * s_mean + a * t_mean)
        sides = [1, -1, *[1] * (x.dim() - 2)]
        of_x, of_s, of_t, rest = (v.view(sides) for v in (of_x, outer * b, outer * a, rest))
        in_x = torch.addcmul(rest, x, of_x).addcmul_(s, of_s).addcmul_(t, of_t)
        return onward, in_x, None if weight is None else count * q * scale, None, None


def _normalised_back(
    s: Tensor,
    x: Tensor,
    weight: Any,
    centre: Tensor,
    scale: Tensor,
    wanted: Sequence[bool] = (True, True, True),
) -> tuple[Tensor, Tensor, Tensor]:
    """`B s`, and of each channel Σ s x̂ and Σ s, which are the gradients of weight and bias."""
    return aten.native_batch_norm_backward(
        s, x, weight, None, None, centre, scale, True, 0.0, wanted
    )


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.relu(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _ReLUInX.apply(*grads, *ctx.saved_tensors)


class _ReLUInX(torch.autograd.Function):
    """`s ↦ s` where the output is above 0: linear, its own transpose, and flat in x."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y)
        g: Tensor = aten.threshold_backward(s, y, 0)
        return g

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return aten.threshold_backward(*grads, *ctx.saved_tensors, 0), None


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, how: list[Any]) -> Tensor:
        y, chosen = aten.max_pool2d_with_indices(x, *how)
        ctx.save_for_backward(x, chosen)
        ctx.how = how
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _MaxPoolInX.apply(*grads, *ctx.saved_tensors, ctx.how), None


class _MaxPoolInX(torch.autograd.Function):
    """`s ↦ s` put where the largest inputs were; backwards, a direction is read off there."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, x: Tensor, chosen: Tensor, how: list[Any]) -> Tensor:
        ctx.save_for_backward(chosen)
        g: Tensor = aten.max_pool2d_with_indices_backward(s, x, *how, chosen)
        return g

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (t,), (chosen,) = grads, ctx.saved_tensors
        if chosen.is_contiguous():
            return t.flatten(2).gather(2, chosen.flatten(2)).view_as(chosen), None, None, None
        t, chosen = (v.permute(0, 2, 3, 1) for v in (t, chosen))  # channels last: (N, H, W, C)
        found = t.flatten(1, 2).gather(1, chosen.flatten(1, 2)).view_as(chosen)
        return found.permute(0, 3, 1, 2), None, None, None


def _convolution(
    native: Callable[..., Tensor], sides: int, data: Tensor | None
) -> Callable[..., Tensor]:
    """The rule of a convolution over so many sides, in a network that is given these data."""

    def rule(
        input: Tensor,  # noqa: A002
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        if isinstance(padding, str) or input.dim() != sides + 2:
            return native(input, weight, bias, stride, padding, dilation, groups)
        sizes = (
            [size] if isinstance(size, int) else [*size] for size in (stride, padding, dilation)
        )
        how = [*sizes, False, [0] * sides, groups]
        return _Convolution.apply(input, weight, bias, how, _is_of(data, input))

    return rule


def _batch_norm(
    input: Tensor,  # noqa: A002
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if (
        not training or input.numel() == input.shape[1]
    ):  # a fixed affine map, or too few values, of which torch tells
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return _BatchNorm.apply(input, weight, bias, running_mean, running_var, momentum, eps)


def _relu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    return F.relu(input, inplace) if inplace else _ReLU.apply(input)


def _max_pool2d(
    input: Tensor,  # noqa: A002
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,  # torch has another function for those
) -> Tensor:
    stride = kernel_size if stride is None else stride
    if input.dim() != 4:
        return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)
    sizes = (
        [v, v] if isinstance(v, int) else list(v) for v in (kernel_size, stride, padding, dilation)
    )
    return _MaxPool.apply(input, [*sizes, ceil_mode])


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    F.batch_norm: _batch_norm,
    F.relu: _relu,
    torch.relu: _relu,
    Tensor.relu: _relu,
    F.max_pool2d: _max_pool2d,
}
SIDES: dict[Callable[..., Any], int] = {
    torch.conv1d: 1,
    torch.conv2d: 2,
    torch.conv3d: 3,
}  # of what they run over


def _is_of(data: Tensor | None, x: Tensor) -> bool:
    """Whether x was made of the data alone, with nothing on the way that wants a gradient, too."""
    if data is None or x.grad_fn is None:
        return x is data
    waiting: list[Any] = [x.grad_fn]
    met = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        if getattr(node, "variable", data) is not data:
            return False
        waiting += [before for before, _ in node.next_functions]
    return True
