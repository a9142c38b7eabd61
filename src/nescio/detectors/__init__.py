"""Detectors: fitted on known data before they can decide; one file per paper."""

from nescio.detectors.answers import UNKNOWN as UNKNOWN
from nescio.detectors.detector import Detector as Detector
from nescio.detectors.meta import labelled_features as labelled_features
from nescio.detectors.meta_fit import MetaFit as MetaFit
from nescio.detectors.meta_fit import fit_meta as fit_meta

# A detector is a line here, in the order of tables; DETECTORS is built from these.
# isort: off
from nescio.detectors.threshold import Threshold as Threshold
from nescio.detectors.meta import MetaClassifier as MetaClassifier
from nescio.detectors.mahalanobis import Mahalanobis as Mahalanobis
from nescio.detectors.mahalanobis import RelativeMahalanobis as RelativeMahalanobis
from nescio.detectors.gaussian_density import GaussianDensity as GaussianDensity
from nescio.detectors.knn import KNN as KNN
from nescio.detectors.vim import ViM as ViM
from nescio.detectors.react import ReAct as ReAct
from nescio.detectors.odin import ODIN as ODIN
from nescio.detectors.combined import Combined as Combined
# isort: on

# all detectors by name
DETECTORS: dict[str, type[Detector]] = {
    kind.name: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Detector) and hasattr(kind, "name")
}
