"""Layers that are cheap to differentiate twice: first in the input, then in the weights.

A penalty on `g = ∇ₓ S` needs `∇_θ ⟨v, ∇ₓ S⟩` for a fixed v. Torch finds it by going back through
its own backward pass, which is the pass of the direction v through the network, layer by layer. For
a linear layer that costs what it must; for BatchNorm, ReLU and pooling torch falls back on long
chains of general formulas, in slow memory layouts. Inside `CheapDoubleBackward()` these layers
follow exact rules of our own, each a pass or two over its activations; all others stay torch's.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-overload"

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from nescio.errors import NescioError

aten = torch.ops.aten
Rule = Callable[..., Any]


class CheapDoubleBackward(TorchFunctionMode):
    """A context for forward passes that are differentiated first in the input alone.

    That first derivative, `torch.autograd.grad(…, x, create_graph=True)`, reaches no weights: they
    get theirs from the backward pass that follows it, the last. It may skip the gradient of `data`,
    the input as a leaf of the graph, if that is given here.
    """

    def __init__(self, data: Tensor | None = None) -> None:
        super().__init__()
        convolutions = {conv: _convolution(conv, n, data) for conv, n in CONVOLUTIONS.items()}
        self.rules = RULES | convolutions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.rules.get(func, func)(*args, **(kwargs or {}))


def _last(backward: Rule) -> Rule:
    """Forbid to differentiate the backward pass of a derivative in x: it would know no weights."""

    def checked(ctx: Any, *grads: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise NescioError(
                "what was computed under CheapDoubleBackward can be differentiated in the weights "
                "only once, by backward() without create_graph=True"
            )
        return backward(ctx, *grads)

    return checked


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Any, how: Any, of_data: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias_shape = None if bias is None else list(bias.shape)
        ctx.how, ctx.of_data = how, of_data
        return aten.convolution(x, weight, bias, *how)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (s,), (x, weight) = grads, ctx.saved_tensors
        if torch.is_grad_enabled():  # the first derivative, in the input
            return _ConvolutionInX.apply(s, weight, x, ctx.how), None, None, None, None
        mask = [ctx.needs_input_grad[0] and not ctx.of_data, *ctx.needs_input_grad[1:3]]
        return *aten.convolution_backward(s, x, weight, ctx.bias_shape, *ctx.how, mask), None, None


class _ConvolutionInX(Function):
    """`s ↦ Wᵀ s`; backwards, a direction t goes on as `W t` and the weights get `s ⊗ t`."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, weight: Tensor, x: Tensor, how: list[Any]) -> Tensor:
        ctx.save_for_backward(s, weight)
        ctx.how = how
        return aten.convolution_backward(s, x, weight, None, *how, [True, False, False])[0]

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (t,), (s, weight) = grads, ctx.saved_tensors
        mask = [False, ctx.needs_input_grad[1], False]
        in_weight = aten.convolution_backward(s, t, weight, None, *ctx.how, mask)[1]
        return aten.convolution(t, weight, None, *ctx.how), in_weight, None, None


class _BatchNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Any, bias: Any, *how: Any) -> Tensor:
        mean, var, momentum, eps = how
        y, centre, scale = torch.native_batch_norm(x, weight, bias, mean, var, True, momentum, eps)
        ctx.save_for_backward(x, weight, centre, scale)  # scale = 1 / sqrt(var + eps)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        if torch.is_grad_enabled():
            return _BatchNormInX.apply(*grads, *ctx.saved_tensors), *[None] * 6
        (s,), (x, weight, centre, scale), mask = grads, ctx.saved_tensors, ctx.needs_input_grad[:3]
        return *_batch_norm_backward(s, x, weight, centre, scale, mask), *[None] * 4


