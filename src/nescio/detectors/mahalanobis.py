"""The distance of features to the nearest class, measured by their spread (Lee et al. 2018)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.detectors.gaussian import GaussianDetector
from nescio.detectors.moments import Moments
from nescio.detectors.whitening import least_variance, squares, whitened, whitening

CLEAR = 1e-2  # of the larger one, a difference that has digits enough


class Mahalanobis(GaussianDetector):
    """Known as long as its features are near those of some class (Lee et al. 2018, equation 2).

    Its score is `min_c (f − μ_c)ᵀ Σ⁻¹ (f − μ_c)`, with one covariance Σ of the features around their class means. The
    paper's small step uphill in the input is left out. Classes are those of the labels or, of data without labels,
    those the model gives.

    Args:
        model: any classifier with one answer for each input.
        layer: the name of the module whose output to take, averaged over positions if it has any; by default what the
            last linear layer is given.
        floor: the least variance that a direction counts with, as a share of the mean variance within classes. Units
            that are hardly ever on have next to none, and would outweigh all others; 0, as in the paper, lets them.
    """

    name = "mahalanobis"
    shapes: ClassVar[dict[str, str]] = {"centre_": "F", "factor_": "FF", "means_": "KF"}
    centre_: Tensor
    factor_: Tensor
    means_: Tensor  # of the classes that there were inputs of, centred and whitened

    def __init__(self, model: nn.Module, layer: str | None = None, floor: float = 0.1) -> None:
        super().__init__(model, layer, floor)
        for name, axes in self.shapes.items():
            self.register_buffer(name, torch.empty((0,) * len(axes), dtype=torch.float64))

    def learn(self, data: Any) -> None:
        self.keep(**self.learned_from(self.moments(data)))

    def learned_from(self, found: Moments) -> dict[str, Tensor]:
        """What follows from the moments of known features."""
        covariance = found.scatter / found.count.sum()
        factor, _ = whitening(covariance, least_variance(covariance, self.floor))
        centre, _ = found.overall
        return {
            "centre_": centre,
            "factor_": factor,
            "means_": (found.mean[found.count > 0] - centre) @ factor,
        }

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        rows = whitened(self.comparable(seen), self.centre_, self.factor_)
        # ‖r − m‖² = ‖r‖² + ‖m‖² − 2 r·m, of which only the last two depend on the class
        means, lengths = self.means_.to(rows.device), squares(rows)
        found = lengths + (squares(means) - 2 * (rows @ means.to(rows).T).double()).amin(1)
        # where little is left of such a difference, or numbers run over, there are no digits: taken anew
        if (doubtful := ~(found.isfinite() & (found > CLEAR * lengths))).any():
            some = rows[doubtful].double()
            nearest = torch.addmm(squares(means), some, means.T, beta=0.5, alpha=-1.0).argmin(1)
            found[doubtful] = squares(some - means[nearest])
        return found
