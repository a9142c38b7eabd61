"""Which detector is to be fitted, and how."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nescio.detectors import DETECTORS, Combined, Detector, MetaClassifier, Threshold
from nescio.errors import NescioError
from nescio.evaluation.recommend import recommend
from nescio.records import Recommendation


class DetectorChoice(ABC):
    """Which detector a folder is to hold."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The user's options, as plain data for the record."""

    @abstractmethod
    def learns(self, model: nn.Module) -> bool:
        """Whether it learns from training data; an error if it cannot be made."""

    @abstractmethod
    def fitted(self, model: nn.Module, calibration: Any, train: Any) -> Detector:
        """Fit the detector over a model, with data to learn from or None."""

    @property
    def refused(self) -> dict[str, float] | None:
        """Fraction of each kind of synthetic outliers that is refused; None if not tried."""
        return None


@dataclass(frozen=True)
class NamedDetector(DetectorChoice):
    """A detector by name; by default `combined`, or with a score a threshold on it."""

    detector: str | None = None
    score: str | None = None
    layer: str | None = None
    accept: float | None = None
    risk: float | None = None
    confidence_level: float | None = None
    per_class: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # others of the detector's
    batch_size: int = 256
    seed: int = 0  # of a detector that draws

    @property
    def name(self) -> str:
        """That of the detector, in `DETECTORS`."""
        return self.detector or (Combined.name if self.score is None else Threshold.name)

    def over(self, model: nn.Module) -> Detector:
        """Make the detector, not yet fitted."""
        kind, named = DETECTORS[self.name], {"score": self.score, "layer": self.layer}
        settings: dict[str, Any] = {k: value for k, value in named.items() if value is not None}
        if twice := settings.keys() & self.settings.keys():
            raise NescioError(f"{min(twice)} was given twice")
        settings |= self.settings
        names = [name for name in inspect.signature(kind).parameters if name != "model"]
        if "seed" in names:
            settings.setdefault("seed", self.seed)
        for name in settings:
            if name not in names:
                listed = ", ".join(names) or "none"
                raise NescioError(f"{self.name} has no setting {name!r}; it has {listed}")
        return kind(model, **settings)

    @property
    def options(self) -> dict[str, Any]:
        return {**vars(self), "detector": self.name}

    def learns(self, model: nn.Module) -> bool:
        parts = learners(self.over(model))
        # which answers to mistrust shows only on data that the model was not trained on
        return bool(parts) and not any(isinstance(part, MetaClassifier) for part in parts)

    def fitted(self, model: nn.Module, calibration: Any, train: Any) -> Detector:
        bound: dict[str, Any] = {"risk": self.risk, "confidence_level": self.confidence_level}
        how = {"train": train, "per_class": self.per_class, **bound}
        return self.over(model).fit(calibration, self.accept, batch_size=self.batch_size, **how)


class RecommendedDetector(DetectorChoice):
    """The detector that `recommend` finds best; `options` are its own.

    Attributes:
        record: the ranking that it leads, once it is fitted.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.record: Recommendation | None = None

    @property
    def options(self) -> dict[str, Any]:
        return self._options

    def learns(self, model: nn.Module) -> bool:
        return True  # as some candidates do

    def fitted(self, model: nn.Module, calibration: Any, train: Any) -> Detector:
        best = recommend(model, calibration, train, **self._options)
        self.record = best.record
        return best.detector

    @property
    def refused(self) -> dict[str, float] | None:
        return None if self.record is None else self.record.ranking[0].refused


def learners(detector: Detector) -> list[Detector]:
    """Return a detector, or those of its members, that learn more than a threshold and p-values."""
    parts = (part for part in detector.modules() if isinstance(part, Detector))
    return [part for part in parts if part.learns and not isinstance(part, Combined)]


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """Return settings given as words, with values in JSON; what is not JSON is text.

    >>> parse_settings(["k=10", "floor=0.2", "kind=lasso", 'members=["energy", "knn"]'])
    {'k': 10, 'floor': 0.2, 'kind': 'lasso', 'members': ['energy', 'knn']}
    """
    settings: dict[str, Any] = {}
    for word in words:
        name, mark, text = word.partition("=")
        if not mark or not name:
            raise NescioError(f"{word!r} is no setting; expected name=value, such as k=10")
        if name in settings:
            raise NescioError(f"{name} was given twice")
        try:
            settings[name] = json.loads(text)
        except (ValueError, RecursionError):
            settings[name] = text
    return settings
