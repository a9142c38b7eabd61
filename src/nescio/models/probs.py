"""Logits of a network that ends in a sigmoid or a softmax."""

import torch
from torch import Tensor, nn

from nescio.errors import NescioError


class ProbsToLogits(nn.Module):
    """A network whose outputs are probabilities, as one of logits: everything here takes logits.

    One probability p for each input, `(N,)` or `(…, 1)`, becomes `log p − log(1 − p)`, and those of
    C classes become `log p`. Confidences that round to 1 are all alike then, and a sigmoid is not
    piecewise affine: where you can, leave the last sigmoid or softmax out instead.

    Args:
        net: a network that ends in a sigmoid or a softmax.

    >>> model = ProbsToLogits(nn.Sequential(nn.Linear(2, 1), nn.Sigmoid()))
    >>> nescio.predict(model, x).shape  # draws, inputs, classes
    torch.Size([1, 2, 2])
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, shaped as the network's probabilities."""
        p: Tensor = self.net(x)
        # a graph that is being exported has no values yet
        if not torch.compiler.is_compiling() and not ((p >= 0) & (p <= 1)).all():
            low, high = (float(end) for end in p.detach().aminmax())
            raise NescioError(f"the network's outputs are no probabilities: {low:g} to {high:g}")
        limits = torch.finfo(p.dtype)
        log_p = p.clamp(min=limits.tiny).log()
        if p.dim() > 1 and p.shape[-1] > 1:
            return log_p
        return log_p - torch.log1p(-p.clamp(max=1 - limits.eps / 2))
