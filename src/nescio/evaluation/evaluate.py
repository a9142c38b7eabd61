"""A model or detector on known data and on named sets of unknown data → an `Evaluation` record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.logits import classes, mean_log_probs
from nescio.core.predict import concatenate, map_batches
from nescio.core.replica import keep_replicas
from nescio.data.batches import as_int64, check_labels
from nescio.detectors import Detector
from nescio.errors import NescioError, check_int
from nescio.evaluation.unknown_sets import KNOWN, AttackFailedError, made_set, named_sets
from nescio.methods import as_method
from nescio.records import (
    Against,
    Evaluation,
    Histogram,
    KnownSide,
    Rejection,
    Reliability,
    Roc,
    Separation,
    Stopwatch,
    UnknownSide,
)
from nescio.scores import ScoreLike, ScoreSpec, score_specs, scores_of, usual_scores

BINS = 50
Array = np.ndarray[Any, Any]
Values = dict[str, Array]  # of each score, or of each set of data → (N,)
Watch = Callable[[str, Tensor, Tensor, Tensor | None, dict[str, Tensor]], None]


def evaluate(
    model: nn.Module,
    known: Any,
    unknown: Mapping[str, Any] | Sequence[str] | None = None,
    *,
    scores: ScoreLike | Sequence[ScoreLike] | None = None,
    attacked: int = 1000,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Evaluate a classifier on known and unknown data.

    Args:
        model: a method, a bare network, or a detector, whose own score is then evaluated too.
        known: labelled test data of the known classes.
        unknown: unknown data by name, or names of what is made from the known data: `noise`,
            `uniform`, `normal`, `permuted`, `far`, `adversarial_noise`, `adversarial_samples`, and
            both with `_paper` for the paper's attack, weaker and shorter.
        scores: names of scores, with parameters if they have any, or functions of logits
            `(S, N, C)` giving `(N,)`; by default all scores of logits. Those of the gradient, such
            as `gradient_l2` or `gradient_l2:conv2` (of one layer), cost a pass forward and back.
        attacked: number of inputs that are attacked; if all attacks fail, the settings say so.
        batch_size, seed, progress: as in `predict`.
        watch: called with each batch: name of the set, inputs, logits `(S, B, C)`, labels or None,
            and the scores `(B,)` by name.

    >>> record = evaluate(net, known.test, ["far"], scores=["max_prob", "energy"])
    >>> record.unknown[0].separation[0].auroc < 0.1  # it is more certain far away than at home
    True
    """
    stopwatch, sets, attacked = Stopwatch(), named_sets(unknown), check_int("attacked", attacked)
    how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    passes = _Passes(model, score_specs(scores), watch, how)
    method, (logits, labels) = passes.method, passes.over(KNOWN, known)
    truth, correct = _labels_and_correct(logits, labels)
    sides, resisted = [], {}
    for name, data in sets.items():
        attack = None
        if isinstance(data, str):
            try:
                data, attack = made_set(data, method, known, attacked, **how)
            except AttackFailedError:  # which is no reason to throw away all else
                resisted[name] = min(attacked, len(correct))
                continue
        _check_same_classes(name, passes.over(name, data)[0], logits)
        sides.append(_unknown_side(name, passes, correct, attack))
    settings = {"scores": list(passes.values[KNOWN]), "batch_size": batch_size}
    settings |= {"unknown": list(sets)} | ({"resisted": resisted} if resisted else {})
    return Evaluation(
        method=method.name,
        score=model.name if isinstance(model, Detector) else method.score,
        classes=logits.shape[2],
        draws=len(logits),
        known=_known_side(getattr(known, "name", "") or KNOWN, passes, logits, truth, correct),
        unknown=tuple(sides),
        histograms=passes.histograms(),
        provenance=stopwatch.provenance(seed, settings),
        confidence=_counts("confidence", passes.confidence, np.linspace(0.0, 1.0, BINS + 1)),
    )


class _Passes:
    """One pass over each set of data, with the scores and the confidence it gave."""

    def __init__(
        self, model: nn.Module, specs: Sequence[ScoreSpec], watch: Watch | None, how: dict[str, Any]
    ) -> None:
        self.detector = model if isinstance(model, Detector) else None
        self.method = as_method(model if self.detector is None else self.detector.model)
        self.specs, self.watch, self.how = specs, watch, how
        self.values: dict[str, Values] = {}  # of each set: of each score
        self.confidence: Values = {}  # of each set

    def over(self, name: str, data: Any) -> tuple[Tensor, Tensor | None]:
        """Return logits and labels; keep scores, a detector's under its own name."""
        parts: list[tuple[Tensor, Tensor | None]] = []
        scores: list[dict[str, Tensor]] = []

        def on_batch(x: Tensor, forward_pass: ForwardPass, y: Tensor | None) -> None:
            logits = forward_pass.logits.to(x.device)
            parts.append((logits, y))
            specs = self.specs or usual_scores(len(logits))
            scores.append(scores_of(specs, self.method, x, logits))
            if self.detector is not None:
                scores[-1][self.detector.name] = self.detector.finite_scores(x, forward_pass)
            if self.watch is not None:
                self.watch(name, x, logits, y, scores[-1])

        detector = self.detector
        step = forward_with_features if detector is None else detector.forward_with_features
        net = self.method if detector is None else detector.model
        with keep_replicas(self.method):  # gradient scores run it, too
            map_batches(step, net, data, on_batch, "predict", **self.how)
        logits, labels = concatenate(parts)
        values = {score: torch.cat([batch[score] for batch in scores]) for score in scores[0]}
        self.values[name] = {score: value.cpu().numpy() for score, value in values.items()}
        self.confidence[name] = self.method.confidence(logits).cpu().numpy()
        return logits, labels

    def histograms(self) -> tuple[Histogram, ...]:
        """Return one for each score, over all sets."""
        return tuple(
            _histogram(score, {name: values[score] for name, values in self.values.items()})
            for score in self.values[KNOWN]
        )


