"""Virtual logit of what features hold outside their principal directions (Wang et al. 2022)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass, head_of
from nescio.detectors.feature_detector import FeatureDetector
from nescio.detectors.statistics import Moments, Reservoir, squares, whitened
from nescio.errors import NescioError, check_int

SAMPLE = 4096  # inputs whose residuals are averaged
MIN_RESIDUAL = 1e-3  # relative to the features' length


class ViM(FeatureDetector):
    """Unknown if features outside their principal directions outweigh logits (Wang et al. 2022).

    Features are relative to where the head `W f + b` is nearest to zero, `−W⁺ b`. The norm of their
    residual outside the principal directions, times α, is a virtual logit; the score is that less
    `log Σ_c exp(logit_c)`. α is the mean largest logit of known inputs, in absolute value, over the
    mean of that norm, of at most 4096 inputs, and at least a thousandth of the features' length.
    Labels are not needed; logits are those of the head, whatever the model makes of them.

    Args:
        model: any classifier that ends in a linear layer, with one output per input.
        dimension: number of principal directions, fewer than features; by default, as in the paper,
            1000 of 2048 features or more, 512 of 768 or more, else half.

    >>> ViM(net, dimension=4).fit(known.test, train=known.train).predict(x)
    tensor([ 0, -1])
    """

    name = "vim"
    shapes: ClassVar[dict[str, str]] = {"origin_": "F", "residual_": "FR"}
    origin_: Tensor
    residual_: Tensor  # an orthonormal basis
    alpha_: Tensor

    def __init__(self, model: nn.Module, dimension: int | None = None) -> None:
        super().__init__(model)
        self.dimension = None if dimension is None else check_int("dimension", dimension)
        self.keep(alpha_=torch.tensor(torch.nan, dtype=torch.float64))

    def learn(self, data: Any) -> None:
        moments, sample, largest, head = None, Reservoir(SAMPLE), 0.0, None

        def on_batch(_: Tensor, forward_pass: ForwardPass, __: Tensor | None) -> None:
            nonlocal moments, largest, head
            rows, (head, logits) = self.features(forward_pass), head_of(forward_pass, self.name)
            moments = moments or Moments(1, rows.shape[1])
            moments.add(rows, torch.zeros(len(rows), dtype=torch.long))
            sample.add(rows)
            largest += float(logits.amax(1).double().sum())

        self.map_batches(data, on_batch)
        if moments is None or head is None:
            raise NescioError("there are no inputs to learn from")
        moments.close()
        origin, count = origin_of(head).to(moments.mean), moments.count.sum()
        offset = moments.mean[0] - origin
        second = moments.scatter / count + torch.outer(offset, offset)  # moment around the origin
        residuals = len(origin) - self._dimension(len(origin))
        residual = torch.linalg.eigh(second)[1][:, :residuals]  # ascending
        norm = squares(whitened(sample.rows, origin, residual)).sqrt().mean()
        norm = norm.clamp(min=MIN_RESIDUAL * second.trace().sqrt())
        # 0 if all features are at the origin
        alpha = abs(largest) / count / norm if norm > 0 else torch.zeros_like(norm)
        self.keep(origin_=origin, residual_=residual.contiguous(), alpha_=alpha)

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        rows, (_, logits) = self.learned_features(forward_pass), head_of(forward_pass, self.name)
        norm = squares(whitened(rows, self.origin_, self.residual_)).sqrt()
        return self.alpha_ * norm - logits.double().logsumexp(1).to(norm)

    def _dimension(self, features: int) -> int:
        if self.dimension is None:
            return 1000 if features >= 2048 else 512 if features >= 768 else features // 2
        if self.dimension >= features:
            raise NescioError(f"dimension must be below {features} features, got {self.dimension}")
        return self.dimension


def origin_of(head: nn.Linear) -> Tensor:
    """Return where the logits are nearest to zero, `(F,)`, in float64."""
    weight = head.weight.detach().double()
    bias = weight.new_zeros(len(weight)) if head.bias is None else head.bias.detach().double()
    inverse: Tensor = torch.linalg.pinv(weight)
    return -(inverse @ bias)
