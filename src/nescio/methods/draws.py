"""Several runs of one network, each with weights, inputs or random numbers of its own."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.batchnorm import _NormBase

from nescio.core.replica import replica

_TOGETHER = 2**16  # inputs × draws that are run at a time
_IMAGES_TOGETHER = (
    2**12
)  # the same for networks with convolutions, whose inputs need more memory on their way
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)

Stacked = Tensor | dict[str, Tensor]


def at_once(run: Callable[..., Tensor], *stacked: Stacked) -> Tensor:
    """`run` over the first axis of what is given, vectorised: outputs `(S, …)`.

    What does not depend on the axis, such as the layers before the first dropout, is computed once. A network that
    cannot be vectorised (it looks at its values, or has an operation without a rule) is run in a loop.
    """
    try:
        return vmap(run, randomness="different")(*stacked)
    except RuntimeError:  # an error of the network's own comes again in the loop
        return one_by_one(run, *stacked)


def one_by_one(run: Callable[..., Tensor], *stacked: Stacked) -> Tensor:
    """What `at_once` gives, in a loop."""
    return torch.stack([run(*rows) for rows in zip(*map(_rows, stacked), strict=True)])


def with_own_weights(
    net: nn.Module, weights: dict[str, Tensor], x: Tensor, own_inputs: bool = False
) -> Tensor:
    """A network with each of several sets of weights `(S, …)`: logits `(S, N, C)` of inputs `(N, …)`.

    With `own_inputs` each has inputs of its own, `(S, N, …)`.
    """
    net = (
        net if net.training else replica(net) or net
    )  # weights are put into the modules, which other threads may run
    # a convolution with weights for each draw is a grouped one, up to five times slower on a CPU than one by one
    grouped = x.device.type == "cpu" and _convolves(net)
    # statistics of batches are written in place, and what fails halfway has written some already
    counted = any(
        isinstance(module, _NormBase) and module.training and module.track_running_stats
        for module in net.modules()
    )
    # a tensor of another kind, as audits use, goes through one draw at a time
    alone = type(x) is not Tensor or len(next(iter(weights.values()))) == 1
    over = one_by_one if grouped or counted or alone else at_once
    if own_inputs:
        return over(lambda one, inputs: functional_call(net, one, (inputs,)), weights, x)
    return over(
        lambda one: functional_call(net, one, (x.clone(),)), weights
    )  # a network may write on its input


def pieces(x: Tensor, draws: int, net: nn.Module) -> tuple[Tensor, ...]:
    """A batch in pieces, so that the draws of one piece at a time bound the memory."""
    together = _IMAGES_TOGETHER if _convolves(net) else _TOGETHER
    return x.tensor_split(max(1, min(len(x), -(-len(x) * draws // together))))


def _convolves(net: nn.Module) -> bool:
    return any(isinstance(module, _CONVOLUTIONS) for module in net.modules())


def _rows(stacked: Stacked) -> list[Stacked]:
    if isinstance(stacked, Tensor):
        return list(stacked.unbind())
    columns = zip(*(value.unbind() for value in stacked.values()), strict=True)
    return [dict(zip(stacked, row, strict=True)) for row in columns]
