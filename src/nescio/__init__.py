"""nescio, "I do not know": neural classifiers that say so.

Names are loaded when first used, so that `nescio --help` need not wait for torch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio import attacks as attacks
    from nescio import audit as audit
    from nescio import data as data
    from nescio import detectors as detectors
    from nescio import methods as methods
    from nescio import metrics as metrics
    from nescio import models as models
    from nescio import records as records
    from nescio import schedule as schedule
    from nescio import scores as scores
    from nescio import sklearn as sklearn
    from nescio.contest import contest as contest
    from nescio.decision import decide as decide
    from nescio.detectors import KNN as KNN
    from nescio.detectors import ODIN as ODIN
    from nescio.detectors import Combined as Combined
    from nescio.detectors import GaussianDensity as GaussianDensity
    from nescio.detectors import Mahalanobis as Mahalanobis
    from nescio.detectors import MetaClassifier as MetaClassifier
    from nescio.detectors import ReAct as ReAct
    from nescio.detectors import RelativeMahalanobis as RelativeMahalanobis
    from nescio.detectors import Threshold as Threshold
    from nescio.detectors import ViM as ViM
    from nescio.errors import NescioError as NescioError
    from nescio.evaluate import evaluate as evaluate
    from nescio.examples import examples as examples
    from nescio.maps import uncertainty_map as uncertainty_map
    from nescio.predict import predict as predict
    from nescio.recommend import recommend as recommend
    from nescio.saving import load as load
    from nescio.saving import save as save
    from nescio.selection import select_length_scale as select_length_scale
    from nescio.selection import select_penalty as select_penalty
    from nescio.temperature import TemperatureScaled as TemperatureScaled
    from nescio.training import fit as fit

__version__ = "0.1.0"
__all__ = [
    "KNN",
    "ODIN",
    "Combined",
    "GaussianDensity",
    "Mahalanobis",
    "MetaClassifier",
    "NescioError",
    "ReAct",
    "RelativeMahalanobis",
    "TemperatureScaled",
    "Threshold",
    "ViM",
    "attacks",
    "audit",
    "contest",
    "data",
    "decide",
    "detectors",
    "evaluate",
    "examples",
    "fit",
    "load",
    "methods",
    "metrics",
    "models",
    "predict",
    "recommend",
    "records",
    "save",
    "schedule",
    "scores",
    "select_length_scale",
    "select_penalty",
    "sklearn",
    "uncertainty_map",
]

_HOMES = {
    "Combined": "detectors",
    "MetaClassifier": "detectors",
    "NescioError": "errors",
    "TemperatureScaled": "temperature",
    "GaussianDensity": "detectors",
    "Mahalanobis": "detectors",
    "RelativeMahalanobis": "detectors",
    "KNN": "detectors",
    "ODIN": "detectors",
    "ReAct": "detectors",
    "Threshold": "detectors",
    "ViM": "detectors",
    "decide": "decision",
    "evaluate": "evaluate",
    "examples": "examples",
    "fit": "training",
    "load": "saving",
    "predict": "predict",
    "contest": "contest",
    "recommend": "recommend",
    "save": "saving",
    "select_length_scale": "selection",
    "select_penalty": "selection",
    "uncertainty_map": "maps",
}


class _Package(ModuleType):
    """The package, where `predict` and `evaluate` are the functions, though files of that name exist."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):  # importing nescio.predict would hide the function
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'nescio' has no attribute {name!r}")
        if name not in _HOMES:
            return import_module(f"nescio.{name}")
        value = getattr(import_module(f"nescio.{_HOMES[name]}"), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *__all__])


sys.modules[__name__].__class__ = _Package
