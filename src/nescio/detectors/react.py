"""Energy of a network whose largest activations are clipped (Sun et al. 2021)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core.features import HEAD, ForwardPass, head_of
from nescio.detectors.detector import Detector
from nescio.detectors.statistics import Reservoir
from nescio.errors import NescioError, check_float, check_int
from nescio.scores import energy
from nescio.seeds import check_seed


class ReAct(Detector):
    """Unknown if the energy is high once unusually large features are clipped (Sun et al. 2021).

    Unknown inputs tend to owe their confidence to a few very large activations. The input of the
    last linear layer is clipped at a percentile of all its values for known inputs; the score is
    `−log Σ_c exp(logit_c)` of the logits that this layer then gives.

    Args:
        model: any classifier that ends in a linear layer.
        percentile: of the known values, where to clip.
        size: how many inputs to take features of; of more, a random sample.
        seed: of that sample.

    >>> ReAct(net).fit(known.test, train=known.train).predict(x)
    tensor([0, 2])
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
        self.keep(clip_=torch.tensor(math.nan, dtype=torch.float64))

    def learn(self, data: Any) -> None:
        sample = Reservoir(self.size, self.seed)

        def on_batch(_: Tensor, forward_pass: ForwardPass, __: Tensor | None) -> None:
            head_of(forward_pass, self.name)
            sample.add(forward_pass.features[HEAD].float())

        self.map_batches(data, on_batch)
        clip = float(np.percentile(sample.finite_rows().numpy(), self.percentile))
        self.keep(clip_=torch.tensor(clip, dtype=torch.float64))

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        if self.clip_.isnan():
            raise NescioError("ReAct is not fitted: call .fit(calibration) first")
        head, features = head_of(forward_pass, self.name)[0], forward_pass.features[HEAD]
        with torch.no_grad():
            return energy(head(features.clamp(max=float(self.clip_)))[None])
