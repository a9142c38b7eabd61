"""An ensemble whose members are each held near a draw from the prior (Pearce et al. 2020)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nescio.errors import NescioError, check_float
from nescio.methods.ensemble import Ensemble, MakeNet
from nescio.methods.prior import STD_RANGE, affine_weights


class AnchoredEnsemble(Ensemble):
    """An ensemble whose members are held near anchors drawn from the prior (Pearce et al. 2020).

    Member j adds `(1/N) ‖Γ^½ (θ_j − θ_0j)‖²` to its cross-entropy, with `Γ = 1/(2 std²)`, N the
    size of the training set and its anchor `θ_0j ~ N(0, std²)`, over the weights of affine layers.

    Args:
        make_net, members, normalise, bootstrap, stacked: as of `Ensemble`.
        prior_std: standard deviation of the prior; by default `√(2 / inputs of a unit)`, layer by
            layer (He et al. 2015).

    >>> model = AnchoredEnsemble(lambda: nescio.models.mlp(2, 3), members=3)
    >>> nescio.predict(model, x).shape  # members, inputs, classes
    torch.Size([3, 2, 3])
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
        if prior_std is not None:
            prior_std = check_float("prior_std", prior_std, *STD_RANGE)
        self.prior_std = prior_std
        nets = [self.member(0)] if self.stacked else self._list()
        shapes = [{n: net.get_parameter(n).shape for n in affine_weights(net)} for net in nets]
        if any(other != shapes[0] for other in shapes):
            raise NescioError("members of an anchored ensemble must have layers of the same shapes")
        inputs = affine_weights(nets[0])
        self.stds = {name: prior_std or math.sqrt(2 / fan_in) for name, fan_in in inputs.items()}
        for i, (name, weight) in enumerate(self._anchored().items()):
            self.register_buffer(f"anchor_{i}", torch.randn_like(weight) * self.stds[name])

    def anchors(self) -> dict[str, Tensor]:
        """Return the anchors by the name of the weight, `(M, …)` each."""
        return {name: self.get_buffer(f"anchor_{i}") for i, name in enumerate(self.stds)}

    def penalty(self) -> Tensor:
        """Return `‖Γ^½ (θ_j − θ_0j)‖²`, `(M,)`: minus the log prior, up to a constant."""
        weights, penalties = self._anchored(), []
        for name, anchor in self.anchors().items():
            distance = (weights[name] - anchor).flatten(1).square().sum(1)
            penalties.append(distance / (2 * self.stds[name] ** 2))
        return torch.stack(penalties).sum(0)

    def objectives(self, logits: Tensor, y: Tensor) -> Tensor:
        if self.training_step is None:
            raise NescioError(
                "the loss of an anchored ensemble depends on the size of the training set; train "
                "with nescio.train, or set model.training_step = nescio.methods.TrainingStep(…)"
            )
        return super().objectives(logits, y) + self.penalty() / self.training_step.inputs

    def _part(self, member: int) -> "Ensemble":
        part = super()._part(member)
        for i, anchor in enumerate(self.anchors().values()):
            part.register_buffer(f"anchor_{i}", anchor[member : member + 1])
        return part

    def _anchored(self) -> dict[str, Tensor]:
        """Return the weights that have an anchor, `(M, …)` each."""
        if self.stacked:
            return {name: self.net.get_parameter(name) for name in self.stds}
        nets = self._list()
        return {n: torch.stack([net.get_parameter(n) for net in nets]) for n in self.stds}
