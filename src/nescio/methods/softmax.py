"""The plain softmax network, trained by cross-entropy: the baseline of all four papers."""

import torch.nn.functional as F
from torch import Tensor

from nescio.methods.method import Method


class Softmax(Method):
    """A network with a softmax, confident by its largest probability (Hendrycks & Gimpel 2017).

    Args:
        net: a network from inputs to logits.
        normalise: what raw inputs go through first.

    >>> model = Softmax(nescio.models.mlp(2, 3), normalise=known.normalise)
    >>> history = nescio.train(model, known.train, epochs=5)
    >>> nescio.predict(model, x).argmax(-1)  # (S, N): a draw, and two inputs
    tensor([[0, 2]])
    """

    name = "softmax"
    score = "max_prob"

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        return F.cross_entropy(logits, y), logits
