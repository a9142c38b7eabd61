"""What detectors share that take the features of a class for a Gaussian: its moments, and a floor under its spread."""

from typing import Any

from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.core.logits import classes
from nescio.data.labelled import as_int64, check_labels
from nescio.detectors.moments import Moments
from nescio.detectors.on_features import FeatureDetector
from nescio.errors import NescioError, check_float

LARGEST = 2**29  # entries of all covariances: 4 GiB


class GaussianDetector(FeatureDetector):
    """Learns means and covariances of features by class, in one pass; a subclass brings `learn` and `evidence`.

    Classes are those of the labels or, of data without labels, those the model gives. One without inputs is left out.

    Args:
        model: any classifier with one answer for each input.
        layer: the name of the module whose output to take, averaged over positions if it has any; by default what the
            last linear layer is given.
        floor: the least variance that a direction counts with, as a share of the mean variance within classes. Units
            that are hardly ever on have next to none, and would outweigh all others; 0 lets them.
    """

    def __init__(self, model: nn.Module, layer: str | None = None, floor: float = 0.1) -> None:
        super().__init__(model, layer)
        self.floor = check_float("floor", floor)

    def moments(self, data: Any, each: bool = False) -> Moments:
        """Those of the features of each class, with one covariance for all or one for each."""
        found: Moments | None = None

        def on_batch(_: Tensor, seen: ForwardPass, y: Tensor | None) -> None:
            nonlocal found
            rows, count = self.features(seen), seen.logits.shape[2]
            if found is None:
                if each and count * rows.shape[1] ** 2 > LARGEST:
                    raise NescioError(
                        f"{count} covariances of {rows.shape[1]} features do not fit into memory; take "
                        "Mahalanobis, which has one for all classes, or a smaller layer"
                    )
                found = Moments(count, rows.shape[1], each)
            labels = classes(seen.logits) if y is None else as_int64(y)
            check_labels(labels, count)
            found.add(rows, labels)

        self.map_batches(data, on_batch)
        if found is None:
            raise NescioError("there are no inputs to learn from")
        found.close()
        return found

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"floor": self.floor}
