"""Density of class Gaussians at an input's features: DDU (Mukhoti et al. 2021)."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.detectors.feature_detector import GaussianDetector
from nescio.detectors.statistics import min_variance, squares, whitened, whitening


class GaussianDensity(GaussianDetector):
    """Unknown where features of known inputs are not dense (DDU, Mukhoti et al. 2021).

    The score is `−log Σ_c π_c N(f; μ_c, Σ_c)`: each class has its fraction of the inputs, a mean
    and a covariance. The least variance is one for all classes, so that a class of few inputs is a
    ball of that variance in the directions it does not reach. Arguments are those of `Mahalanobis`.

    >>> GaussianDensity(net).fit(known.test, train=known.train).predict(x)
    tensor([ 0, -1])
    """

    name = "gaussian_density"
    shapes: ClassVar[dict[str, str]] = {"means_": "KF", "factors_": "KFF", "log_peaks_": "K"}
    means_: Tensor  # of classes with inputs
    factors_: Tensor
    log_peaks_: Tensor  # log of class fraction × density at the mean

    def learn(self, data: Any) -> None:
        moments = self.moments(data, each=True)
        total, present = moments.count.sum(), moments.count > 0
        least = min_variance(moments.scatter.sum(0) / total, self.floor)
        labels = present.nonzero().flatten()
        pairs = [whitening(moments.scatter[k] / moments.count[k], least) for k in labels]
        factors, log_volumes = (torch.stack(part) for part in zip(*pairs, strict=True))
        log_fractions = (moments.count[present] / total).log()
        log_peaks = log_fractions + log_volumes - moments.mean.shape[1] / 2 * math.log(2 * math.pi)
        self.keep(means_=moments.mean[present], factors_=factors, log_peaks_=log_peaks)

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        rows = self.learned_features(forward_pass)
        gaussians = zip(self.means_, self.factors_, strict=True)
        distances = [squares(whitened(rows, mean, factor)) for mean, factor in gaussians]
        return -(self.log_peaks_.to(rows.device) - torch.stack(distances, 1) / 2).logsumexp(1)
