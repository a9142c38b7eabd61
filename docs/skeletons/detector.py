"""A new detector, in one file and one line.

Copy this file to `src/nescio/detectors/nearest_mean.py`, change it, and import its class in
`detectors/__init__.py`:

    from nescio.detectors.nearest_mean import NearestMean as NearestMean

It is then known to `nescio.detectors.DETECTORS`, `recommend`, `save` and the command line; the
contract tests run on it, and `make tables` writes it into the documentation. If it needs more of
labels and predictions than means and covariances by class, start from `detector_with_learn.py`.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.detectors.feature_detector import GaussianDetector


class NearestMean(GaussianDetector):
    """Unknown if its features are far from the mean of every class.

    The score is `min_c ‖f − μ_c‖₂`. A detector on logits or inputs alone derives from `Detector`;
    without anything to learn it brings `score_batch`, and nothing else. Arguments of a constructor
    are kept as attributes of the same name, so that files can hold them.

    Args:
        model, layer, floor: as for every detector on Gaussian features.

    >>> detector = NearestMean(net).fit(known.test, train=known.train)
    >>> detector.predict(x)  # class, or −1 = "I do not know"
    tensor([ 0, -1])
    """

    name = "nearest_mean"
    # Of what is learned, a letter per axis: the same letter is the same size, or a file is refused.
    # F, the features' width, and C, the model's classes, are checked against the model; an array
    # that ends in FF must be a whitening matrix. Other letters are free: K classes have inputs.
    shapes: ClassVar[dict[str, str]] = {"means_": "KF"}
    means_: Tensor

    def learn(self, data: Any) -> None:
        moments = self.moments(data)  # of the features by class, in one pass
        self.keep(means_=moments.mean[moments.count > 0])

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        rows = self.learned_features(forward_pass).double()  # (B, F)
        return torch.cdist(rows, self.means_.to(rows.device)).amin(1)
