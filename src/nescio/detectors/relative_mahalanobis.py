"""How much farther features are from the nearest class than from the midst of all (Ren et al. 2021)."""

from typing import ClassVar

from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.detectors.mahalanobis import Mahalanobis
from nescio.detectors.moments import Moments
from nescio.detectors.whitening import least_variance, squares, whitened, whitening
from nescio.errors import NescioError


class RelativeMahalanobis(Mahalanobis):
    """Known as long as its features are much nearer to some class than to all classes taken as one (Ren et al. 2021).

    Its score is Mahalanobis' less the same distance under one Gaussian of all features: what is as odd for both tells
    nothing. That helps where unknown inputs are much like known ones. Both Gaussians have the same least variance, so
    that a direction in which no known input varies counts for neither. Arguments are those of Mahalanobis.
    """

    name = "relative_mahalanobis"
    shapes: ClassVar[dict[str, str]] = Mahalanobis.shapes | {"background_": "FF"}
    background_: Tensor

    def learned_from(self, found: Moments) -> dict[str, Tensor]:
        if (found.count > 0).sum() < 2:
            raise NescioError(
                "all inputs to learn from are of one class, so that it is as near as all classes are; "
                "RelativeMahalanobis needs at least two. Take Mahalanobis"
            )
        total = found.count.sum()
        background, _ = whitening(
            found.overall[1] / total, least_variance(found.scatter / total, self.floor)
        )
        return super().learned_from(found) | {"background_": background}

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        nearest = super().score_batch(x, seen)
        return nearest - squares(whitened(self.features(seen), self.centre_, self.background_))
