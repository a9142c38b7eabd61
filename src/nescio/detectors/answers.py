"""What a fitted detector answers: the class of each input, or −1 = "I do not know", and the evidence for it."""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from nescio.core.features import ForwardPass
from nescio.core.forward import UnknownTokenError, check_inputs, like_model
from nescio.core.logits import LARGEST, classes
from nescio.core.predict import Runner, read, running
from nescio.errors import NescioError
from nescio.guarantees.conformal import p_values
from nescio.methods import as_method

if TYPE_CHECKING:
    from nescio.detectors.detector import Detector

UNKNOWN = -1


class Answers(NamedTuple):
    """Of some inputs, `(N,)` each, or of one, `()` each; what is not finite has the class −1 and the p-value 0."""

    answer: Tensor
    claimed: Tensor  # the model's own classes
    score: Tensor
    p_value: Tensor
    confidence: Tensor


def answered(detector: "Detector", data: Any, batch_size: int) -> Answers:
    """All answers to data of any make, or to one input that has no axis for more."""
    if detector.threshold_.isnan().any():
        raise NescioError(
            f"{type(detector).__name__} has no threshold yet: call .fit(known) with held-out data first"
        )
    rows, alone = detector.rows(data)
    with running(detector.model, requires_grad=detector.requires_grad) as runner:
        parts = [_answers(detector, runner, x) for x, _ in read(rows, batch_size)]
    found = Answers(*(torch.cat(part) for part in zip(*parts, strict=True)))
    return Answers(*(part[0] for part in found)) if alone else found


def _answers(detector: "Detector", runner: Runner, x: Tensor) -> Answers:
    """Those to a batch."""
    answer = torch.full((len(x),), UNKNOWN, device=x.device)
    claimed = answer.clone()
    scores, confidence = torch.full((2, len(x)), torch.nan, dtype=torch.float64, device=x.device)
    p = torch.zeros_like(
        scores
    )  # what has no score is odder than all that is known: no `p < 0.05` may accept it
    # as the model would get them: what is finite may be too large for its type
    ready = like_model(x, detector.model)
    rows = ready.isfinite().flatten(1).all(1).nonzero().flatten()
    rows, seen = _seen(detector, runner, ready, rows)
    if seen is None:
        return Answers(answer, claimed, scores, p, confidence)
    fine = (seen.logits.abs() < LARGEST).all(2).all(0)
    if fine.any():
        own, seen = rows[fine.to(rows.device)].to(x.device), seen.select(fine)
        scores[own] = detector.score_batch(x[own], seen).to(scores)
        claimed[own] = classes(seen.logits).to(x.device)
        confidence[own] = as_method(detector.model).confidence(seen.logits).to(confidence)
        cut = _cuts(detector, claimed[own], seen.logits.shape[2])
        answer[own] = torch.where(scores[own] <= cut, claimed[own], UNKNOWN)
        p[own] = _p_values(detector, scores[own], claimed[own]).where(~scores[own].isnan(), 0.0)
    return Answers(answer, claimed, scores, p, confidence)


def _seen(
    detector: "Detector", runner: Runner, x: Tensor, rows: Tensor
) -> tuple[Tensor, ForwardPass | None]:
    """Those of the rows that the model can be run on, and what it makes of them; None if there are none."""
    if not len(rows):
        return rows, None
    check_inputs(x[rows], detector.model)
    try:
        return rows, runner(detector.forward_with_features, x[rows])
    except UnknownTokenError as error:
        known = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        known[error.rows] = False
        return _seen(detector, runner, x, rows[known])


def _cuts(detector: "Detector", claimed: Tensor, count: int) -> Tensor:
    """The threshold of each input by its class, of so many."""
    cut = detector.threshold_.to(claimed.device)
    if cut.dim() and len(cut) != count:
        raise NescioError(
            f"there are thresholds for {len(cut)} classes, but the model knows {count}"
        )
    return cut[claimed] if cut.dim() else cut.expand(len(claimed))


def _p_values(detector: "Detector", scores: Tensor, claimed: Tensor) -> Tensor:
    calibration = detector.calibration_.to(scores.device)
    if not len(detector.calibration_class_):
        return p_values(scores, calibration)
    of, found = detector.calibration_class_.to(scores.device), torch.empty_like(scores)
    for label in set(claimed.tolist()):
        found[claimed == label] = p_values(scores[claimed == label], calibration[of == label])
    return found
