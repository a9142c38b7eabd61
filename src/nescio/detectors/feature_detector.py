"""Detectors on the features of one layer, and those that fit Gaussians to them."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nescio.core.features import HEAD, ForwardPass
from nescio.core.logits import classes
from nescio.data.batches import as_int64, check_labels
from nescio.detectors.detector import Detector
from nescio.detectors.statistics import Moments
from nescio.errors import NescioError, check_float

MAX_COVARIANCES = 2**29  # entries of all: 4 GiB


class FeatureDetector(Detector):
    """Learns what features known inputs have; a subclass brings `learn` and `score_batch`.

    Args:
        model: any classifier with one output per input.
        layer: name of the module whose output to take, averaged over positions if it has any; by
            default the input of the last linear layer.
    """

    learns = True
    dtype: ClassVar[torch.dtype] = torch.float64  # of what it learns

    def __init__(self, model: nn.Module, layer: str | None = None) -> None:
        super().__init__(model)
        if layer is not None and (not isinstance(layer, str) or not layer):
            raise NescioError(f"layer must be the name of a module, such as 'conv2', got {layer!r}")
        self.layer = layer
        self.layers = (HEAD if layer is None else layer,)
        empty = {k: torch.empty((0,) * len(v), dtype=self.dtype) for k, v in self.shapes.items()}
        self.keep(**empty)

    def features(self, forward_pass: ForwardPass) -> Tensor:
        """Return the features of a batch, `(B, F)`."""
        return forward_pass.features[self.layers[0]]

    def learned_features(self, forward_pass: ForwardPass) -> Tensor:
        """Return the features of a batch `(B, F)`; raise an error if F or C is not as learned."""
        rows = self.features(forward_pass)
        sizes = {"F": (rows.shape[1], "features"), "C": (forward_pass.logits.shape[2], "classes")}
        for name, axes in self.shapes.items():
            learned = self.get_buffer(name)
            if not learned.numel():
                raise NescioError(f"{type(self).__name__} is not fitted: call .fit(calibration)")
            for letter, size in zip(axes, learned.shape, strict=True):
                expected, what = sizes.get(letter, (size, ""))
                if size != expected:
                    raise NescioError(f"{self.name} has learned {size} {what}, got {expected}")
        return rows


class GaussianDetector(FeatureDetector):
    """Learns means and covariances of features by class, in one pass.

    Classes are those of the labels or, without labels, the model's. One without inputs is left out.
    Arguments are those of `Mahalanobis`.
    """

    def __init__(self, model: nn.Module, layer: str | None = None, floor: float = 0.1) -> None:
        super().__init__(model, layer)
        self.floor = check_float("floor", floor)

    def moments(self, data: Any, each: bool = False) -> Moments:
        """Return the moments of each class, with one covariance for all or one for each."""
        moments: Moments | None = None

        def on_batch(_: Tensor, forward_pass: ForwardPass, y: Tensor | None) -> None:
            nonlocal moments
            rows, logits = self.features(forward_pass), forward_pass.logits
            count, width = logits.shape[2], rows.shape[1]
            if each and count * width**2 > MAX_COVARIANCES:
                raise NescioError(
                    f"{count} covariances of {width} features do not fit into memory; use "
                    "Mahalanobis, which has one for all classes, or a smaller layer"
                )
            moments = moments or Moments(count, width, each)
            labels = classes(logits) if y is None else as_int64(y)
            check_labels(labels, count)
            moments.add(rows, labels)

        self.map_batches(data, on_batch)
        if moments is None:
            raise NescioError("there are no inputs to learn from")
        return moments.close()
