"""Scores of calibration data, and how much other batches would change them."""

from typing import Any

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.core.logits import classes
from nescio.data.batches import as_int64, check_labels
from nescio.detectors.scorer import Scorer
from nescio.errors import NescioError
from nescio.guarantees.rounding import noise
from nescio.guarantees.rules import NO_LABELS, CalibrationScores

REPEATED, SINGLE = 8, 3  # inputs to score again: the first ones singly, the others in one batch
SAME = 1e-3  # logits that differ by less, relative to the largest, are equal but for rounding


def calibration_scores(
    scorer: Scorer, data: Any, needs_labels: bool = False, note: str = ""
) -> tuple[CalibrationScores, int]:
    """Return scores of calibration data, correct answers if needed, and an input's dimensions."""
    scores: list[Tensor] = []
    predicted: list[Tensor] = []
    correct: list[Tensor] = []
    first: list[tuple[Tensor, Tensor]] = []
    count = dims = 0

    def on_batch(x: Tensor, forward_pass: ForwardPass, y: Tensor | None) -> None:
        nonlocal count, dims
        logits = forward_pass.logits
        if needs_labels:
            correct.append(correct_answers(logits, y).to(x.device))
        scores.append(scorer.finite_scores(x, forward_pass))
        predicted.append(classes(logits).to(x.device))
        if not first:
            first.append((x[:REPEATED], logits[:, :REPEATED]))
        count, dims = logits.shape[2], x.dim() - 1

    scorer.map_batches(data, on_batch)
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
