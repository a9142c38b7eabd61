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


class Choice(ABC):
    """Which detector a folder is to hold."""

    @property
    @abstractmethod
    def asked(self) -> dict[str, Any]:
        """What was asked for, as plain data for the record."""

    @abstractmethod
    def learns(self, model: nn.Module) -> bool:
        """Whether it learns from what a model was trained on; an error if it cannot be made."""

    @abstractmethod
    def fitted(self, model: nn.Module, known: Any, train: Any) -> Detector:
        """The detector over a model, calibrated on known data, with data to learn from or None."""

    @property
    def refused(self) -> dict[str, float] | None:
        """The share of each kind of made outliers that the fitted detector refuses; None if none were tried."""
        return None


@dataclass(frozen=True)
class Wanted(Choice):
    """A detector by its name, and how to fit it; None is what is usual: `combined`, or a threshold on a given score."""

    detector: str | None = None
    score: str | None = None
    layer: str | None = None
    accept: float | None = None
    risk: float | None = None
    confidence: float | None = None
    per_class: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # others of the detector's

    @property
    def name(self) -> str:
        """That of the detector, in `DETECTORS`."""
        return self.detector or (Combined.name if self.score is None else Threshold.name)

    def over(self, model: nn.Module) -> Detector:
        """The detector, not yet fitted."""
        kind = DETECTORS[self.name]
        given = {
            name: value for name in ("score", "layer") if (value := getattr(self, name)) is not None
        }
        if twice := given.keys() & self.settings.keys():
            raise NescioError(f"{min(twice)} was given twice")
        given |= self.settings
        known = [name for name in inspect.signature(kind).parameters if name != "model"]
        for name in given:
            if name not in known:
                raise NescioError(
                    f"{self.name} has no setting {name!r}; it has {', '.join(known) or 'none'}"
                )
        return kind(model, **given)

    @property
    def asked(self) -> dict[str, Any]:
        return {**vars(self), "detector": self.name}

    def learns(self, model: nn.Module) -> bool:
        made = learners(self.over(model))
        # which answers to mistrust shows only on data that the model was not trained on
        return bool(made) and not any(isinstance(one, MetaClassifier) for one in made)

    def fitted(self, model: nn.Module, known: Any, train: Any) -> Detector:
        bound: dict[str, Any] = {"risk": self.risk, "confidence": self.confidence}
        return self.over(model).fit(
            known, self.accept, train=train, per_class=self.per_class, **bound
        )


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

    def learns(self, model: nn.Module) -> bool:
        return True  # as some of those do that are tried

    def fitted(self, model: nn.Module, known: Any, train: Any) -> Detector:
        found = recommend(model, known, train, **self.how)
        self.record = found.record
        return found.detector

    @property
    def refused(self) -> dict[str, float] | None:
        return None if self.record is None else self.record.ranking[0].refused


def learners(detector: Detector) -> list[Detector]:
    """A detector, or those of its members, that learn more than a threshold and p-values."""
    parts = [
        one
        for one in detector.modules()
        if isinstance(one, Detector) and not isinstance(one, Combined)
    ]
    return [one for one in parts if one.learns]


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
