"""nescio, "I do not know": neural classifiers that say so.

Public names are loaded on first use, so that `nescio --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio import audit as audit
    from nescio import data as data
    from nescio import detectors as detectors
    from nescio import guarantees as guarantees
    from nescio import methods as methods
    from nescio import metrics as metrics
    from nescio import models as models
    from nescio import records as records
    from nescio import report as report
    from nescio import scores as scores
    from nescio import sklearn as sklearn
    from nescio.core import attacks as attacks
    from nescio.core.predict import predict as predict
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
    from nescio.evaluation.contest import contest as contest
    from nescio.evaluation.decide import decide as decide
    from nescio.evaluation.evaluate import evaluate as evaluate
    from nescio.evaluation.extremes import examples as examples
    from nescio.evaluation.maps import uncertainty_map as uncertainty_map
    from nescio.evaluation.recommend import recommend as recommend
    from nescio.methods.temperature import TemperatureScaled as TemperatureScaled
    from nescio.seeds import derived_seed as derived_seed
    from nescio.store.model_file import load as load
    from nescio.store.model_file import save as save
    from nescio.training import schedule as schedule
    from nescio.training.train import train as train
    from nescio.training.tuning import select_length_scale as select_length_scale
    from nescio.training.tuning import select_penalty as select_penalty

__version__ = "0.2.0.dev0"

_MODULES = {  # public name: the module it is
    **{room: room for room in ("audit", "data", "detectors", "methods", "metrics", "models")},
    **{room: room for room in ("guarantees", "records", "report", "scores", "sklearn")},
    "attacks": "core.attacks",
    "schedule": "training.schedule",
}
_DETECTORS = [
    "KNN",
    "ODIN",
    "Combined",
    "GaussianDensity",
    "Mahalanobis",
    "MetaClassifier",
    "ReAct",
]
_DETECTORS += ["RelativeMahalanobis", "Threshold", "ViM"]
_HOMES = {  # public name: the module that defines it
    **dict.fromkeys(_DETECTORS, "detectors"),
    "NescioError": "errors",
    "TemperatureScaled": "methods.temperature",
    "contest": "evaluation.contest",
    "decide": "evaluation.decide",
    "derived_seed": "seeds",
    "evaluate": "evaluation.evaluate",
    "examples": "evaluation.extremes",
    "train": "training.train",
    "load": "store.model_file",
    "predict": "core.predict",
    "recommend": "evaluation.recommend",
    "save": "store.model_file",
    "select_length_scale": "training.tuning",
    "select_penalty": "training.tuning",
    "uncertainty_map": "evaluation.maps",
}
__all__ = [*_MODULES, *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"nescio.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(import_module(f"nescio.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'nescio' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
