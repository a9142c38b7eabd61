"""Which detector is to be fitted, and how."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nescio.detectors import DETECTORS, Detector
from nescio.errors import NescioError


@dataclass(frozen=True)
class Wanted:
    """Which detector to fit, and how; None is what is usual."""

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

    def fit(self, detector: Detector, known: Any, train: Any) -> None:
        """Fit it."""
        bound: dict[str, Any] = {"risk": self.risk, "confidence": self.confidence}
        detector.fit(known, self.accept, train=train, per_class=self.per_class, **bound)


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
