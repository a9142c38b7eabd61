"""What a fitted detector's threshold promised, and what it did with test data → a `Decision` record."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import betabinom
from torch import Tensor

from nescio.data.labelled import whole
from nescio.detectors import Detector
from nescio.detectors.conformal import rank_of
from nescio.detectors.threshold import Threshold
from nescio.errors import NescioError
from nescio.methods import as_method
from nescio.named_sets import named_sets
from nescio.predict import read
from nescio.records import Decision, Provenance, RefusedSet

USUAL = 0.95  # of cases that a share which chance gives lies between the two bounds


def decide(
    detector: Detector,
    known: Any,
    unknown: Mapping[str, Any] | None = None,
    *,
    batch_size: int = 256,
) -> Decision:
    """Let a fitted detector decide on test data, and set that beside its promise.

    Args:
        detector: fitted; one that was loaded has forgotten what it promised, but not its threshold.
        known: inputs of the kinds the model knows, that nothing was trained or fitted on; with labels, to tell how many
            answers are right.
        unknown: named data of other kinds; labels are passed over.
        batch_size: inputs at a time; a loader has its own.
    """
    started = time.monotonic()
    if not isinstance(detector, Detector):
        raise NescioError(f"decide takes a fitted detector, not {type(detector).__name__}; see nescio.Threshold")
    sets = named_sets(unknown)
    if names := [name for name, data in sets.items() if isinstance(data, str)]:
        raise NescioError(f"unknown data {names[0]!r} is a name; decide takes the data themselves")
    own = _decided(detector, known, batch_size)
    others = {name: _decided(detector, data, batch_size) for name, data in sets.items()}
    level = detector.level
    accept = None if level is None else level.accept
    return Decision(
        method=as_method(detector.model).name,
        detector=detector.score_name if isinstance(detector, Threshold) else detector.name,
        settings=detector.settings(),
        promise=None if level is None else level.promise(detector.controlled),
        accept=accept,
        bound=None if accept is None else _bound(detector, accept),
        risk=None if level is None else level.risk,
        confidence=None if level is None or level.risk is None else level.confidence,
        thresholds=tuple(detector.threshold_.reshape(-1).tolist()),
        calibrated=len(detector.calibration_),
        known=getattr(known, "name", "") or "known",
        inputs=own.inputs,
        accepted=own.accepted / own.inputs,
        usual=None if accept is None else _usual(detector, accept, own.inputs),
        accuracy=None if own.right is None else own.right / own.inputs,
        accepted_accuracy=None if own.right_accepted is None or not own.accepted else own.right_accepted / own.accepted,
        unknown=tuple(RefusedSet(name, one.inputs, 1 - one.accepted / one.inputs) for name, one in others.items()),
        provenance=Provenance.now(0, {"batch_size": batch_size}, time.monotonic() - started),
    )


@dataclass(frozen=True)
class _Counts:
    """Of one set: inputs, those accepted, and of labelled ones the right answers, to all and to those accepted."""

    inputs: int
    accepted: int
    right: int | None
    right_accepted: int | None


def _decided(detector: Detector, data: Any, batch_size: int) -> _Counts:
    """One pass over a set, of which nothing but counts is kept."""
    inputs = accepted = right = right_accepted = 0
    labelled = True
    for x, y in read(data, batch_size):
        answers, claimed = _answers(detector, x)
        taken = answers >= 0
        inputs, accepted = inputs + len(x), accepted + int(taken.sum())
        labelled = labelled and y is not None
        if y is not None:
            well = claimed == whole(y).cpu()
            right, right_accepted = right + int(well.sum()), right_accepted + int((well & taken).sum())
    return _Counts(inputs, accepted, right if labelled else None, right_accepted if labelled else None)


def _answers(detector: Detector, x: Tensor) -> tuple[Tensor, Tensor]:
    """Of a batch `(B,)` each: the class or −1, and the class that the model alone would give."""
    found = detector.explain(x, batch_size=len(x))
    return torch.tensor([one.answer for one in found]), torch.tensor([one.claimed for one in found])


def _bound(detector: Detector, accept: float) -> float:
    """The least probability with which a new known input is accepted: k / (n + 1), with many classes of the worst."""
    counts: list[int] = detector.calibration_class_.bincount().tolist() or [len(detector.calibration_)]
    return min(rank_of(n, accept) / (n + 1) for n in counts)


def _usual(detector: Detector, accept: float, inputs: int) -> tuple[float, float] | None:
    """Between which shares the accepted ones of so many inputs usually lie; None with thresholds per class.

    Scores without ties, exchangeable with those of the calibration, leave Beta(k, n + 1 − k) below the k-th of n.
    """
    if detector.threshold_.dim():
        return None
    n = len(detector.calibration_)
    k = rank_of(n, accept)
    low, high = betabinom(inputs, k, n + 1 - k).ppf([(1 - USUAL) / 2, (1 + USUAL) / 2])
    return float(low) / inputs, float(high) / inputs
