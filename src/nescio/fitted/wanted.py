"""Which detector is to be fitted, and how."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nescio.detectors import DETECTORS, Detector
from nescio.detectors.on_features import FeatureDetector
from nescio.errors import NescioError
from nescio.recommend import recommend
from nescio.records import Recommendation


class Choice(ABC):
    """Which detector a folder is to hold."""

    @property
    @abstractmethod
    def asked(self) -> dict[str, Any]:
        """What was asked for, as plain data for the record."""

    @abstractmethod
    def looks_at_features(self, model: nn.Module) -> bool:
        """Whether it learns the features of a model, and so from what that was trained on; an error if it cannot be."""

    @abstractmethod
    def fitted(self, model: nn.Module, known: Any, train: Any) -> Detector:
        """The detector over a model, calibrated on known data, with data to learn from or None."""


@dataclass(frozen=True)
class Wanted(Choice):
    """A detector by its name, and how to fit it; None is what is usual."""

    detector: str = "threshold"
    score: str | None = None
    layer: str | None = None
    accept: float | None = None
    risk: float | None = None
    confidence: float | None = None
    per_class: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # others of the detector's

    def over(self, model: nn.Module) -> Detector:
        """The detector, not yet fitted."""
        kind = DETECTORS[self.detector]
        given = {name: value for name in ("score", "layer") if (value := getattr(self, name)) is not None}
        if twice := given.keys() & self.settings.keys():
            raise NescioError(f"{min(twice)} was given twice")
        given |= self.settings
        known = [name for name in inspect.signature(kind).parameters if name != "model"]
        for name in given:
            if name not in known:
                raise NescioError(f"{self.detector} has no setting {name!r}; it has {', '.join(known) or 'none'}")
        return kind(model, **given)

    @property
    def asked(self) -> dict[str, Any]:
        return vars(self)

    def looks_at_features(self, model: nn.Module) -> bool:
        return isinstance(self.over(model), FeatureDetector)

    def fitted(self, model: nn.Module, known: Any, train: Any) -> Detector:
        bound: dict[str, Any] = {"risk": self.risk, "confidence": self.confidence}
        return self.over(model).fit(known, self.accept, train=train, per_class=self.per_class, **bound)


class Best(Choice):
    """The detector that suits a model best, as `recommend` finds it; `how` are its options.

    Attributes:
        record: the ranking that it leads, once it is fitted.
    """

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.record: Recommendation | None = None

    @property
    def asked(self) -> dict[str, Any]:
        return self.how

    def looks_at_features(self, model: nn.Module) -> bool:
        return True  # as some of those do that are tried

    def fitted(self, model: nn.Module, known: Any, train: Any) -> Detector:
        found = recommend(model, known, train, **self.how)
        self.record = found.record
        return found.detector


def settings_in(words: Sequence[str]) -> dict[str, Any]:
    """Settings of a detector given as words, with values in JSON; what is not JSON is text.

    >>> settings_in(["k=10", "floor=0.2", "kind=lasso", 'members=["energy", "knn"]'])
    {'k': 10, 'floor': 0.2, 'kind': 'lasso', 'members': ['energy', 'knn']}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, mark, text = word.partition("=")
        if not mark or not name:
            raise NescioError(f"{word!r} is no setting; expected name=value, such as k=10")
        if name in found:
            raise NescioError(f"{name} was given twice")
        try:
            found[name] = json.loads(text)
        except (ValueError, RecursionError):
            found[name] = text
    return found
