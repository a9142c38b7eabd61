"""The inputs a model is most and least certain of, known and unknown → an `Examples` record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.logits import classes as predicted_classes
from nescio.core.predict import map_batches
from nescio.data.batches import as_int64
from nescio.detectors import Detector
from nescio.errors import NescioError, check_int
from nescio.evaluation.unknown_sets import KNOWN, AttackFailedError, made_set, named_sets
from nescio.methods import as_method
from nescio.methods.method import Method
from nescio.records import Example, Examples, ExampleSet, Image, Provenance, Stopwatch
from nescio.scores import ScoreLike, ScoreSpec, score_spec, scores_of

MAX_PIXELS = 32  # along a side of a kept image; larger ones are averaged down
MAX_FEATURES = 64  # of a table that are kept


def examples(
    model: nn.Module,
    known: Any,
    unknown: Mapping[str, Any] | Sequence[str] | None = None,
    *,
    each: int = 6,
    score: ScoreLike | None = None,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    attacked: int = 1000,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Examples:
    """Find the inputs at both ends of a score; data are streamed, and only those few are kept.

    Args:
        model: a method, a bare network, or a detector, whose own score is then used.
        known: data of the known classes; with labels, to mark wrong answers.
        unknown: unknown data, as in `evaluate`.
        each: number of inputs at each end; a set with fewer than twice as many is divided.
        score: a score, as in `Threshold`; by default the one the method's paper pairs with it.
        classes: names of the classes, such as `known.classes`; by default numbers.
        features: names of a table's features; by default numbers.
        attacked: number of inputs that are attacked; without a success a set is left out.
        batch_size, seed, progress: as in `predict`.

    >>> record = examples(net, known.test, ["far"], each=2, classes=known.classes)
    >>> len(record.known.surest), len(record.unknown[0].unsure)
    (2, 2)
    """
    stopwatch = Stopwatch()
    sets, attacked = named_sets(unknown), check_int("attacked", attacked)
    extremes = Extremes.of(model, each, score, classes, features)
    how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    _run(extremes, model, KNOWN, known, how)
    for name, data in sets.items():
        try:
            if isinstance(data, str):
                data = made_set(data, extremes.method, known, attacked, **how)[0]
        except AttackFailedError:
            continue
        _run(extremes, model, name, data, how)
    return extremes.record(getattr(known, "name", ""), seed, stopwatch.seconds)


def _run(extremes: "Extremes", model: nn.Module, name: str, data: Any, how: dict[str, Any]) -> None:
    """One pass over a set."""
    detector = model if isinstance(model, Detector) and extremes.spec is None else None

    def on_batch(x: Tensor, forward_pass: ForwardPass, y: Tensor | None) -> None:
        score = {} if detector is None else {detector.name: detector.finite_scores(x, forward_pass)}
        extremes.see(name, x, forward_pass.logits.to(x.device), y, score)

    step = forward_with_features if detector is None else detector.forward_with_features
    network = extremes.method if detector is None else detector.model
    map_batches(step, network, data, on_batch, "examples", **how)


@dataclass(frozen=True)
class _Inputs:
    """Inputs `(K, …)`, and of each `(K,)`: number, answer, label or −1, confidence, score."""

    x: Tensor
    numbers: Tensor
    answers: Tensor
    labels: Tensor
    confidence: Tensor
    scores: Tensor

    def at(self, index: Tensor) -> "_Inputs":
        return _Inputs(*(value[index] for value in vars(self).values()))

    def with_(self, other: "_Inputs") -> "_Inputs":
        return _Inputs(*map(torch.cat, zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass
class _Ends:
    """Both ends of one set so far, in ascending order; of equals the first is more certain."""

    inputs: int = 0
    surest: _Inputs | None = None
    unsure: _Inputs | None = None

    def add(self, batch: _Inputs, each: int) -> None:
        """Look at a batch, the next in order."""
        self.inputs += len(batch.scores)
        low = batch if self.surest is None else self.surest.with_(batch)
        self.surest = low.at(low.scores.sort(stable=True).indices[:each])
        high = batch if self.unsure is None else self.unsure.with_(batch)
        self.unsure = high.at(high.scores.sort(stable=True).indices[-each:])


@dataclass
class Extremes:
    """Keeps the few inputs at both ends of a score: `evaluate(…, watch=extremes.see)`."""

    method: Method
    score: str
    each: int
    classes: Sequence[str] | None = None
    features: Sequence[str] | None = None
    spec: ScoreSpec | None = None  # None if a detector brings the score
    _ends: dict[str, _Ends] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        each: int = 6,
        score: ScoreLike | None = None,
        classes: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
    ) -> "Extremes":
        """For a model; the arguments are those of `examples`."""
        method = as_method(model.model if isinstance(model, Detector) else model)
        spec, name = None, model.name if isinstance(model, Detector) else ""
        if not name or score not in (None, name):
            spec = score_spec(method.score if score is None else score)
            name = str(spec)
        return cls(method, name, check_int("each", each), classes, features, spec)

    def see(
        self, name: str, x: Tensor, logits: Tensor, y: Tensor | None, scores: dict[str, Tensor]
    ) -> None:
        """Look at a batch of a set: inputs, logits `(S, B, C)`, labels, and scores at hand."""
        score = scores.get(self.score)
        if score is None:
            spec = self.spec or score_spec(self.score)
            score = scores_of([spec], self.method, x, logits)[self.score]
        ends = self._ends.setdefault(name, _Ends())
        numbers = torch.arange(ends.inputs, ends.inputs + len(x))
        # labels of unknown data are numbers of other classes
        labels = torch.full((len(x),), -1) if y is None or name != KNOWN else as_int64(y)
        confidence = self.method.confidence(logits)
        parts = (x, numbers, predicted_classes(logits), labels, confidence, score)
        ends.add(_Inputs(*(part.detach().cpu() for part in parts)), self.each)

    def record(self, known: str, seed: int, seconds: float) -> Examples:
        """Return what was seen, the known data under the name given."""
        sets = dict(self._ends)
        ends = sets.pop(KNOWN, None)
        if ends is None or ends.surest is None:
            raise NescioError("examples need known data, but none were seen")
        names, left_out = self._feature_names(ends.surest.x)
        return Examples(
            method=self.method.name,
            score=self.score,
            features=names,
            left_out=left_out,
            known=self._set(known or KNOWN, ends),
            unknown=tuple(self._set(name, of_set) for name, of_set in sets.items()),
            provenance=Provenance.now(seed, {"each": self.each}, seconds),
        )

    def _feature_names(self, x: Tensor) -> tuple[tuple[str, ...], int]:
        """Names of the features that are kept of a table, and how many are not."""
        if x.dim() != 2:
            return (), 0
        width = x.shape[1]
        names = [f"feature {i}" for i in range(width)] if self.features is None else self.features
        if len(names) != width:
            raise NescioError(f"got {len(names)} feature names, but inputs have {width} features")
        return tuple(map(str, names[:MAX_FEATURES])), max(0, width - MAX_FEATURES)

    def _set(self, name: str, ends: _Ends) -> ExampleSet:
        surest, unsure = self._examples(ends.surest), self._examples(ends.unsure)[::-1]
        if ends.inputs < 2 * self.each:  # then no input is shown at both ends
            half = (ends.inputs + 1) // 2
            surest, unsure = surest[:half], unsure[: ends.inputs - half]
        return ExampleSet(name, ends.inputs, tuple(surest), tuple(unsure))

    def _examples(self, inputs: _Inputs | None) -> list[Example]:
        if inputs is None:
            return []
        x, *columns = vars(inputs).values()
        rows = zip(x, *(column.tolist() for column in columns), strict=True)
        return [
            Example(
                number,
                self._class_name(answer),
                self._class_name(label) if label >= 0 else None,
                round(confidence, 6),
                score,
                *_picture(x),
                _values(x),
            )
            for x, number, answer, label, confidence, score in rows
        ]

    def _class_name(self, label: int) -> str:
        if self.classes is None:
            return str(label)
        if label >= len(self.classes):
            raise NescioError(
                f"got names for {len(self.classes)} classes, but there is a class {label}"
            )
        return str(self.classes[label])


def pixels(image: Tensor) -> Image:
    """Return an image as plain numbers of three digits."""
    rows = ((tuple(round(v, 3) for v in row) for row in channel) for channel in image.tolist())
    return tuple(map(tuple, rows))


def _picture(x: Tensor) -> tuple[Image | None, tuple[float, ...] | None]:
    """An input as a small image in [0, 1], and the range it was rescaled from if it left that."""
    if x.dim() != 3 or x.shape[0] not in (1, 3):
        return None, None
    x, span = x.double(), None
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        span = (low, high)
        x = (x - low) / ((high - low) or 1.0)
    height, width = (min(side, MAX_PIXELS) for side in x.shape[1:])
    return pixels(F.adaptive_avg_pool2d(x, (height, width)).clamp(0, 1)), span


def _values(x: Tensor) -> tuple[float, ...] | None:
    """The first features of a table's row, to six digits; None of an image."""
    if x.dim() != 1:
        return None
    return tuple(float(f"{value:.6g}") for value in x[:MAX_FEATURES].tolist())
