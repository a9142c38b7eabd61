"""What is fitted on known data, scores any input, and decides: a class, or −1 = "I do not know"."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from nescio.arrays import is_array, items
from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.model_state import check_model
from nescio.core.predict import OnBatch, map_batches
from nescio.data.arrays import tensor
from nescio.data.batches import halves
from nescio.data.overlap import check_disjoint
from nescio.detectors.answers import answered
from nescio.detectors.calibration import calibration_scores
from nescio.detectors.explanation import Explanation
from nescio.detectors.level import Level
from nescio.detectors.told import told
from nescio.errors import NescioError, check_int
from nescio.guarantees.risk import Controlled


class Detector(nn.Module, ABC):
    """A model with a sense of what it does not know.

    `fit(known)` learns a threshold from held-out known inputs; `score(data)` gives `(N,)` numbers, larger = less
    known; `predict(data)` gives the class, or −1 where the score is above the threshold, the input not finite, or a
    word in it unknown to the model.
    A subclass brings `evidence`; `layers`, if that needs features; `learn`, if there is more to learn than a threshold.
    What it learns are buffers whose names end in an underscore, NaN or empty before; `shapes` has a letter for each
    axis of those that vary in size.

    Attributes:
        threshold_: what is accepted is at or below it; one number, or one for each class.
        calibration_: sorted scores of the held-out data, as large as they may come out in another batch, which p-values
            are read from.
        calibration_class_: the class the model gave each of them, if thresholds are per class; else empty.
        layers: names of the layers whose features are needed; HEAD for the input of the last linear one.
        controlled: how a bound on the risk was met by the last fit, or None.
        level: how the last fit settled the threshold, or None before one and after loading.
    """

    name: ClassVar[str]  # as in DETECTORS
    learns: ClassVar[bool] = (
        False  # whether it must learn from data other than those its threshold is settled on
    )
    requires_grad: ClassVar[bool | None] = (
        None  # what weights are set to as it looks, or None to leave them
    )
    layers: tuple[str, ...] = ()
    progress: bool | None = None  # whether a pass shows a bar; by default only on a terminal
    shapes: ClassVar[dict[str, str]] = {}  # such as {"means_": "CF", "factor_": "FF"}
    threshold_: Tensor
    calibration_: Tensor
    calibration_class_: Tensor
    input_dims_: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        check_model(model)
        self.model = model
        self.batch_size = 256  # of a fit
        self.controlled: Controlled | None = None
        self.level: Level | None = None
        self.register_buffer("threshold_", torch.tensor(math.nan, dtype=torch.float64))
        self.register_buffer("calibration_", torch.empty(0, dtype=torch.float64))
        self.register_buffer("calibration_class_", torch.empty(0, dtype=torch.long))
        self.register_buffer("input_dims_", torch.tensor(0))

    @abstractmethod
    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        """Scores `(B,)` of a batch of finite inputs and what the model made of them, with finite logits `(S, B, C)`."""

    def learn(self, data: Any) -> None:
        """What there is to learn from known data before the threshold, in one pass; many learn nothing more."""

    def set_aside(self, halved: bool) -> str:
        """What else known data were used for, if only half of them settle the threshold; for an error about too few."""
        return (
            " (as many were set aside to learn from; data for that, train or --train, spare it)"
            if halved
            else ""
        )

    def check_held(self, scores: Tensor) -> None:
        """An error if scores `(N,)` of held-out data can tell nothing; few have one."""

    def forward_with_features(self, model: nn.Module, x: Tensor) -> ForwardPass:
        """What the model makes of a batch on its device: logits, and such features as are needed."""
        return forward_with_features(model, x, self.layers)

    def map_batches(
        self,
        data: Any,
        on_batch: OnBatch[ForwardPass],
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> None:
        """One pass over data; `visit(x, seen, y)` gets each batch: inputs, what was made of them, labels or None."""
        shown = self.progress if progress is None else progress
        size = self.batch_size if batch_size is None else batch_size
        map_batches(
            self.forward_with_features,
            self.model,
            data,
            on_batch,
            self.name,
            batch_size=size,
            progress=shown,
            requires_grad=self.requires_grad,
        )

    def fit(
        self,
        known: Any,
        accept: float | None = None,
        *,
        train: Any = None,
        per_class: bool = False,
        balanced: bool = False,
        risk: float | None = None,
        confidence: float | None = None,
        batch_size: int = 256,
    ) -> Self:
        """Settle the threshold from held-out known data, in one of four ways.

        With `accept` new known inputs, exchangeable with these, are accepted with at least that probability, whatever
        the model: it counts how many of n + 1 ranks lie below (conformal prediction).

        Args:
            known: inputs of the kinds the model knows, which it was not trained on; with labels for the last two ways.
            accept: the share of known inputs to accept, in (0, 1); 0.95 if nothing else is asked for.
            train: what a detector learns from that learns more than a threshold, such as the model's training data;
                else half of `known`, by chance, is set aside for it.
            per_class: whether the share is to hold within each class that the model answers, by a threshold for each.
            balanced: tell right answers from wrong ones best, each side counting half (Oberdiek et al. 2018, eq. 7).
            risk: the error rate to allow among accepted inputs; the threshold with most coverage that keeps it with
                the `confidence`, 0.95 if not given, is taken (Geifman & El-Yaniv 2017).
            batch_size: inputs per forward pass; a loader has its own.
        """
        self.batch_size = check_int("batch_size", batch_size)
        level = Level.of(accept, per_class, balanced, risk, confidence)
        if self.learns:
            check_disjoint(known, train)
        self._forget()  # should it fail, nothing is half done
        halved = self.learns and train is None
        if halved:
            train, known = halves(known, batch_size=batch_size)
        if self.learns:
            self.learn(train)
        held = calibration_scores(self, known, level.judges, self.set_aside(halved))
        threshold, self.controlled = level.settle(held)
        self.level = level
        order = held.reached.argsort()
        own = held.claimed[order] if per_class else held.claimed[:0]
        learned = {
            "threshold_": threshold,
            "calibration_": held.reached[order],
            "calibration_class_": own,
        }
        self.keep(**learned)
        return self

    def _forget(self) -> None:
        """As before any fit, as far as thresholds go."""
        self.controlled = self.level = None
        self.keep(
            threshold_=torch.tensor(math.nan, dtype=torch.float64),
            calibration_=torch.empty(0, dtype=torch.float64),
            calibration_class_=torch.empty(0, dtype=torch.long),
        )

    def keep(self, **learned: Tensor) -> None:
        """Hold what was learned as buffers, which are saved and moved with the rest."""
        for name, value in learned.items():
            self.register_buffer(name, value.detach().to(self.threshold_.device))

    def score(self, data: Any, batch_size: int = 256) -> Tensor:
        """How unknown each input is, `(N,)`, larger = less known; NaN or infinite inputs are an error."""
        scores: list[Tensor] = []
        rows, alone = self.rows(data)
        self.map_batches(rows, lambda x, seen, _: scores.append(self.of_batch(x, seen)), batch_size)
        return torch.cat(scores)[0] if alone else torch.cat(scores)

    forward = score

    def of_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        """The scores of a batch, or an error if what the model made of it is not finite."""
        if not seen.logits.isfinite().all():
            raise NescioError(
                "the model's output for some inputs is NaN or infinite, so they have no score"
            )
        scores = self.score_batch(x, seen).to(x.device)
        if not scores.isfinite().all():
            raise NescioError(f"{type(self).__name__} gives NaN or infinite scores for some inputs")
        return scores

    def predict(self, data: Any, batch_size: int = 256) -> Tensor:
        """The class of each input, `(N,)`, or −1 = "I do not know"; of one input without an axis for it, `()`."""
        return answered(self, data, batch_size).answer

    def p_value(self, data: Any, batch_size: int = 256) -> Tensor:
        """The share of held-out inputs at least as odd as each input, `(N,)`, itself counted in; 0 of one not finite.

        Of a known input it is at most α with a probability of at most α. With thresholds per class it is the share of
        those that the model gives the same class.
        """
        return answered(self, data, batch_size).p_value

    def explain(
        self, data: Any, batch_size: int = 256, classes: Sequence[str] | None = None
    ) -> list[Explanation]:
        """What there is to say of each input: class, confidence, score, p-value, and the verdict in words.

        `classes` are names for them, such as `known.classes`; else words have numbers.
        """
        answers, claimed, scores, p, confidence = (
            part.reshape(-1) for part in answered(self, data, batch_size)
        )
        cut = self.threshold_.to(claimed.device)
        cuts = cut[claimed.clamp(min=0)] if cut.dim() else cut.expand(len(scores))
        names = None if classes is None else [str(one) for one in items("classes", classes)]
        called = [_called(label, names) for label in claimed.tolist()]
        columns = (part.tolist() for part in (answers, claimed, confidence, scores, cuts, p))
        return [
            Explanation.of(*row, of_class=bool(cut.dim()))
            for row in zip(*columns, called, strict=True)
        ]

    def rows(self, data: Any) -> tuple[Any, bool]:
        """Data with an axis of inputs, and whether it is one input that had none."""
        if is_array(data) and np.ndim(data) == self.input_dims_:
            return tensor(data)[None], True
        return data, False

    def __repr__(self) -> str:
        return told(self, self.settings())

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beside the model, as plain data for saved files."""
        return {}

    def letters(self, name: str, dims: int) -> Sequence[str] | None:
        """A letter for each axis of a buffer with so many that may have any size, or None if its size is settled."""
        if name == "threshold_":
            return "C" if dims == 1 else None
        return {"calibration_": "N", "calibration_class_": "M"}.get(name) or self.shapes.get(name)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves and casts as every module's, but for the digits of what was learned, which are those of the scores."""
        learned = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in learned.items():
            moved = self._buffers[name]
            if value is not None and moved is not None:
                self._buffers[name] = value.to(moved.device)
        return self


def _called(label: int, classes: Sequence[str] | None) -> str:
    """A class in words."""
    if classes is None or label < 0:
        return f"class {label}"
    if label >= len(classes):
        raise NescioError(
            f"names for {len(classes)} classes were given, but the model knows a class {label}"
        )
    return repr(classes[label])
