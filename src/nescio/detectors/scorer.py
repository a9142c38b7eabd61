"""A score over a model's forward pass: a detector without its threshold; and calibration scores."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from nescio.arrays import is_array
from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.logits import classes, warn_of_probabilities
from nescio.core.model_state import check_model
from nescio.core.predict import OnBatch, map_batches
from nescio.data.arrays import tensor
from nescio.data.batches import as_int64, check_labels
from nescio.errors import NescioError
from nescio.guarantees.rounding import noise
from nescio.guarantees.rules import NO_LABELS, CalibrationScores

REPEATED, SINGLE = 8, 3  # inputs to score again: the first ones singly, the others in one batch
SAME = 1e-3  # logits that differ by less, relative to the largest, are equal but for rounding


class Scorer(nn.Module, ABC):
    """Scores inputs by what a model makes of them; a subclass brings `score_batch`.

    What it learns are buffers whose names end in an underscore, NaN or empty before a fit. Casting
    the module leaves their dtype, which is that of the scores.

    Attributes:
        shapes: axes of the buffers that vary in size, a letter each; a file is refused unless the
            same letter has the same size in all of them. `F` is the features' width and `C` the
            number of classes, also of thresholds per class; a `FeatureDetector` checks both against
            its model. Axes that end in `FF` must hold whitening matrices. Other letters are free.
    """

    name: ClassVar[str]  # as in DETECTORS
    requires_grad: ClassVar[bool | None] = None  # of weights while it runs the model; None: as is
    shapes: ClassVar[dict[str, str]] = {}
    layers: tuple[str, ...] = ()  # whose features it needs; HEAD: the last linear layer's input
    progress: bool | None = None  # whether to show a bar; by default only on a terminal
    input_dims_: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        check_model(model)
        self.model, self.batch_size = model, 256

    @abstractmethod
    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        """Return scores `(B,)` of finite inputs and logits; higher = more likely unknown (OOD)."""

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments beside the model, kept as attributes, for files."""
        _, *names = inspect.signature(type(self)).parameters
        return {name: vars(self)[name] for name in names if name in vars(self)}

    def shown_settings(self) -> dict[str, Any]:
        """Return the settings that a repr shows."""
        return self.settings()

    def check_savable(self) -> None:
        """Raise an error if a file cannot hold the settings."""

    def score(self, data: Any, batch_size: int = 256) -> Tensor:
        """Return scores `(N,)` of finite inputs; of a single one without a batch axis `()`."""
        scores: list[Tensor] = []
        rows, single = add_batch_axis(data, self.input_dims_)
        self.map_batches(rows, lambda x, p, _: scores.append(self.finite_scores(x, p)), batch_size)
        return torch.cat(scores)[0] if single else torch.cat(scores)

    forward = score

    def finite_scores(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        """Return the scores of a batch; raise an error if they or the logits are not finite."""
        if not forward_pass.logits.isfinite().all():
            raise NescioError("the model's output for some inputs is NaN or infinite: no score")
        scores = self.score_batch(x, forward_pass).to(x.device)
        if not scores.isfinite().all():
            raise NescioError(f"{type(self).__name__} gives NaN or infinite scores for some inputs")
        return scores

    def forward_with_features(self, model: nn.Module, x: Tensor) -> ForwardPass:
        """Run the model on a batch on its device, for logits and the features that are needed."""
        return forward_with_features(model, x, self.layers)

    def map_batches(
        self, data: Any, on_batch: OnBatch[ForwardPass], batch_size: int | None = None, **how: Any
    ) -> None:
        """Run over data once; `on_batch(x, forward_pass, y)` gets inputs, pass, labels or None."""
        options = {"progress": self.progress, "requires_grad": self.requires_grad} | how
        size = self.batch_size if batch_size is None else batch_size
        step = self.forward_with_features
        map_batches(step, self.model, data, on_batch, self.name, batch_size=size, **options)

    def keep(self, **learned: Tensor) -> None:
        """Hold learned tensors as buffers, which are saved and moved with the rest."""
        device = next((buffer.device for buffer in self.buffers(recurse=False)), None)
        for name, value in learned.items():
            self.register_buffer(name, value.detach().to(device))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        learned = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in learned.items():
            moved = self._buffers[name]
            if value is not None and moved is not None:
                self._buffers[name] = value.to(moved.device)
        return self


def add_batch_axis(data: Any, input_dims: Tensor) -> tuple[Any, bool]:
    """Return data with an axis of inputs, and whether it is a single input that had none."""
    single = is_array(data) and bool(np.ndim(data) == input_dims)
    return (tensor(data)[None], True) if single else (data, False)


def calibration_scores(
    scorer: Scorer, data: Any, needs_labels: bool = False, note: str = ""
) -> tuple[CalibrationScores, int]:
    """Return scores of calibration data, correct answers if needed, and an input's dimensions."""
    scores: list[Tensor] = []
    predicted: list[Tensor] = []
    correct: list[Tensor] = []
    first: list[tuple[Tensor, Tensor]] = []
    outputs: list[Tensor] = []
    count = dims = 0

    def on_batch(x: Tensor, forward_pass: ForwardPass, y: Tensor | None) -> None:
        nonlocal count, dims
        logits = forward_pass.logits
        if needs_labels:
            correct.append(correct_answers(logits, y).to(x.device))
        scores.append(scorer.finite_scores(x, forward_pass))
        predicted.append(classes(logits).to(x.device))
        if logits.shape[2] == 2 or not first:  # of more classes a batch shows probabilities
            outputs.append(logits)
        if not first:
            first.append((x[:REPEATED], logits[:, :REPEATED]))
        count, dims = logits.shape[2], x.dim() - 1

    scorer.map_batches(data, on_batch)
    warn_of_probabilities(torch.cat(outputs, 1))
    values = torch.cat(scores)
    before = scores[0][:REPEATED]
    measured = noise(_changes(scorer, *first[0], before), before, values)
    labels = torch.cat(correct) if needs_labels else None
    return CalibrationScores(values, torch.cat(predicted), labels, count, note, measured), dims


def correct_answers(logits: Tensor, labels: Tensor | None) -> Tensor:
    """Return which inputs `(B,)` got the class of their label, which must be a known one."""
    if labels is None:
        raise NescioError(NO_LABELS)
    labels = as_int64(labels).to(logits.device)
    check_labels(labels, logits.shape[2])
    return classes(logits) == labels


def _changes(scorer: Scorer, x: Tensor, logits: Tensor, before: Tensor) -> Tensor:
    """Return how much scores change in other batches; 0 if the logits do, as those of draws."""
    scores: list[Tensor] = []
    others: list[Tensor] = []

    def on_batch(x: Tensor, forward_pass: ForwardPass, _: Tensor | None) -> None:
        scores.append(scorer.finite_scores(x, forward_pass))
        others.append(forward_pass.logits)

    try:
        scorer.map_batches([*torch.split(x[:SINGLE], 1), x[SINGLE:]], on_batch, progress=False)
    except NescioError as error:
        if len(scores) < SINGLE and len(x) > 1:
            raise NescioError(
                f"the model answers {len(x)} inputs, but not one alone: {error}. New inputs may "
                "come singly; a batch norm needs running statistics for that (track_running_stats)"
            ) from error
        raise
    if (torch.cat(others, 1) - logits).abs().max() > SAME * logits.abs().max():
        return torch.zeros_like(before)
    return (torch.cat(scores) - before).abs()
