"""Scores on the scale that papers plot and lemmas speak of."""

from torch import Tensor

_LOGARITHMIC = {
    "max_prob": "1 − max p",
    "margin": "1 − (p₁ − p₂)",
}  # kept as logs, and what they are logs of


def natural(name: str, values: Tensor) -> Tensor:
    """Values of a score as a probability where it is kept as the log of one; other scores as they are.

    Order is the same, but for inputs whose probability rounds to one. Its gradient in x is the one that dies away as a
    model saturates; that of the log does not.

    >>> import torch
    >>> natural("max_prob", torch.tensor([0.0, -1000.0]))
    tensor([1., 0.])
    """
    return values.exp() if name in _LOGARITHMIC else values


def natural_name(name: str) -> str:
    """What `natural` gives, for the label of an axis."""
    return _LOGARITHMIC.get(name, name.replace("_", " "))
