"""What a fitted detector promised, and what it did on test data → a `Decision` record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import betabinom
from torch import Tensor

from nescio.core.logits import classes
from nescio.core.predict import read
from nescio.core.replica import keep_replicas
from nescio.data.batches import as_int64
from nescio.detectors import UNKNOWN, Detector
from nescio.detectors.threshold import Threshold
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import KNOWN, named_sets
from nescio.guarantees import Accept, ControlRisk
from nescio.guarantees.conformal import rank_of
from nescio.methods import as_method
from nescio.records import Decision, Provenance, RefusedSet, Stopwatch

USUAL = 0.95  # probability of the interval in which an accepted fraction usually lies


def decide(
    detector: Detector,
    known: Any,
    unknown: Mapping[str, Any] | None = None,
    *,
    batch_size: int = 256,
) -> Decision:
    """Let a fitted detector decide on test data, and compare that with its promise.

    Args:
        detector: fitted, or loaded.
        known: known data that nothing was trained or fitted on; with labels, for accuracies.
        unknown: unknown data by name; labels are ignored.
        batch_size: as in `predict`.

    >>> detector = nescio.Mahalanobis(net).fit(known.test, train=known.train)
    >>> fresh = nescio.data.load("three_blobs", seed=1).test  # it was not fitted on these
    >>> record = decide(detector, fresh, {"far": x[1:]})
    >>> record.accepted > 0.9, record.unknown[0].refused
    (True, 1.0)
    """
    stopwatch = Stopwatch()
    if not isinstance(detector, Detector):
        raise NescioError(
            f"decide takes a fitted detector, not {type(detector).__name__}; see nescio.Threshold"
        )
    sets = named_sets(unknown)
    if names := [name for name, data in sets.items() if isinstance(data, str)]:
        raise NescioError(f"unknown data {names[0]!r} is a name; decide takes the data themselves")
    tally = Tally(detector)
    with keep_replicas(detector.model):
        for name, data in {KNOWN: known, **sets}.items():
            for x, y in read(data, batch_size):
                tally.add(name, *_answers(detector, x), y if name == KNOWN else None)
    return tally.record(getattr(known, "name", ""), {"batch_size": batch_size}, stopwatch.seconds)


@dataclass
class _Counts:
    """Of one set: inputs, accepted ones, and the correct answers among both."""

    inputs: int = 0
    accepted: int = 0
    right: int = 0
    right_accepted: int = 0
    labelled: bool = True


class Tally:
    """Counts what a fitted detector decides on sets of data, batch by batch."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.counts: dict[str, _Counts] = {}

    def see(
        self, name: str, x: Tensor, logits: Tensor, y: Tensor | None, scores: Mapping[str, Tensor]
    ) -> None:
        """Count a batch, as `evaluate` shows it to `watch`."""
        predicted = classes(logits)
        cut = self.detector.threshold_.to(predicted.device)
        known = scores[self.detector.name] <= (cut[predicted] if cut.dim() else cut)
        answers = torch.where(known, predicted, UNKNOWN)
        self.add(name, answers, predicted, y)

    def add(self, name: str, answers: Tensor, predicted: Tensor, y: Tensor | None) -> None:
        """Count a batch of a set: answers `(B,)`, −1 where refused, and the model's predictions."""
        counts, accepted = self.counts.setdefault(name, _Counts()), answers >= 0
        counts.inputs += len(answers)
        counts.accepted += int(accepted.sum())
        counts.labelled = counts.labelled and y is not None
        if y is not None:
            # −1 is no answer, and may be a label
            correct = (predicted == as_int64(y).to(predicted.device)) & (predicted >= 0)
            counts.right += int(correct.sum())
            counts.right_accepted += int((correct & accepted).sum())

    def record(self, known: str, settings: dict[str, Any], seconds: float) -> Decision:
        """Return what was promised and what became of it; `known` names the known data."""
        detector, rule, tally = self.detector, self.detector.rule, self.counts[KNOWN]
        bounded = rule if isinstance(rule, ControlRisk) else None
        accept = rule.accept if isinstance(rule, Accept) else None
        others = {name: counts for name, counts in self.counts.items() if name != KNOWN}
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
            inputs=tally.inputs,
            accepted=tally.accepted / tally.inputs,
            usual=None if accept is None else _usual(detector, accept, tally.inputs),
            accuracy=tally.right / tally.inputs if tally.labelled else None,
            accepted_accuracy=tally.right_accepted / tally.accepted
            if tally.labelled and tally.accepted
            else None,
            unknown=tuple(
                RefusedSet(name, counts.inputs, 1 - counts.accepted / counts.inputs)
                for name, counts in others.items()
            ),
            provenance=Provenance.now(0, settings, seconds),
        )


def _answers(detector: Detector, x: Tensor) -> tuple[Tensor, Tensor]:
    """Of a batch `(B,)` each: the class or −1, and the model's own prediction."""
    rows = detector.explain(x, batch_size=len(x))
    return torch.tensor([r.answer for r in rows]), torch.tensor([r.predicted for r in rows])


def _bound(detector: Detector, accept: float) -> float:
    """The guaranteed probability that a known input is accepted: k / (n + 1), at the least."""
    counts: list[int] = detector.calibration_class_.bincount().tolist() or [
        len(detector.calibration_)
    ]
    return min(rank_of(n, accept) / (n + 1) for n in counts)


def _usual(detector: Detector, accept: float, inputs: int) -> tuple[float, float] | None:
    """The 95 % interval of the accepted fraction of so many inputs; None with thresholds per class.

    Exchangeable scores without ties leave Beta(k, n + 1 − k) below the k-th of n.
    """
    if detector.threshold_.dim():
        return None
    n = len(detector.calibration_)
    k = rank_of(n, accept)
    low, high = betabinom(inputs, k, n + 1 - k).ppf([(1 - USUAL) / 2, (1 + USUAL) / 2])
    return float(low) / inputs, float(high) / inputs
