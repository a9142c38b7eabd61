"""A model or detector on known data and on named sets of unknown data → an `Evaluation` record."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.logits import classes, mean_log_probs
from nescio.core.predict import joined, map_batches
from nescio.data.labelled import as_int64, check_labels
from nescio.detectors import Detector
from nescio.errors import NescioError, check_int
from nescio.evaluation.adversarial import AttackFailedError
from nescio.evaluation.named_sets import made_set, named_sets
from nescio.methods import as_method
from nescio.methods.method import Method
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
    """Judge a classifier by what it knows and by how it takes what it cannot know.

    Args:
        model: a method, a bare network, or a detector (whose own score is then judged too).
        known: labelled test data of the kinds it was trained on.
        unknown: named data of other kinds; labels are passed over. In place of data there may be a name, and in place
            of the whole a list of names, of what is made from the known data: `noise`, `uniform`, `normal`, `permuted`,
            `far`, and for this very model `adversarial_noise` and `adversarial_samples`; see `nescio.evaluation.adversarial`.
        scores: names in `SCORES`, with parameters if they have any, or functions of logits
            `(S, N, C)` giving `(N,)`; by default all of logits that the model's draws allow, which cost one forward pass.
            Those of the gradient, such as `gradient_l2` or, for one layer, `gradient_l2:conv2`, cost another, and one
            back.
        attacked: how many inputs the adversarial sets are tried on. If none of them ends in a wrong class, there are no
            adversarial samples; the record then has no such set, but says so in its settings.
        batch_size, seed, progress: as in `predict`.
        watch: called with each batch as it is judged, for those who want to see the inputs: name of the set (`known` of
            that), inputs, logits `(S, B, C)`, labels or None, and the scores `(B,)` by name.
    """
    stopwatch = Stopwatch()
    sets, attacked = named_sets(unknown), check_int("attacked", attacked)
    method, specs = (
        as_method(model.model if isinstance(model, Detector) else model),
        score_specs(scores),
    )
    run = partial(
        _run, model, method, specs, watch, batch_size=batch_size, seed=seed, progress=progress
    )
    logits, labels, found = run("known", known)
    if labels is None:
        raise NescioError(
            "known data must come with labels: a dataset of (input, label), or a loader of such batches"
        )
    labels = as_int64(labels).to(logits.device)
    check_labels(labels, logits.shape[2])
    values = {"known": found}
    confidence = {"known": method.confidence(logits).cpu().numpy()}
    correct = (classes(logits) == labels).cpu().numpy()
    sides, resisted = [], {}
    for name, given in sets.items():
        data, against = given, None
        if isinstance(given, str):
            how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
            try:
                data, against = made_set(given, method, known, attacked, **how)
            except AttackFailedError:  # which is no reason to throw away all else
                resisted[name] = min(attacked, len(labels))
                continue
        other, _, found = run(name, data)
        if other.shape[::2] != logits.shape[::2]:
            raise NescioError(
                f"{name!r} gives logits (S, N, C) = {tuple(other.shape)}, but the known data "
                f"{tuple(logits.shape)}: draws and classes must be the same"
            )
        values[name], confidence[name] = found, method.confidence(other).cpu().numpy()
        sides.append(
            _unknown_side(name, confidence[name], correct, values["known"], values[name], against)
        )
    settings = {"scores": list(values["known"]), "batch_size": batch_size, "unknown": list(sets)}
    if resisted:
        settings["resisted"] = resisted
    return Evaluation(
        method=method.name,
        score=model.name if isinstance(model, Detector) else method.score,
        classes=logits.shape[2],
        draws=len(logits),
        known=_known_side(
            getattr(known, "name", "") or "known",
            confidence["known"],
            logits,
            labels,
            correct,
            values["known"],
        ),
        unknown=tuple(sides),
        histograms=tuple(
            _histogram(name, {side: v[name] for side, v in values.items()})
            for name in values["known"]
        ),
        provenance=stopwatch.provenance(seed, settings),
        confidence=_counts("confidence", confidence, np.linspace(0.0, 1.0, BINS + 1)),
    )


def _run(
    model: nn.Module,
    method: Method,
    specs: Sequence[ScoreSpec],
    watch: Watch | None,
    called: str,
    data: Any,
    **how: Any,
) -> tuple[Tensor, Tensor | None, Values]:
    """Logits, labels and scores, with those of a detector under its own name, all from one pass over the data."""
    parts: list[tuple[Tensor, Tensor | None]] = []
    scores: list[dict[str, Tensor]] = []

    def on_batch(x: Tensor, seen: ForwardPass, y: Tensor | None) -> None:
        logits = seen.logits.to(x.device)
        parts.append((logits, y))
        scores.append(scores_of(specs or usual_scores(len(logits)), method, x, logits))
        if isinstance(model, Detector):
            scores[-1][model.name] = model.of_batch(x, seen)
        if watch is not None:
            watch(called, x, logits, y, scores[-1])

    if isinstance(model, Detector):
        map_batches(model.forward_with_features, model.model, data, on_batch, "predict", **how)
    else:
        map_batches(forward_with_features, method, data, on_batch, "predict", **how)
    logits, labels = joined(parts)
    return (
        logits,
        labels,
        {name: torch.cat([batch[name] for batch in scores]).cpu().numpy() for name in scores[0]},
    )


def _known_side(
    name: str, confidence: Array, logits: Tensor, labels: Tensor, correct: Array, values: Values
) -> KnownSide:
    log_p = mean_log_probs(logits)[0].cpu().numpy()
    answers = labels.cpu().numpy()
    return KnownSide(
        name=name,
        inputs=len(answers),
        accuracy=float(correct.mean()),
        mmc=metrics.mmc(confidence),
        nll=metrics.nll(log_p, answers),
        brier=metrics.brier(np.exp(log_p), answers),
        ece=metrics.ece(confidence, correct),
        misclassification=tuple(
            _separation(key, v[correct], v[~correct]) for key, v in values.items()
        ),
        rejection=tuple(_rejection(key, correct, v, None) for key, v in values.items()),
        reliability=_reliability(confidence, correct),
    )


def _reliability(confidence: Array, correct: Array) -> Reliability:
    found = metrics.reliability(confidence, correct)
    means = (
        tuple(None if np.isnan(v) else float(v) for v in values)
        for values in (found.confidence, found.accuracy)
    )
    return Reliability(_stored(found.edges), tuple(map(int, found.count)), *means)


def _unknown_side(
    name: str,
    confidence: Array,
    correct: Array,
    known: Values,
    values: Values,
    against: Against | None,
) -> UnknownSide:
    return UnknownSide(
        name=name,
        inputs=len(confidence),
        mmc=metrics.mmc(confidence),
        separation=tuple(_separation(key, known[key], v) for key, v in values.items()),
        rejection=tuple(_rejection(key, correct, known[key], v) for key, v in values.items()),
        roc=tuple(_roc(key, known[key], v) for key, v in values.items()),
        attack=against,
    )


def _separation(score: str, known: Array, unknown: Array) -> Separation:
    if len(known) == 0 or len(unknown) == 0:  # no input was classified wrongly, or none rightly
        return Separation(score, None, None, None, None)
    found = metrics.separation(known, unknown)
    return Separation(score, found.auroc, found.aupr_in, found.aupr_out, found.fpr)


def _rejection(score: str, correct: Array, known: Array, unknown: Array | None) -> Rejection:
    as_int64 = metrics.rejection_curve(correct, known, unknown)
    curve = as_int64.at(101)
    rejected, accuracy, maximum = map(_stored, (curve.rejected, curve.accuracy, curve.maximum))
    return Rejection(score, rejected, accuracy, maximum, as_int64.area, as_int64.maximum_area)


def _roc(score: str, known: Array, unknown: Array) -> Roc:
    curve = metrics.roc_curve(known, unknown).at(201)
    return Roc(score, _stored(curve.unknown), _stored(curve.known))


def _stored(curve: Array) -> tuple[float, ...]:
    """Seven significant digits of each value, as many as float32 has, for a smaller file."""
    return tuple(float(f"{value:.7g}") for value in curve)


def _histogram(score: str, values: Values) -> Histogram:
    """Counts over edges around the known inputs' scores; what lies farther out is counted in the outermost bins.

    Far away a score may run off by thousands, which would leave a single bin to everything else.
    """
    low, high = (float(v) for v in np.quantile(values["known"], (0.001, 0.999)))
    room = (high - low) or 1.0
    low = max(low - room, min(float(v.min()) for v in values.values()))
    high = min(high + room, max(float(v.max()) for v in values.values()))
    return _counts(score, values, np.linspace(low, high if high > low else low + 1.0, BINS + 1))


def _counts(score: str, values: Values, edges: Array) -> Histogram:
    counts = {
        side: np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] for side, v in values.items()
    }
    return Histogram(
        score, tuple(map(float, edges)), {side: tuple(map(int, c)) for side, c in counts.items()}
    )
