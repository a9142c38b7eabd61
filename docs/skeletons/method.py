"""A new method, in one file and one line.

Copy this file to `src/nescio/methods/label_smoothing.py`, change it, and import its class in
`methods/__init__.py`:

    from nescio.methods.label_smoothing import LabelSmoothing as LabelSmoothing

It is then known to `nescio.methods.METHODS`, `train`, `save` and the command line; the contract
tests run on it, and `make tables` writes it into the documentation.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from nescio.errors import check_float
from nescio.methods.method import Method


class LabelSmoothing(Method):
    """A softmax network trained on softened labels (Szegedy et al. 2016).

    The first line is its row in the docs; what `Args` says is the help of its options.

    Args:
        net: a network from inputs to logits.
        normalise: what raw inputs go through first.
        smoothing: probability that is spread over all classes.

    >>> model = LabelSmoothing(nescio.models.mlp(2, 3), known.normalise, smoothing=0.2)
    >>> history = nescio.train(model, known.train, epochs=1)
    """

    name = "label_smoothing"  # in METHODS, files and on the command line
    score = "max_prob"  # the score its paper pairs with it

    def __init__(
        self, net: nn.Module, normalise: nn.Module | None = None, smoothing: float = 0.1
    ) -> None:
        super().__init__(net, normalise)
        # each setting under its own name, which is how files and checkpoints know it
        self.smoothing = check_float("smoothing", smoothing, most=1)

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing), logits
