"""The energy of a network whose largest activations are cut off (Sun et al. 2021)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core.features import HEAD, ForwardPass, head_of
from nescio.detectors.detector import Detector
from nescio.detectors.reservoir import Reservoir
from nescio.errors import NescioError, check_float, check_int
from nescio.scores import energy
from nescio.seeds import check_seed


class ReAct(Detector):
    """Known as long as the energy is low once unusually large features are cut to size (Sun et al. 2021).

    Unknown inputs tend to have a few very large activations, and these alone their confidence. What the last linear
    layer is given is cut off at a percentile of all its values for known inputs; the score is `−log Σ_c exp(logit_c)`
    of the logits that this layer then gives.

    Args:
        model: any classifier that ends in a linear layer.
        percentile: of the known values, where to cut.
        size: of how many inputs to look at the features; of more, a random sample.
        seed: of that sample.
    """

    name, learns = "react", True
    layers = (HEAD,)
    clip_: Tensor

    def __init__(
        self, model: nn.Module, percentile: float = 90.0, size: int = 5_000, seed: int = 0
    ) -> None:
        super().__init__(model)
        self.percentile = check_float("percentile", percentile, most=100)
        self.size, self.seed = check_int("size", size), check_seed(seed)
        self.register_buffer("clip_", torch.tensor(math.nan, dtype=torch.float64))

    def learn(self, data: Any) -> None:
        kept = Reservoir(self.size, self.seed)

        def on_batch(_: Tensor, seen: ForwardPass, __: Tensor | None) -> None:
            head_of(seen, self.name)
            kept.add(seen.features[HEAD].float())

        self.map_batches(data, on_batch)
        if (
            not torch.stack(kept.rows.aminmax()).isfinite().all()
        ):  # of each would take as much memory again
            raise NescioError("the features of some inputs to learn from are NaN or infinite")
        clip = float(np.percentile(kept.rows.numpy(), self.percentile))
        self.keep(clip_=torch.tensor(clip, dtype=torch.float64))

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        if self.clip_.isnan():
            raise NescioError("ReAct has learned nothing yet: call .fit(known) first")
        with torch.no_grad():
            logits = head_of(seen, self.name)[0](seen.features[HEAD].clamp(max=float(self.clip_)))
        return energy(logits[None])

    def settings(self) -> dict[str, Any]:
        return {"percentile": self.percentile, "size": self.size, "seed": self.seed}
