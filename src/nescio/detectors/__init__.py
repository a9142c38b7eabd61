"""What must be fitted on known data before it can decide, one file per paper."""

from nescio.detectors.answers import UNKNOWN
from nescio.detectors.combined import Combined
from nescio.detectors.detector import Detector
from nescio.detectors.gaussian_density import GaussianDensity
from nescio.detectors.knn import KNN
from nescio.detectors.mahalanobis import Mahalanobis
from nescio.detectors.meta import MetaClassifier
from nescio.detectors.odin import ODIN
from nescio.detectors.react import ReAct
from nescio.detectors.relative_mahalanobis import RelativeMahalanobis
from nescio.detectors.threshold import Threshold
from nescio.detectors.vim import ViM

DETECTORS: dict[str, type[Detector]] = {
    "threshold": Threshold,
    "meta": MetaClassifier,
    "mahalanobis": Mahalanobis,
    "relative_mahalanobis": RelativeMahalanobis,
    "gaussian_density": GaussianDensity,
    "knn": KNN,
    "vim": ViM,
    "react": ReAct,
    "odin": ODIN,
    "combined": Combined,
}

__all__ = [
    "DETECTORS",
    "KNN",
    "ODIN",
    "UNKNOWN",
    "Combined",
    "Detector",
    "GaussianDensity",
    "Mahalanobis",
    "MetaClassifier",
    "ReAct",
    "RelativeMahalanobis",
    "Threshold",
    "ViM",
]
