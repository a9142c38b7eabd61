"""Gradients of single inputs in closed form, for the layers that nearly all weights live in.

A rule gets what a layer was given, `(N, …)`, and the gradient at what it returned, one pair for each time it was used,
and gives the moments of the gradient at each of its weights. Large gradients are made for a few inputs at a time.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.weight_gradients.moments import Moments, merged, of_outer, of_rows, stacked

Uses = Sequence[
    tuple[Tensor, Tensor]
]  # of one layer: what it was given, and the gradient at what it returned
Rule = Callable[[Any, Uses], Moments]
ROOM = 2**24  # numbers in the largest thing that is made for some inputs at a time


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a layer, if it is one of those we know, and works as torch made it."""
    for kind, rule in _RULES.items():
        if isinstance(module, kind):
            plain = type(
                module
            ).forward is kind.forward and not nn.utils.parametrize.is_parametrized(module)
            return rule if plain and module._parameters.get("weight") is not None else None
    return None


def fits(module: nn.Module, given: Tensor, returned: Tensor, inputs: int) -> bool:
    """Whether a layer was used on a batch of so many inputs, along its first axis."""
    axes = {nn.Linear: 2, nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5}
    least = next((number for kind, number in axes.items() if isinstance(module, kind)), 2)
    return len(given) == len(returned) == inputs and given.dim() >= least


def linear(module: nn.Linear, uses: Uses) -> Moments:
    """`δ ⊗ a`; where a layer meets several vectors of one input (words, a second use) the sum of such products."""
    given = torch.cat([a.reshape(len(a), -1, a.shape[-1]) for a, _ in uses], 1)  # (N, T, in)
    delta = torch.cat([d.reshape(len(d), -1, d.shape[-1]) for _, d in uses], 1)  # (N, T, out)
    if given.shape[1] == 1:
        weight = of_outer(delta[:, 0], given[:, 0])
    else:
        size = given.shape[2] * delta.shape[2]
        weight = _chunked(len(given), size, lambda some: torch.bmm(delta[some].mT, given[some]))
    return weight if module.bias is None else merged([weight, of_rows(delta.sum(1))])


def convolution(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, uses: Uses) -> Moments:
    """The products of `δ` at each place with the window it came from, summed over places."""
    places = max(d[0, 0].numel() for _, d in uses)
    size = max(module.weight.numel(), places * module.weight[0].numel() * module.groups)

    def gradient(some: slice) -> Tensor:
        return reduce(torch.add, (_windowed(module, a[some], d[some]) for a, d in uses))

    weight = _chunked(len(uses[0][0]), size, gradient)
    if module.bias is None:
        return weight
    return merged([weight, of_rows(reduce(torch.add, (d.flatten(2).sum(2) for _, d in uses)))])


def _windowed(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, given: Tensor, delta: Tensor) -> Tensor:
    """`(n · groups, out / groups, window)`; windows are read in place, channels innermost, and copied once."""
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    if any(module._reversed_padding_repeated_twice):
        given = F.pad(given, module._reversed_padding_repeated_twice, mode=mode)
    n, groups, axes = len(given), module.groups, len(module.kernel_size)
    last = [0, *range(2, axes + 2), 1]
    given, delta = given.permute(last).contiguous(), delta.permute(last)  # (n, places…, channels)
    places, channels = delta.shape[1:-1], given.shape[-1] // groups
    batch, *along, _ = given.stride()
    windows = given.as_strided(
        (n, *places, groups, *module.kernel_size, channels),
        (
            batch,
            *(a * s for a, s in zip(along, module.stride, strict=True)),
            channels,
            *(a * d for a, d in zip(along, module.dilation, strict=True)),
            1,
        ),
    )
    columns = windows.movedim(axes + 1, 1).reshape(n * groups, places.numel(), -1)
    deltas = delta.reshape(n, places.numel(), groups, -1).permute(0, 2, 3, 1)
    return torch.bmm(deltas.reshape(n * groups, -1, places.numel()), columns)


def batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d, uses: Uses) -> Moments:
    """In eval mode, where it scales and shifts each channel by itself."""
    mean, variance = cast(Tensor, module.running_mean), cast(Tensor, module.running_var)
    scale = (variance + module.eps).rsqrt()
    shift = -mean * scale

    def over_places(values: Tensor) -> Tensor:  # (N, channels, …) → (N, channels)
        return values.reshape(len(values), scale.numel(), -1).sum(2)

    weight = [
        over_places(d * torch.addcmul(_along(shift, a), a, _along(scale, a))) for a, d in uses
    ]
    bias = [over_places(d) for _, d in uses]
    parts = (weight,) if module.bias is None else (weight, bias)
    return merged([of_rows(reduce(torch.add, part)) for part in parts])


def _along(channel: Tensor, given: Tensor) -> Tensor:
    return channel.view(1, -1, *[1] * (given.dim() - 2))


def _chunked(inputs: int, size: int, gradient: Callable[[slice], Tensor]) -> Moments:
    """The moments of `gradient(some)`, reshaped to a row for each input, some inputs at a time."""
    step = max(1, ROOM // size)
    starts = range(0, inputs, step)
    chunks = []
    for start in starts:
        some = slice(start, min(start + step, inputs))
        chunks.append(of_rows(gradient(some).reshape(some.stop - some.start, -1)))
    return stacked(chunks)


_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
}