def _check_same_classes(name: str, logits: Tensor, known: Tensor) -> None:
    if logits.shape[::2] != known.shape[::2]:
        raise NescioError(
            f"{name!r} gives logits (S, N, C) = {tuple(logits.shape)}, the known data "
            f"{tuple(known.shape)}; draws and classes must be the same"
        )


def _labels_and_correct(logits: Tensor, labels: Tensor | None) -> tuple[Array, Array]:
    """The labels `(N,)`, and which answers are correct; an error if labels cannot be."""
    if labels is None:
        raise NescioError(
            "known data must have labels: a dataset of (input, label), or a loader of such batches"
        )
    labels = as_int64(labels).to(logits.device)
    check_labels(labels, logits.shape[2])
    return labels.cpu().numpy(), (classes(logits) == labels).cpu().numpy()


def _known_side(
    name: str, passes: _Passes, logits: Tensor, labels: Array, correct: Array
) -> KnownSide:
    log_p = mean_log_probs(logits)[0].cpu().numpy()
    values, confidence, wrong = passes.values[KNOWN], passes.confidence[KNOWN], ~correct
    return KnownSide(
        name=name,
        inputs=len(correct),
        accuracy=float(correct.mean()),
        mmc=metrics.mmc(confidence),
        nll=metrics.nll(log_p, labels),
        brier=metrics.brier(np.exp(log_p), labels),
        ece=metrics.ece(confidence, correct),
        misclassification=tuple(_separation(k, v[correct], v[wrong]) for k, v in values.items()),
        rejection=tuple(_rejection(key, correct, v, None) for key, v in values.items()),
        reliability=_reliability(confidence, correct),
    )


def _reliability(confidence: Array, correct: Array) -> Reliability:
    bins = metrics.reliability(confidence, correct)
    means = (
        tuple(None if np.isnan(value) else float(value) for value in values)
        for values in (bins.confidence, bins.accuracy)
    )
    return Reliability(_stored(bins.edges), tuple(map(int, bins.count)), *means)


def _unknown_side(
    name: str, passes: _Passes, correct: Array, attack: Against | None
) -> UnknownSide:
    known, values, confidence = passes.values[KNOWN], passes.values[name], passes.confidence[name]
    return UnknownSide(
        name=name,
        inputs=len(confidence),
        mmc=metrics.mmc(confidence),
        separation=tuple(_separation(key, known[key], v) for key, v in values.items()),
        rejection=tuple(_rejection(key, correct, known[key], v) for key, v in values.items()),
        roc=tuple(_roc(key, known[key], v) for key, v in values.items()),
        attack=attack,
    )


def _separation(score: str, known: Array, unknown: Array) -> Separation:
    if len(known) == 0 or len(unknown) == 0:  # all answers are correct, or none
        return Separation(score, None, None, None, None)
    result = metrics.separation(known, unknown)
    return Separation(score, result.auroc, result.aupr_in, result.aupr_out, result.fpr)


def _rejection(score: str, correct: Array, known: Array, unknown: Array | None) -> Rejection:
    exact = metrics.rejection_curve(correct, known, unknown)
    curve = exact.at(101)
    rejected, accuracy, maximum = map(_stored, (curve.rejected, curve.accuracy, curve.maximum))
    return Rejection(score, rejected, accuracy, maximum, exact.area, exact.maximum_area)


def _roc(score: str, known: Array, unknown: Array) -> Roc:
    curve = metrics.roc_curve(known, unknown).at(201)
    return Roc(score, _stored(curve.unknown), _stored(curve.known))


def _stored(curve: Array) -> tuple[float, ...]:
    """Seven significant digits of each value, as many as float32 has, for a smaller file."""
    return tuple(float(f"{value:.7g}") for value in curve)


def _histogram(score: str, values: Values) -> Histogram:
    """Counts over edges around the known inputs' scores; the outermost bins hold what lies beyond.

    Far away a score may be larger by thousands, which would leave a single bin to everything else.
    """
    low, high = (float(v) for v in np.quantile(values[KNOWN], (0.001, 0.999)))
    room = (high - low) or 1.0
    low = max(low - room, min(float(v.min()) for v in values.values()))
    high = min(high + room, max(float(v.max()) for v in values.values()))
    return _counts(score, values, np.linspace(low, high if high > low else low + 1.0, BINS + 1))


def _counts(score: str, values: Values, edges: Array) -> Histogram:
    inside = {name: np.clip(v, edges[0], edges[-1]) for name, v in values.items()}
    counts = {name: np.histogram(v, edges)[0].tolist() for name, v in inside.items()}
    bins = tuple(map(float, edges))
    return Histogram(score, bins, {name: tuple(c) for name, c in counts.items()})
