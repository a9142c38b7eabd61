"""What must be fitted on known data before it can decide, one file per paper."""

from nescio.detectors.combined import Combined
from nescio.detectors.detector import UNKNOWN, Detector
from nescio.detectors.meta import MetaClassifier
from nescio.detectors.threshold import Threshold

DETECTORS: dict[str, type[Detector]] = {"threshold": Threshold, "meta": MetaClassifier, "combined": Combined}

__all__ = ["DETECTORS", "UNKNOWN", "Combined", "Detector", "MetaClassifier", "Threshold"]
