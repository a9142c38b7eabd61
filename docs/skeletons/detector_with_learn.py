"""A new detector that walks over labels and predictions itself, in one file and one line.

Copy this file to `src/nescio/detectors/predicted_mean.py`, change it, and import its class in
`detectors/__init__.py`:

    from nescio.detectors.predicted_mean import PredictedMean as PredictedMean

If means and covariances by class are all it learns, `detector.py` is the shorter way.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.core.logits import classes
from nescio.data.batches import as_int64, check_labels
from nescio.detectors.feature_detector import FeatureDetector
from nescio.errors import NescioError


class PredictedMean(FeatureDetector):
    """Unknown if its features are far from the mean of its predicted class.

    The score is `‖f − μ_ĉ‖₂`, where μ_c is the mean of the features of inputs of class c that the
    model classifies correctly; without labels, of all that it takes for c. A class without such
    inputs has the mean of all.

    Args:
        model, layer: as for every detector on features.

    >>> detector = PredictedMean(net).fit(known.test, train=known.train)
    >>> detector.predict(x)  # class, or −1 = "I do not know"
    tensor([ 0, -1])
    """

    name = "predicted_mean"
    shapes: ClassVar[dict[str, str]] = {"means_": "CF"}  # letters: see `Scorer.shapes`
    means_: Tensor

    def learn(self, data: Any) -> None:
        sums = counts = torch.empty(0, dtype=self.dtype)

        def on_batch(x: Tensor, forward_pass: ForwardPass, y: Tensor | None) -> None:
            nonlocal sums, counts
            rows = self.features(forward_pass)  # (B, F), on the model's device as logits (S, B, C)
            predicted = classes(forward_pass.logits)  # (B,)
            if not len(counts):  # the first batch tells the sizes
                counts = counts.new_zeros(forward_pass.logits.shape[2])
                sums = sums.new_zeros(len(counts), rows.shape[1])
            labels = predicted if y is None else as_int64(y).to(predicted.device)
            check_labels(labels, len(counts))
            correct = labels == predicted
            sums.index_add_(0, labels[correct].to(sums.device), rows[correct].to(sums))
            counts += labels[correct].bincount(minlength=len(counts)).to(counts)

        self.map_batches(data, on_batch)  # one pass, whatever the data's size
        if not counts.any():
            raise NescioError("there are no correctly classified inputs to learn from")
        if not sums.isfinite().all():
            raise NescioError("some features are NaN or infinite")
        overall = sums.sum(0) / counts.sum()
        self.keep(means_=torch.where(counts[:, None] > 0, sums / counts[:, None], overall))

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        rows = self.learned_features(forward_pass).double()  # (B, F), checked against `shapes`
        predicted = classes(forward_pass.logits)
        return (rows - self.means_.to(rows.device)[predicted]).square().sum(1).sqrt()
