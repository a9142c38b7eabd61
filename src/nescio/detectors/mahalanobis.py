"""Mahalanobis distance of features to the nearest class (Lee et al. 2018), and the relative one."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.detectors.feature_detector import GaussianDetector
from nescio.detectors.statistics import Moments, min_variance, squares, whitened, whitening
from nescio.errors import NescioError

CLEAR = 1e-2  # difference, relative to the larger number, that has digits enough


class Mahalanobis(GaussianDetector):
    """Unknown if its features are far from those of every class (Lee et al. 2018, equation 2).

    The score is `min_c (f − μ_c)ᵀ Σ⁻¹ (f − μ_c)`, with one covariance Σ of the features around
    their class means. The paper's small step uphill in the input is left out. Classes are those of
    the labels or, without labels, the model's.

    Args:
        model: any classifier with one output per input.
        layer: name of the module whose output to take, averaged over positions if it has any; by
            default the input of the last linear layer.
        floor: the least variance of a direction, as a fraction of the mean variance within classes.
            Units that are hardly ever active have almost none, and would outweigh all others; 0,
            as in the paper, lets them.

    >>> detector = Mahalanobis(net).fit(known.test, train=known.train)
    >>> detector.predict(x)
    tensor([ 0, -1])
    """

    name = "mahalanobis"
    shapes: ClassVar[dict[str, str]] = {"centre_": "F", "factor_": "FF", "means_": "KF"}
    centre_: Tensor
    factor_: Tensor
    means_: Tensor  # of classes with inputs, centred and whitened

    def learn(self, data: Any) -> None:
        self.keep(**self.learned_from(self.moments(data)))

    def learned_from(self, moments: Moments) -> dict[str, Tensor]:
        """Return what follows from the moments of known features."""
        covariance = moments.scatter / moments.count.sum()
        factor, _ = whitening(covariance, min_variance(covariance, self.floor))
        centre, _ = moments.overall
        means = (moments.mean[moments.count > 0] - centre) @ factor
        return {"centre_": centre, "factor_": factor, "means_": means}

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        rows = whitened(self.learned_features(forward_pass), self.centre_, self.factor_)
        # ‖r − m‖² = ‖r‖² + ‖m‖² − 2 r·m, of which only the last two depend on the class
        means, lengths = self.means_.to(rows.device), squares(rows)
        scores = lengths + (squares(means) - 2 * (rows @ means.to(rows).T).double()).amin(1)
        # where little is left of such a difference, or it overflows, compute the distance itself
        if (doubtful := ~(scores.isfinite() & (scores > CLEAR * lengths))).any():
            exact = rows[doubtful].double()
            nearest = torch.addmm(squares(means), exact, means.T, beta=0.5, alpha=-1.0).argmin(1)
            scores[doubtful] = squares(exact - means[nearest])
        return scores


class RelativeMahalanobis(Mahalanobis):
    """Unknown if hardly nearer to a class than to all classes as one (Ren et al. 2021).

    The score is Mahalanobis' less the same distance under one Gaussian of all features, which helps
    where unknown inputs are much like known ones. Both Gaussians have the same least variance, so
    that a direction in which no known input varies counts for neither. Arguments are the same.

    >>> RelativeMahalanobis(net).fit(known.test, train=known.train).predict(x)
    tensor([ 0, -1])
    """

    name = "relative_mahalanobis"
    shapes: ClassVar[dict[str, str]] = Mahalanobis.shapes | {"background_": "FF"}
    background_: Tensor

    def learned_from(self, moments: Moments) -> dict[str, Tensor]:
        if (moments.count > 0).sum() < 2:
            raise NescioError("inputs to learn from are all of one class; use Mahalanobis")
        total = moments.count.sum()
        least = min_variance(moments.scatter / total, self.floor)
        background, _ = whitening(moments.overall[1] / total, least)
        return super().learned_from(moments) | {"background_": background}

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        nearest, rows = super().score_batch(x, forward_pass), self.features(forward_pass)
        return nearest - squares(whitened(rows, self.centre_, self.background_))
