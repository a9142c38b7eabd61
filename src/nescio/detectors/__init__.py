"""What must be fitted on known data before it can decide, one file per paper."""

from nescio.detectors.detector import UNKNOWN, Detector
from nescio.detectors.knn import KNN
from nescio.detectors.meta import MetaClassifier
from nescio.detectors.odin import ODIN
from nescio.detectors.react import ReAct
from nescio.detectors.threshold import Threshold

DETECTORS: dict[str, type[Detector]] = {
    "threshold": Threshold,
    "meta": MetaClassifier,
    "knn": KNN,
    "react": ReAct,
    "odin": ODIN,
}

__all__ = ["DETECTORS", "KNN", "ODIN", "UNKNOWN", "Detector", "MetaClassifier", "ReAct", "Threshold"]