class _BatchNormInX(Function):
    """`s ↦ B s = γσ⁻¹ (s − mean s − x̂ mean(s x̂))`, over M values of each channel, x̂ = (x − μ)/σ.

    B is its own transpose, so a direction t goes on as `B t`. With a = mean(s x̂), b = mean(t x̂),
    Q = mean(t s) − mean(s) mean(t) − a b, it is `⟨t, B s⟩ = M γ Q / σ`; that is M Q / σ in γ, and
    in x `−γσ⁻² [(Q − 2ab) x̂ + b (s − mean s) + a (t − mean t)]`.
    """

    @staticmethod
    def forward(ctx: Any, s: Tensor, *saved: Any) -> Tensor:
        g, s_x, s_sum = _batch_norm_backward(s, *saved)
        ctx.save_for_backward(s, *saved, s_x, s_sum)
        return g

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (t,), (s, x, weight, centre, scale, s_x, s_sum) = grads, ctx.saved_tensors
        onward, t_x, t_sum = _batch_norm_backward(t, x, weight, centre, scale)
        count = x.numel() // x.shape[1]
        a, b, s_mean, t_mean = (v / count for v in (s_x, t_x, s_sum, t_sum))
        # Σ t s of each channel in one pass: the weight gradient of a BatchNorm with mean 0, scale 1
        plain = torch.zeros_like(centre), torch.ones_like(scale)
        t_s = _batch_norm_backward(t, s, None, *plain, [False, True, False])[1]
        q = t_s / count - s_mean * t_mean - a * b
        outer = -scale.square() if weight is None else -weight * scale.square()
        of_x = outer * (q - 2 * a * b) * scale
        constant = -of_x * centre - outer * (b * s_mean + a * t_mean)
        shape = [1, -1, *[1] * (x.dim() - 2)]
        of_x, of_s, of_t, constant = (v.view(shape) for v in (of_x, outer * b, outer * a, constant))
        in_x = torch.addcmul(constant, x, of_x).addcmul_(s, of_s).addcmul_(t, of_t)
        return onward, in_x, None if weight is None else count * q * scale, None, None


def _batch_norm_backward(
    s: Tensor, x: Tensor, weight: Any, centre: Tensor, scale: Tensor, mask: Any = (True, True, True)
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `B s` and, of each channel, Σ s x̂ and Σ s, the gradients of weight and bias."""
    return aten.native_batch_norm_backward(s, x, weight, None, None, centre, scale, True, 0.0, mask)


class _ReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.relu(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _ReLUInX.apply(*grads, *ctx.saved_tensors)


class _ReLUInX(Function):
    """`s ↦ s` where the output is above 0: linear, its own transpose, and flat in x."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y)
        return aten.threshold_backward(s, y, 0)

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return aten.threshold_backward(*grads, *ctx.saved_tensors, 0), None


class _MaxPool(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, how: list[Any]) -> Tensor:
        y, index = aten.max_pool2d_with_indices(x, *how)
        ctx.save_for_backward(x, index)
        ctx.how = how
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _MaxPoolInX.apply(*grads, *ctx.saved_tensors, ctx.how), None


class _MaxPoolInX(Function):
    """`s ↦ s` put where the largest inputs were; backwards, a direction is read off there."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, x: Tensor, index: Tensor, how: list[Any]) -> Tensor:
        ctx.save_for_backward(index)
        return aten.max_pool2d_with_indices_backward(s, x, *how, index)

    @staticmethod
    @_last
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (t,), (index,) = grads, ctx.saved_tensors
        if index.is_contiguous():
            return t.flatten(2).gather(2, index.flatten(2)).view_as(index), None, None, None
        t, index = (v.permute(0, 2, 3, 1) for v in (t, index))  # channels last: (N, H, W, C)
        read = t.flatten(1, 2).gather(1, index.flatten(1, 2)).view_as(index)
        return read.permute(0, 3, 1, 2), None, None, None


def _convolution(conv: Rule, n: int, data: Tensor | None) -> Rule:
    """Return the rule of a convolution over n axes, in a network that is given these data."""

    def rule(
        input: Tensor,  # noqa: A002
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        if isinstance(padding, str) or input.dim() != n + 2:
            return conv(input, weight, bias, stride, padding, dilation, groups)
        sizes = ([v] if isinstance(v, int) else [*v] for v in (stride, padding, dilation))
        how = [*sizes, False, [0] * n, groups]
        return _Convolution.apply(input, weight, bias, how, _depends_only_on(data, input))

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
    # a fixed affine map, or too few values, for which torch raises an error
    if not training or input.numel() == input.shape[1]:
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
    sizes = (kernel_size, stride, padding, dilation)
    how = [*([v, v] if isinstance(v, int) else list(v) for v in sizes), ceil_mode]
    return _MaxPool.apply(input, how)


RULES: dict[Rule, Rule] = dict.fromkeys((F.relu, torch.relu, Tensor.relu), _relu)
RULES |= {F.batch_norm: _batch_norm, F.max_pool2d: _max_pool2d}
CONVOLUTIONS: dict[Rule, int] = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}


def _depends_only_on(data: Tensor | None, x: Tensor) -> bool:
    """Return whether x was made of the data alone, with nothing else that wants a gradient."""
    if data is None or x.grad_fn is None:
        return x is data
    waiting: list[Any] = [x.grad_fn]
    seen = {None}
    while waiting:
        if (node := waiting.pop()) not in seen:
            seen.add(node)
            if getattr(node, "variable", data) is not data:
                return False
            waiting += [before for before, _ in node.next_functions]
    return True
