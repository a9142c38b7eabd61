"""Answers of a fitted detector: the class of each input, or −1 = "I do not know", and why."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nescio.arrays import items
from nescio.core.features import ForwardPass
from nescio.core.forward import UnknownTokenError, check_inputs, like_model
from nescio.core.logits import LARGEST, classes
from nescio.core.predict import read, running
from nescio.detectors.scorer import Scorer
from nescio.errors import NescioError
from nescio.guarantees.conformal import Calibrated
from nescio.methods import as_method
from nescio.metrics.percent import percent
from nescio.records.detector import UNCOVERED

UNKNOWN = -1  # the answer "I do not know", and the label of unknown inputs
MAX_SHOWN = 6  # items of a list in a repr
Step = Callable[[Tensor], ForwardPass]


class Answers(NamedTuple):
    """Of a batch, `(N,)` each; an input that is not finite has the class −1 and the p-value 0."""

    answer: Tensor
    predicted: Tensor  # the model's classes
    score: Tensor
    p_value: Tensor
    confidence: Tensor


def answer_all(scorer: Scorer, data: Any, batch_size: int, calibrated: Calibrated) -> Answers:
    """Answer data, batch by batch."""
    with running(scorer.model, requires_grad=scorer.requires_grad) as runner:
        step = partial(runner, scorer.forward_with_features)
        batches = (x for x, _ in read(data, batch_size))
        parts = [answer_batch(scorer, step, x, calibrated) for x in batches]
    return Answers(*(torch.cat(part) for part in zip(*parts, strict=True)))


def answer_batch(scorer: Scorer, step: Step, x: Tensor, calibrated: Calibrated) -> Answers:
    """Answer a batch; `step` runs the model on inputs that are on its device."""
    model = scorer.model
    answer = torch.full((len(x),), UNKNOWN, device=x.device)
    predicted = answer.clone()
    scores, confidence = torch.full((2, len(x)), torch.nan, dtype=torch.float64, device=x.device)
    # without a score it is more unusual than all calibration data: no `p < 0.05` may accept it
    p = torch.zeros_like(scores)
    # as the model gets them: what is finite may be too large for its dtype
    ready = like_model(x, model)
    rows = ready.isfinite().flatten(1).all(1).nonzero().flatten()
    rows, forward_pass = _forward_rows(model, step, ready, rows)
    if forward_pass is not None:
        finite = (forward_pass.logits.abs() < LARGEST).all(2).all(0)
        rows = rows[finite.to(rows.device)].to(x.device)
    if forward_pass is not None and len(rows):
        forward_pass = forward_pass.select(finite)
        logits = forward_pass.logits
        score = scorer.score_batch(x[rows], forward_pass).to(scores)
        label = classes(logits).to(x.device)
        scores[rows], predicted[rows] = score, label
        confidence[rows] = as_method(model).confidence(logits).to(confidence)
        accepted = score <= calibrated.thresholds(label, logits.shape[2])
        answer[rows] = torch.where(accepted, label, UNKNOWN)
        p[rows] = calibrated.p_values(score, label).where(~score.isnan(), 0.0)
    return Answers(answer, predicted, scores, p, confidence)


def _forward_rows(
    model: nn.Module, step: Step, x: Tensor, rows: Tensor
) -> tuple[Tensor, ForwardPass | None]:
    """Return those of the rows that the model can be run on, and their forward pass, if any."""
    if not len(rows):
        return rows, None
    check_inputs(x[rows], model)
    try:
        return rows, step(x[rows])
    except UnknownTokenError as error:
        known = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        known[error.rows] = False
        return _forward_rows(model, step, x, rows[known])


@dataclass(frozen=True)
class Explanation:
    """What a detector answers about one input, and why.

    Attributes:
        answer: the class, or −1 = "I do not know".
        predicted: the model's class, or −1 if it has none, as for inputs that are not finite.
        confidence: of the model.
        score: higher = more likely unknown (OOD).
        threshold: largest score of an accepted input.
        p_value: the fraction of known calibration inputs that score at least as high.
        verdict: all that in words.
    """

    answer: int
    predicted: int
    confidence: float
    score: float
    threshold: float
    p_value: float
    verdict: str = ""

    def __str__(self) -> str:
        return self.verdict


def explanations(
    answers: Answers, threshold: Tensor, class_names: Sequence[str] | None
) -> list[Explanation]:
    """Return what is known about each input, in words with class names if they are given."""
    answers = Answers(*(part.reshape(-1) for part in answers))
    threshold = threshold.to(answers.predicted.device)
    each = threshold[answers.predicted.clamp(min=0)] if threshold.dim() else threshold
    names = None if class_names is None else [str(n) for n in items("classes", class_names)]
    answer, predicted, score, p, confidence = answers
    columns = (answer, predicted, confidence, score, each.expand(len(score)), p)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    explained, per_class = [Explanation(*row) for row in rows], threshold.dim() > 0
    return [replace(each, verdict=_verdict(each, names, per_class)) for each in explained]


def _verdict(row: Explanation, names: Sequence[str] | None, per_class: bool) -> str:
    if names is not None and row.predicted >= len(names):
        raise NescioError(f"got names for {len(names)} classes, but no name for {row.predicted}")
    if row.predicted < 0 or math.isnan(row.score):
        return "I do not know: the input or its output is not finite, or it holds an unknown word."
    label = f"class {row.predicted}" if names is None else repr(names[row.predicted])
    known = f"known inputs predicted as {label}" if per_class else "known inputs"
    rank = f"{percent(row.p_value)} of {known} score at least as high"
    if row.answer < 0:
        return (
            f"I do not know: the score {row.score:.4g} is above the threshold {row.threshold:.4g}; "
            f"{rank}. The model alone predicts {label}, with confidence {percent(row.confidence)}."
        )
    return f"{label[0].upper()}{label[1:]}, with confidence {percent(row.confidence)}; {rank}."


def description(
    title: str, settings: Mapping[str, Any], calibrated: Calibrated, promise: str | None
) -> str:
    """Return a detector's settings, threshold and guarantee in a few lines, for `print`."""
    words = ", ".join(f"{k}={_short(v)}" for k, v in settings.items() if v is not None)
    title, threshold = title.format(words), calibrated.threshold
    if threshold.isnan().any():
        return f"{title}\n  not fitted: call .fit(calibration) to set its threshold"
    several = threshold.dim() > 0
    shown = f"{len(threshold)} thresholds, one per class" if several else f"threshold {threshold:g}"
    lines = [
        title,
        f"{shown}, set by {len(calibrated.scores)} calibration inputs",
        f"Guarantee (exchangeable inputs): {promise or 'not stored in its file'}",
        f"{UNCOVERED}. Measure it: nescio.decide(detector, known_test, {{name: unknown}})",
    ]
    return "\n  ".join(lines)


def _short(value: Any) -> str:
    many = isinstance(value, list | tuple) and len(value) > MAX_SHOWN
    return f"<{len(value)}>" if many else repr(value)
