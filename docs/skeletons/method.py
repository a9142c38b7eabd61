"""A method in one file: copy it to src/nescio/methods/, import and list it in __init__.py there."""

import torch.nn.functional as F
from torch import Tensor, nn

from nescio.errors import check_float
from nescio.methods import Method


class LabelSmoothing(Method):
    """A softmax network trained on softened labels (Szegedy et al. 2016).

    The first line is its row in the docs; what `Args` says is the help of its options.

    Args:
        net: a network from inputs to logits.
        normalise: what raw inputs go through first.
        smoothing: probability that is spread over all classes.
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
