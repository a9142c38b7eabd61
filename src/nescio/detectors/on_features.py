"""Detectors that look at the features of one layer."""

from typing import Any

from torch import Tensor, nn

from nescio.core.features import HEAD, ForwardPass
from nescio.detectors.detector import Detector
from nescio.errors import NescioError


class FeatureDetector(Detector):
    """Learns what features known inputs have; a subclass brings `learn` and `evidence`.

    Args:
        model: any classifier with one answer for each input.
        layer: the name of the module whose output to take, averaged over positions if it has any; by default what the
            last linear layer is given.
    """

    learns = True

    def __init__(self, model: nn.Module, layer: str | None = None) -> None:
        super().__init__(model)
        if layer is not None and (not isinstance(layer, str) or not layer):
            raise NescioError(
                f"layer must be the name of a module, such as 'features.3', not {layer!r}"
            )
        self.layer = layer
        self.layers = (HEAD if layer is None else layer,)

    def features(self, seen: ForwardPass) -> Tensor:
        """Those of a batch, `(B, F)`."""
        return seen.features[self.layers[0]]

    def comparable(self, seen: ForwardPass) -> Tensor:
        """The features of a batch, `(B, F)`, or an error if none are learned, or others."""
        rows = self.features(seen)
        for name, axes in self.shapes.items():
            learned = self.get_buffer(name)
            if not learned.numel():
                raise NescioError(
                    f"{type(self).__name__} has learned nothing yet: call .fit(known) first"
                )
            if "F" in axes and learned.shape[axes.index("F")] != rows.shape[1]:
                width = learned.shape[axes.index("F")]
                raise NescioError(
                    f"{type(self).__name__} has learned {width} features, but these are {rows.shape[1]}"
                )
        return rows

    def settings(self) -> dict[str, Any]:
        return {"layer": self.layer}
