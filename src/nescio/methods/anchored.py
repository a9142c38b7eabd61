"""An ensemble whose members are each held near a draw from the prior (Pearce et al. 2020)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio.errors import NescioError, check_float
from nescio.methods.ensemble import Ensemble, MakeNet
from nescio.methods.layers import affine_weights
from nescio.methods.prior import SPREADS


class AnchoredEnsemble(Ensemble):
    """An ensemble whose members are each held near an anchor of their own, drawn from the prior (Pearce et al. 2020).

    Member j adds `(1/N) ‖Γ^½ (θ_j − θ_0j)‖²` to its cross-entropy, with `Γ = 1/(2 std²)`, N the size of the training
    set and the anchor `θ_0j ~ N(0, std²)`, over the weights of its linear and convolutional layers.

    Args:
        make_net, members, normalise, bootstrap, stacked: as of `Ensemble`.
        prior_std: spread of the prior; by default `√(2 / inputs of a unit)`, layer by layer (He et al. 2015).
    """

    name = "anchored"

    def __init__(
        self,
        make_net: MakeNet | Sequence[nn.Module],
        members: int | None = None,
        normalise: nn.Module | None = None,
        bootstrap: bool = False,
        stacked: bool | None = None,
        prior_std: float | None = None,
    ) -> None:
        super().__init__(make_net, members, normalise, bootstrap, stacked)
        self.prior_std = (
            None if prior_std is None else check_float("prior_std", prior_std, *SPREADS)
        )
        self.spreads = {
            name: self.prior_std or math.sqrt(2 / inputs) for name, inputs in self._inputs().items()
        }
        for place, (name, weight) in enumerate(self._anchored().items()):
            self.register_buffer(f"anchor_{place}", torch.randn_like(weight) * self.spreads[name])

    def anchors(self) -> dict[str, Tensor]:
        """The anchors by the name of the weight, `(M, …)` each."""
        return {name: self.get_buffer(f"anchor_{place}") for place, name in enumerate(self.spreads)}

    def penalty(self) -> Tensor:
        """`‖Γ^½ (θ_j − θ_0j)‖²` of each member, `(M,)`: minus the log of its prior, up to a constant."""
        weights, anchors = self._anchored(), self.anchors()
        each = [
            (weights[name] - anchors[name]).flatten(1).square().sum(1)
            / (2 * self.spreads[name] ** 2)
            for name in anchors
        ]
        return torch.stack(each).sum(0)

    def objectives(self, logits: Tensor, y: Tensor) -> Tensor:
        if self.training_step is None:
            raise NescioError(
                "the loss of an anchored ensemble depends on the size of the training set; train with "
                "nescio.train, or set model.moment = nescio.methods.Moment(…) first"
            )
        return super().objectives(logits, y) + self.penalty() / self.training_step.inputs

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "prior_std": self.prior_std}

    def _part(self, member: int) -> "Ensemble":
        part = super()._part(member)
        for place in range(len(self.spreads)):
            part.register_buffer(
                f"anchor_{place}", self.get_buffer(f"anchor_{place}")[member : member + 1]
            )
        return part

    def _inputs(self) -> dict[str, int]:
        nets = [self.member(0)] if self.stacked else self._list()
        shapes = [
            {name: net.get_parameter(name).shape for name in affine_weights(net)} for net in nets
        ]
        if any(own != shapes[0] for own in shapes):
            raise NescioError(
                "the members of an anchored ensemble must have layers of the same shapes"
            )
        return affine_weights(nets[0])

    def _anchored(self) -> dict[str, Tensor]:
        """The weights that have an anchor, `(M, …)` each."""
        if self.stacked:
            return {name: self.net.get_parameter(name) for name in self.spreads}
        return {
            name: torch.stack([net.get_parameter(name) for net in self._list()])
            for name in self.spreads
        }
