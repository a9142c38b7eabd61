"""ACET: CEDA on the worst noise in a ball around each input (Hein et al. 2019, equations 4, 5)."""

import math
from typing import Any

from torch import Tensor, nn

from nescio.core.attacks import Attack, ascend, freeze_weights
from nescio.core.model_state import in_eval
from nescio.data.transforms import Normalise
from nescio.errors import NescioError, check_float, check_int
from nescio.methods.ceda import CEDA


class ACET(CEDA):
    """CEDA whose noise is first made as certain as can be within a small ball (Hein et al. 2019).

    The search is projected gradient ascent in the maximum norm, in eval mode, of images within
    [0, 1]. Of tables, `eps` is in standard deviations of each feature, if the method normalises.

    Args:
        net: a network from inputs to logits.
        noise: a name in `nescio.data.noise.NOISES`, your own outliers, or a function; see `CEDA`.
        eps: radius of the ball.
        steps: of the search.
        step_size: length of a step; by default `eps / steps`, as in the paper.
        weight: λ, of the loss on noise.
        first_steps: steps of a search at the start of training; they grow evenly to `steps` at its
            end. By default `steps` throughout.
        out_loss: "confidence", or "uniform", the cross-entropy to the uniform distribution; the
            search raises the same.
        normalise: what raw inputs go through first.
    """

    name = "acet"

    def __init__(
        self,
        net: nn.Module,
        noise: Any = "mixed",
        eps: float = 0.3,
        steps: int = 40,
        step_size: float | None = None,
        weight: float = 1.0,
        *,
        first_steps: int | None = None,
        out_loss: str = "confidence",
        normalise: nn.Module | None = None,
    ) -> None:
        super().__init__(net, noise, weight, out_loss=out_loss, normalise=normalise)
        self.eps, self.steps = check_float("eps", eps), check_int("steps", steps, least=0)
        self.step_size = None if step_size is None else check_float("step_size", step_size)
        if first_steps is not None:
            first_steps = check_int("first_steps", first_steps, least=0)
            if first_steps > self.steps:
                raise NescioError(f"first_steps must be ≤ steps={steps}, got {first_steps}")
        self.first_steps = first_steps

    def outliers(self, x: Tensor) -> Tensor:
        noise = super().outliers(x)
        images = noise.dim() == 4
        scale = None if images or not isinstance(self.normalise, Normalise) else self.normalise.std
        how = noise, None, self.search(), (0.0, 1.0) if images else None, scale
        most = 0.0 if self.out_loss == "confidence" else math.inf
        with in_eval(self), freeze_weights(self):
            # of a clone, since a network may write to its input
            return ascend(lambda x, _: self.certainty(self(x.clone())), *how, bound=most).inputs

    def search(self) -> Attack:
        """Return the attack at this step of the training."""
        steps, now = self.steps, self.training_step
        if self.first_steps is not None and now is not None and now.steps > 1:
            done = now.step / (now.steps - 1)
            steps = round(self.first_steps + done * (self.steps - self.first_steps))
        step_size = self.eps / max(steps, 1) if self.step_size is None else self.step_size
        return Attack("confidence", self.eps, steps, step_size)
