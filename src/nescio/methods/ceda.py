"""CEDA: a softmax network that is also trained to be uncertain of noise (Hein et al. 2019, equations 1 to 3)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.core.logits import softmax_confidence
from nescio.errors import check_float, unknown_name
from nescio.methods.method import Method
from nescio.methods.outliers import Outliers

OUT_LOSSES = ("confidence", "uniform")


class CEDA(Method):
    """A softmax network that is also trained to be uncertain of noise (Hein et al. 2019).

    Its loss is the cross-entropy of known inputs plus `weight` times the mean of `max_k log p_k` of as many noise
    inputs, which is least, −log K, where all classes are alike. Both go through the network in one batch, so that
    BatchNorm sees both.

    Args:
        net: a network from inputs to logits.
        noise: a name in `nescio.data.noise.NOISES`; or outliers of your own, a data set or a tensor; or a function
            from a batch of known inputs to as many others.
        weight: λ, of the loss on noise.
        out_loss: "confidence", as above, or "uniform", the cross-entropy to the uniform distribution.
        normalise: what raw inputs go through first.
    """

    name = "ceda"
    score = "max_prob"

    def __init__(
        self,
        net: nn.Module,
        noise: Any = "mixed",
        weight: float = 1.0,
        *,
        out_loss: str = "confidence",
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(net, normalise)
        self.noise = Outliers(noise)
        self.weight = check_float("weight", weight)
        if out_loss not in OUT_LOSSES:
            raise unknown_name("out_loss", out_loss, OUT_LOSSES)
        self.out_loss = out_loss

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(self.normalise(x))
        return logits

    def loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits, out = self(torch.cat([x, self.outliers(x)])).tensor_split([len(x)])
        return F.cross_entropy(logits, y) + self.weight * self.certainty(out).mean(), logits

    def outliers(self, x: Tensor) -> Tensor:
        """The noise `(N, …)` that goes with a batch."""
        return self.noise.like(x)

    def certainty(self, logits: Tensor) -> Tensor:
        """What noise is punished for, `(N,)`, from logits `(N, C)`."""
        log_p = logits.log_softmax(-1)
        return log_p.amax(-1) if self.out_loss == "confidence" else -log_p.mean(-1)

    def confidence(self, logits: Tensor) -> Tensor:
        return softmax_confidence(logits)

    def settings(self) -> dict[str, Any]:
        return {"noise": self.noise.name, "weight": self.weight, "out_loss": self.out_loss}

    def extra_repr(self) -> str:
        return f"noise={self.noise!r}"  # a checkpoint goes on only with the same outliers
