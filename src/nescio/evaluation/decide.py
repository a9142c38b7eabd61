"""What a fitted detector's threshold promised, and what it did with test data → a `Decision` record."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import betabinom
from torch import Tensor

from nescio.core.logits import classes
from nescio.core.predict import read
from nescio.data.labelled import as_int64
from nescio.detectors import UNKNOWN, Detector
from nescio.detectors.threshold import Threshold
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import KNOWN, named_sets
from nescio.guarantees import Accept, ControlRisk
from nescio.guarantees.conformal import rank_of
from nescio.methods import as_method
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
        raise NescioError(
            f"decide takes a fitted detector, not {type(detector).__name__}; see nescio.Threshold"
        )
    sets = named_sets(unknown)
    if names := [name for name, data in sets.items() if isinstance(data, str)]:
        raise NescioError(f"unknown data {names[0]!r} is a name; decide takes the data themselves")
    tally = Tally(detector)
    for name, data in {KNOWN: known, **sets}.items():
        for x, y in read(data, batch_size):
            tally.add(name, *_answers(detector, x), y if name == KNOWN else None)
    return tally.record(
        getattr(known, "name", ""), {"batch_size": batch_size}, time.monotonic() - started
    )


@dataclass
class _Counts:
    """Of one set: inputs, those accepted, and of labelled ones the right answers, to all and to those accepted."""

    inputs: int = 0
    accepted: int = 0
    right: int = 0
    right_accepted: int = 0
    labelled: bool = True


class Tally:
    """What a fitted detector decides on sets of data, batch by batch, of which nothing but counts is kept."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.counts: dict[str, _Counts] = {}

    def see(
        self, name: str, x: Tensor, logits: Tensor, y: Tensor | None, scores: Mapping[str, Tensor]
    ) -> None:
        """Count a batch, as `evaluate` shows it to `watch`."""
        claimed = classes(logits)
        cut = self.detector.threshold_.to(claimed.device)
        known = scores[self.detector.name] <= (cut[claimed] if cut.dim() else cut)
        answers = torch.where(known, claimed, UNKNOWN)
        self.add(name, answers, claimed, y)

    def add(self, name: str, answers: Tensor, claimed: Tensor, y: Tensor | None) -> None:
        """Count a batch of a set: `(B,)` answers, −1 where it is refused, and what the model alone would say."""
        own, taken = self.counts.setdefault(name, _Counts()), answers >= 0
        own.inputs += len(answers)
        own.accepted += int(taken.sum())
        own.labelled = own.labelled and y is not None
        if y is not None:
            well = (claimed == as_int64(y).to(claimed.device)) & (
                claimed >= 0
            )  # −1 is no answer, and may be a label
            own.right += int(well.sum())
            own.right_accepted += int((well & taken).sum())

    def record(self, known: str, settings: dict[str, Any], seconds: float) -> Decision:
        """What was promised, and what became of it; `known` is the name of the known data."""
        detector, rule, own = self.detector, self.detector.rule, self.counts[KNOWN]
        bounded = rule if isinstance(rule, ControlRisk) else None
        accept = rule.accept if isinstance(rule, Accept) else None
        others = {name: one for name, one in self.counts.items() if name != KNOWN}
        return Decision(
            method=as_method(detector.model).name,
            detector=detector.score_name if isinstance(detector, Threshold) else detector.name,
            settings=detector.settings(),
            promise=None if rule is None else rule.promise(detector.controlled),
            accept=accept,
            bound=None if accept is None else _bound(detector, accept),
            risk=None if bounded is None else bounded.risk,
            confidence_level=None if bounded is None else bounded.confidence_level,
            thresholds=tuple(detector.threshold_.reshape(-1).tolist()),
            calibrated=len(detector.calibration_),
            known=known or KNOWN,
            inputs=own.inputs,
            accepted=own.accepted / own.inputs,
            usual=None if accept is None else _usual(detector, accept, own.inputs),
            accuracy=own.right / own.inputs if own.labelled else None,
            accepted_accuracy=own.right_accepted / own.accepted
            if own.labelled and own.accepted
            else None,
            unknown=tuple(
                RefusedSet(name, one.inputs, 1 - one.accepted / one.inputs)
                for name, one in others.items()
            ),
            provenance=Provenance.now(0, settings, seconds),
        )


def _answers(detector: Detector, x: Tensor) -> tuple[Tensor, Tensor]:
    """Of a batch `(B,)` each: the class or −1, and the class that the model alone would give."""
    found = detector.explain(x, batch_size=len(x))
    return torch.tensor([one.answer for one in found]), torch.tensor(
        [one.predicted for one in found]
    )


def _bound(detector: Detector, accept: float) -> float:
    """The least probability with which a new known input is accepted: k / (n + 1), with many classes of the worst."""
    counts: list[int] = detector.calibration_class_.bincount().tolist() or [
        len(detector.calibration_)
    ]
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
