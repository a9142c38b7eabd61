"""The plain softmax network, trained by cross-entropy: the baseline of all four papers."""

import torch.nn.functional as F
from torch import Tensor

from nescio.core.logits import softmax_confidence
from nescio.methods.method import Method


class Softmax(Method):
    """A network with a softmax; its confidence is the largest probability (Hendrycks & Gimpel 2017)."""

    name = "softmax"
    score = "max_prob"

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(self.normalise(x))
        return logits

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(x)
        return F.cross_entropy(logits, y), logits

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)
