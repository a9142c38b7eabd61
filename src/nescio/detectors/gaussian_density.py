"""How dense known inputs lie where the features of a new one do (Mukhoti et al. 2021)."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.detectors.gaussian import GaussianDetector
from nescio.detectors.whitening import least_variance, squares, whitened, whitening


class GaussianDensity(GaussianDetector):
    """Known as long as its features are where those of known inputs are dense (DDU, Mukhoti et al. 2021).

    Its score is `−log Σ_c π_c N(f; μ_c, Σ_c)`: each class has its share of the inputs, a mean and a covariance of its
    own. The least variance of a direction is one for all classes, so that a class of few inputs, even of one, is a
    ball of that variance in the directions it does not reach. Classes are those of the labels or, of data without
    labels, those the model gives.

    Args:
        model: any classifier with one answer for each input.
        layer: the name of the module whose output to take, averaged over positions if it has any; by default what the
            last linear layer is given.
        floor: the least variance that a direction counts with, as a share of the mean variance within classes.
    """

    name = "gaussian_density"
    shapes: ClassVar[dict[str, str]] = {"means_": "KF", "factors_": "KFF", "log_peaks_": "K"}
    means_: Tensor  # of the classes that there were inputs of
    factors_: Tensor
    log_peaks_: Tensor  # log of share × density at the mean

    def __init__(self, model: nn.Module, layer: str | None = None, floor: float = 0.1) -> None:
        super().__init__(model, layer, floor)
        for name, axes in self.shapes.items():
            self.register_buffer(name, torch.empty((0,) * len(axes), dtype=torch.float64))

    def learn(self, data: Any) -> None:
        found = self.moments(data, each=True)
        total, there = found.count.sum(), found.count > 0
        least = least_variance(found.scatter.sum(0) / total, self.floor)
        spread = [
            whitening(found.scatter[label] / found.count[label], least)
            for label in there.nonzero().flatten()
        ]
        factors, log_volumes = (torch.stack(part) for part in zip(*spread, strict=True))
        log_shares = (found.count[there] / total).log()
        log_peaks = log_shares + log_volumes - found.mean.shape[1] / 2 * math.log(2 * math.pi)
        self.keep(means_=found.mean[there], factors_=factors, log_peaks_=log_peaks)

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        rows = self.comparable(seen)
        far = [
            squares(whitened(rows, *one)) for one in zip(self.means_, self.factors_, strict=True)
        ]
        return -(self.log_peaks_.to(rows.device) - torch.stack(far, 1) / 2).logsumexp(1)
