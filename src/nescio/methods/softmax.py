"""The plain softmax network, trained by cross-entropy: the baseline of all four papers."""

import torch.nn.functional as F
from torch import Tensor

from nescio.methods.method import Method


class Softmax(Method):
    """A network with a softmax, confident by its largest probability (Hendrycks & Gimpel 2017).

    Args:
        net: a network from inputs to logits.
        normalise: what raw inputs go through first.
    """

    name = "softmax"
    score = "max_prob"

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        return F.cross_entropy(logits, y), logits
