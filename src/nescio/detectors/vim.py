"""What of the features the classes make no use of, as one more logit (Wang et al. 2022)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass, head_of
from nescio.detectors.moments import Moments
from nescio.detectors.on_features import FeatureDetector
from nescio.detectors.reservoir import Reservoir
from nescio.detectors.whitening import squares, whitened
from nescio.errors import NescioError, check_int

KEPT = 4096  # inputs whose residuals are averaged
LEAST = 1e-3  # of a residual, as a share of the features' length


class ViM(FeatureDetector):
    """Known as long as logits outweigh what of the features is off their principal directions (Wang et al. 2022).

    Features are taken from where the head `W f + b` is nearest to zero, `−W⁺ b`. The norm of what is left of them
    outside of their principal directions, times α, is a virtual logit, and the score is that less
    `log Σ_c exp(logit_c)` (Wang et al. 2022). α is the mean largest logit of known inputs by the mean of that norm, the
    former by its size, the latter of at most 4096 inputs, drawn by chance, and at least a thousandth of the features'
    length. Labels are not needed; logits are those of the head, whatever the model makes of them.

    Args:
        model: any classifier that ends in a linear layer, with one answer for each input.
        dimension: how many principal directions there are, fewer than features; by default, as in the paper, 1000 of
            2048 features or more, 512 of 768 or more, else half.
    """

    name = "vim"
    shapes: ClassVar[dict[str, str]] = {"origin_": "F", "residual_": "FR"}
    origin_: Tensor
    residual_: Tensor  # an orthonormal basis of what is left
    alpha_: Tensor

    def __init__(self, model: nn.Module, dimension: int | None = None) -> None:
        super().__init__(model)
        self.dimension = None if dimension is None else check_int("dimension", dimension)
        self.register_buffer("origin_", torch.empty(0, dtype=torch.float64))
        self.register_buffer("residual_", torch.empty(0, 0, dtype=torch.float64))
        self.register_buffer("alpha_", torch.tensor(torch.nan, dtype=torch.float64))

    def learn(self, data: Any) -> None:
        found, kept, largest, head = None, Reservoir(KEPT), 0.0, None

        def on_batch(_: Tensor, seen: ForwardPass, __: Tensor | None) -> None:
            nonlocal found, largest, head
            rows, (head, logits) = self.features(seen), head_of(seen, self.name)
            found = Moments(1, rows.shape[1]) if found is None else found
            found.add(rows, torch.zeros(len(rows), dtype=torch.long))
            kept.add(rows)
            largest += float(logits.amax(1).double().sum())

        self.map_batches(data, on_batch)
        if found is None or head is None:
            raise NescioError("there are no inputs to learn from")
        found.close()
        origin, count = origin_of(head).to(found.mean), found.count.sum()
        offset = found.mean[0] - origin
        second = found.scatter / count + torch.outer(offset, offset)  # moment around the origin
        residual = torch.linalg.eigh(second)[1][
            :, : len(origin) - self._dimension(len(origin))
        ]  # ascending
        left = squares(whitened(kept.rows, origin, residual)).sqrt().mean()
        left = left.clamp(min=LEAST * second.trace().sqrt())
        alpha = (
            abs(largest) / count / left if left > 0 else torch.zeros_like(left)
        )  # all features are at the origin
        self.keep(origin_=origin, residual_=residual.contiguous(), alpha_=alpha)

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        rows, (_, logits) = self.comparable(seen), head_of(seen, self.name)
        left = squares(whitened(rows, self.origin_, self.residual_)).sqrt()
        return self.alpha_ * left - logits.double().logsumexp(1).to(left)

    def _dimension(self, features: int) -> int:
        if self.dimension is None:
            return 1000 if features >= 2048 else 512 if features >= 768 else features // 2
        if self.dimension >= features:
            raise NescioError(
                f"dimension={self.dimension} of {features} features leaves nothing; give a smaller one"
            )
        return self.dimension

    def settings(self) -> dict[str, Any]:
        return {"dimension": self.dimension}


def origin_of(head: nn.Linear) -> Tensor:
    """Where the logits are nearest to zero, `(F,)`."""
    weight, bias = parameters_of(head)
    inverse: Tensor = torch.linalg.pinv(weight)
    return -(inverse @ bias)


def parameters_of(head: nn.Linear) -> tuple[Tensor, Tensor]:
    """Weights `(C, F)` and bias `(C,)` in float64, the latter zero if the layer has none."""
    weight = head.weight.detach().double()
    return weight, weight.new_zeros(
        len(weight)
    ) if head.bias is None else head.bias.detach().double()
