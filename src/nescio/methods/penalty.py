"""The penalty that keeps a network sensitive to its input (van Amersfoort et al. 2020, equations 7 and 8)."""

import torch
from torch import Tensor

from nescio.core.input_gradients import input_gradient

SIDES = ("two-sided", "one-sided")


def slopes_of(outputs: Tensor, x: Tensor) -> Tensor:
    """`‖∇ₓ Σ outputs‖₂` of each input, `(N,)`, all of its components together, ready to be differentiated again."""
    gradient = input_gradient(outputs, x, "a gradient penalty", create_graph=True)
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return norms


def gradient_penalty(norms: Tensor, side: str) -> Tensor:
    """How far slopes are from 1: `mean (‖g‖ − 1)²`, or one-sided `mean max(0, ‖g‖² − 1)`, which only flattens.

    The paper prints the two-sided one with `‖g‖²`; its authors train with `‖g‖`, as here.

    >>> gradient_penalty(torch.tensor([0.0, 3.0]), "two-sided")
    tensor(2.5000)
    >>> gradient_penalty(torch.tensor([0.0, 3.0]), "one-sided")
    tensor(4.)
    """
    return (
        (norms - 1).square().mean()
        if side == "two-sided"
        else (norms.square() - 1).clamp(min=0).mean()
    )


def hutchinson(outputs: Tensor) -> Tensor:
    """Outputs `(N, K)` as one random sum each, whose squared slope is, in the mean, that of all K together."""
    signs = torch.randint_like(outputs, 2, requires_grad=False).mul_(2).sub_(1)
    return (outputs * signs).sum(1)
