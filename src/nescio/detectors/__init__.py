"""What must be fitted on known data before it can decide, one file per paper."""

from nescio.detectors.detector import UNKNOWN, Detector
from nescio.detectors.meta import MetaClassifier
from nescio.detectors.threshold import Threshold

DETECTORS: dict[str, type[Detector]] = {"threshold": Threshold, "meta": MetaClassifier}

__all__ = ["DETECTORS", "UNKNOWN", "Detector", "MetaClassifier", "Threshold"]
