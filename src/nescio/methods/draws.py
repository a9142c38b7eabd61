"""Several runs of one network at once, each with weights, inputs or random numbers of its own."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vmap

_TOGETHER = 4096  # inputs × draws that are run at a time: more only fills memory


def at_once(run: Callable[..., Tensor], *stacked: Tensor | dict[str, Tensor]) -> Tensor:
    """`run` over the first axis of what is given, vectorised: outputs `(S, …)`.

    What does not depend on the axis, such as the layers before the first dropout, is computed once. A network that
    cannot be vectorised (it looks at its values, or has an operation without a rule) is run in a loop.
    """
    try:
        return vmap(run, randomness="different")(*stacked)
    except RuntimeError:  # an error of the network's own comes again in the loop
        first = stacked[0]
        count = len(first if isinstance(first, Tensor) else next(iter(first.values())))
        return torch.stack([run(*(_row(one, index) for one in stacked)) for index in range(count)])


def pieces(x: Tensor, draws: int) -> tuple[Tensor, ...]:
    """A batch in pieces, so that the draws of one piece at a time bound the memory."""
    return x.tensor_split(max(1, min(len(x), -(-len(x) * draws // _TOGETHER))))


def _row(stacked: Tensor | dict[str, Tensor], index: int) -> Tensor | dict[str, Tensor]:
    if isinstance(stacked, Tensor):
        return stacked[index]
    return {name: value[index] for name, value in stacked.items()}
