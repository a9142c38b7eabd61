"""The inputs a model is surest and least sure of, of known data and of unknown sets → an `Examples` record."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.logits import classes as given_classes
from nescio.core.predict import map_batches
from nescio.data.labelled import as_int64
from nescio.detectors import Detector
from nescio.errors import NescioError, check_int
from nescio.evaluation.adversarial import AttackFailedError
from nescio.evaluation.named_sets import KNOWN, made_set, named_sets
from nescio.methods import as_method
from nescio.methods.method import Method
from nescio.records import Example, Examples, ExampleSet, Provenance
from nescio.records.images import Image
from nescio.scores import score_spec, scores_of

SIDE = 32  # pixels that an image is kept with; larger ones are averaged down
FEATURES = 64  # of a table that are kept


def examples(
    model: nn.Module,
    known: Any,
    unknown: Mapping[str, Any] | Sequence[str] | None = None,
    *,
    each: int = 6,
    score: str | None = None,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    attacked: int = 1000,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Examples:
    """Find the inputs at both ends of a score; data are streamed, and only those few are ever kept.

    Args:
        model: a method, a bare network, or a detector, whose own score then decides.
        known: data of the kinds it was trained on; with labels, to tell right answers from wrong ones.
        unknown: named data of other kinds, or names of what can be made from the known data; as in `evaluate`.
        each: how many of each end; a set that has fewer than two times as many is divided.
        score: a name in `SCORES`; by default the one the method's paper pairs with it.
        classes: names of the classes, such as `known.classes`; else they have numbers.
        features: names of a table's features; else they have numbers, too.
        attacked: how many inputs the adversarial sets are tried on; one that resisted all attacks is left out.
        batch_size, seed, progress: as in `predict`.
    """
    started = time.monotonic()
    sets, attacked = named_sets(unknown), check_int("attacked", attacked)
    method = as_method(model.model if isinstance(model, Detector) else model)
    found = Extremes.of(model, each, score, classes, features)
    how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    _sweep(found, model, KNOWN, known, how)
    for name, given in sets.items():
        try:
            data = (
                made_set(given, method, known, attacked, **how)[0]
                if isinstance(given, str)
                else given
            )
        except AttackFailedError:
            continue
        _sweep(found, model, name, data, how)
    return found.record(getattr(known, "name", ""), seed, time.monotonic() - started)


def _sweep(found: "Extremes", model: nn.Module, name: str, data: Any, how: dict[str, Any]) -> None:
    """One pass over a set."""
    detector = model if isinstance(model, Detector) and found.score == model.name else None

    def on_batch(x: Tensor, seen: ForwardPass, y: Tensor | None) -> None:
        own = {} if detector is None else {detector.name: detector.of_batch(x, seen)}
        found.see(name, x, seen.logits.to(x.device), y, own)

    way = forward_with_features if detector is None else detector.forward_with_features
    map_batches(
        way, found.method if detector is None else detector.model, data, on_batch, "examples", **how
    )


@dataclass(frozen=True)
class _Kept:
    """Inputs `(K, …)`, and `(K,)` each: number, answer, label (−1 without one), confidence, score."""

    x: Tensor
    numbers: Tensor
    answers: Tensor
    labels: Tensor
    confidence: Tensor
    scores: Tensor

    def at(self, index: Tensor) -> "_Kept":
        return _Kept(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def with_(self, other: "_Kept") -> "_Kept":
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return _Kept(*(torch.cat(pair) for pair in pairs))


@dataclass
class _Ends:
    """Both ends of one set, as far as it was seen, in ascending order; of equals the one that came first is surer."""

    inputs: int = 0
    surest: _Kept | None = None
    unsure: _Kept | None = None

    def add(self, batch: _Kept, each: int) -> None:
        """Look at a batch, the next in order."""
        self.inputs += len(batch.scores)
        low = batch if self.surest is None else self.surest.with_(batch)
        self.surest = low.at(low.scores.sort(stable=True).indices[:each])
        high = batch if self.unsure is None else self.unsure.with_(batch)
        self.unsure = high.at(high.scores.sort(stable=True).indices[-each:])


@dataclass
class Extremes:
    """A pair of eyes for `evaluate(…, watch=found.see)`: keeps the few inputs at both ends of a score."""

    method: Method
    score: str
    each: int
    classes: Sequence[str] | None = None
    features: Sequence[str] | None = None
    _ends: dict[str, _Ends] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        each: int = 6,
        score: str | None = None,
        classes: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
    ) -> "Extremes":
        """Eyes for a model; the arguments are those of `examples`."""
        method = as_method(model.model if isinstance(model, Detector) else model)
        own = model.name if isinstance(model, Detector) else method.score
        name = own if score is None or score == own else str(score_spec(score))
        return cls(method, name, check_int("each", each), classes, features)

    def see(
        self, name: str, x: Tensor, logits: Tensor, y: Tensor | None, scores: dict[str, Tensor]
    ) -> None:
        """A batch of a set: inputs, logits `(S, B, C)`, labels or None, and such scores as are there already."""
        found = scores.get(self.score)
        if found is None:
            found = scores_of([score_spec(self.score)], self.method, x, logits)[self.score]
        ends = self._ends.setdefault(name, _Ends())
        numbers = torch.arange(ends.inputs, ends.inputs + len(x))
        # labels of other data count other classes
        labels = torch.full((len(x),), -1) if y is None or name != KNOWN else as_int64(y)
        parts = (x, numbers, given_classes(logits), labels, self.method.confidence(logits), found)
        ends.add(_Kept(*(part.detach().cpu() for part in parts)), self.each)

    def record(self, known: str, seed: int, seconds: float) -> Examples:
        """What was seen, the known data under the name given."""
        if KNOWN not in self._ends:
            raise NescioError("examples are those of known data, too; none were seen")
        first = self._ends[KNOWN].surest
        names, left_out = self._features(first.x if first is not None else torch.empty(0))
        return Examples(
            method=self.method.name,
            score=self.score,
            features=names,
            left_out=left_out,
            known=self._set(known or KNOWN, self._ends[KNOWN]),
            unknown=tuple(
                self._set(name, ends) for name, ends in self._ends.items() if name != KNOWN
            ),
            provenance=Provenance.now(seed, {"each": self.each}, seconds),
        )

    def _features(self, x: Tensor) -> tuple[tuple[str, ...], int]:
        """Names of the features that are kept of a table, and how many are not."""
        if x.dim() != 2:
            return (), 0
        width = x.shape[1]
        names = (
            [f"feature {i}" for i in range(width)]
            if self.features is None
            else list(map(str, self.features))
        )
        if len(names) != width:
            raise NescioError(
                f"{len(names)} names for features were given, but inputs have {width}"
            )
        return tuple(names[:FEATURES]), max(0, width - FEATURES)

    def _set(self, name: str, ends: _Ends) -> ExampleSet:
        surest, unsure = (
            [] if kept is None else self._examples(kept) for kept in (ends.surest, ends.unsure)
        )
        unsure.reverse()
        if (
            ends.inputs < 2 * self.each
        ):  # a small set: what stands at one end is not shown at the other, too
            half = (ends.inputs + 1) // 2
            surest, unsure = surest[:half], unsure[: ends.inputs - half]
        return ExampleSet(name, ends.inputs, tuple(surest), tuple(unsure))

    def _examples(self, kept: _Kept) -> list[Example]:
        columns = (kept.numbers, kept.answers, kept.labels, kept.confidence, kept.scores)
        return [
            Example(
                number,
                self._called(answer),
                self._called(label) if label >= 0 else None,
                round(sure, 6),
                score,
                *_picture(x),
                _values(x),
            )
            for x, number, answer, label, sure, score in zip(
                kept.x, *(c.tolist() for c in columns), strict=True
            )
        ]

    def _called(self, label: int) -> str:
        if self.classes is None:
            return str(label)
        if label >= len(self.classes):
            raise NescioError(
                f"names for {len(self.classes)} classes were given, but there is a class {label}"
            )
        return str(self.classes[label])


def _picture(x: Tensor) -> tuple[Image | None, tuple[float, ...] | None]:
    """An input as a small image in [0, 1], and the span it was stretched from if it left that; None of no image."""
    if x.dim() != 3 or x.shape[0] not in (1, 3):
        return None, None
    x, span = x.double(), None
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        span = (low, high)
        x = (x - low) / ((high - low) or 1.0)
    height, width = (min(side, SIDE) for side in x.shape[1:])
    small = F.adaptive_avg_pool2d(x, (height, width)).clamp(0, 1)
    rows = tuple(
        tuple(tuple(round(pixel, 3) for pixel in row) for row in channel)
        for channel in small.tolist()
    )
    return rows, span


def _values(x: Tensor) -> tuple[float, ...] | None:
    """The first features of a table's row, to six digits; None of an image."""
    return tuple(float(f"{value:.6g}") for value in x[:FEATURES].tolist()) if x.dim() == 1 else None
