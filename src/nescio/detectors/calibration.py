"""What a detector makes of held-out known data, and how much of that other batches would change."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.core.logits import classes
from nescio.detectors.level import CalibrationScores, right_answers
from nescio.errors import NescioError
from nescio.guarantees.rounding import noise

if TYPE_CHECKING:
    from nescio.detectors.detector import Detector

COMPARED, ALONE = (
    8,
    3,
)  # inputs that are scored again: some one by one, the others in a batch of their own
SAME = 1e-3  # logits that differ by less, as a share of the largest, are the same but for rounding


def calibration_scores(
    detector: "Detector", known: Any, judge: bool = False, aside: str = ""
) -> CalibrationScores:
    """The scores of held-out data, the model's classes and, if asked for, which of them are right by the labels."""
    parts: list[tuple[Tensor, Tensor, Tensor | None]] = []
    first: tuple[Tensor, Tensor, Tensor] | None = None
    count = dims = 0

    def on_batch(x: Tensor, seen: ForwardPass, y: Tensor | None) -> None:
        nonlocal first, count, dims
        right = right_answers(seen.logits, y).to(x.device) if judge else None
        parts.append((detector.of_batch(x, seen), classes(seen.logits).to(x.device), right))
        first = (
            (x[:COMPARED], seen.logits[:, :COMPARED], parts[0][0][:COMPARED])
            if first is None
            else first
        )
        count, dims = seen.logits.shape[2], x.dim() - 1

    detector.map_batches(known, on_batch)
    detector.keep(input_dims_=torch.tensor(dims))
    scores, claimed, right = zip(*parts, strict=True)
    told = (
        None
        if any(one is None for one in right)
        else torch.cat([one for one in right if one is not None])
    )
    every = torch.cat(scores)
    detector.check_held(every)
    moved = 0.0 if first is None else noise(_changes(detector, *first), first[2], every)
    return CalibrationScores(every, torch.cat(claimed), told, count, aside, moved)


def _changes(detector: "Detector", x: Tensor, logits: Tensor, scores: Tensor) -> Tensor:
    """How much scores of a few inputs change in other batches; 0 if the model answers others there, as draws do."""
    parts: list[tuple[Tensor, Tensor]] = []

    def on_batch(x: Tensor, seen: ForwardPass, _: Tensor | None) -> None:
        parts.append((detector.of_batch(x, seen), seen.logits))

    try:
        detector.map_batches([*torch.split(x[:ALONE], 1), x[ALONE:]], on_batch, progress=False)
    except NescioError as error:
        if len(parts) < ALONE and len(x) > 1:
            raise NescioError(
                f"the model answers {len(x)} inputs, but not one alone: {error}. New inputs may come one "
                "by one; a batch norm needs its running statistics for that (track_running_stats)"
            ) from error
        raise
    again, others = torch.cat([own for own, _ in parts]), torch.cat([own for _, own in parts], 1)
    if (others - logits).abs().max() > SAME * logits.abs().max():
        return torch.zeros_like(scores)
    return (again - scores).abs()
