"""A model or detector on known data and on named sets of unknown data → an `Evaluation` record."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from nescio import metrics
from nescio.data.labelled import check_labels
from nescio.detectors import Detector
from nescio.errors import NescioError, unknown_name
from nescio.logits import classes, mean_log_probs
from nescio.methods import as_method
from nescio.methods.method import Method
from nescio.predict import predict, predict_labelled
from nescio.records import Evaluation, Histogram, KnownSide, Provenance, Rejection, Separation, UnknownSide
from nescio.scores import OUTPUT, SCORES

BINS = 50
Values = dict[str, np.ndarray[Any, Any]]  # score → (N,)


def evaluate(
    model: nn.Module,
    known: Any,
    unknown: Mapping[str, Any] | None = None,
    *,
    scores: Sequence[str] | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Evaluation:
    """Judge a classifier by what it knows and by how it takes what it cannot know.

    Args:
        model: a method, a bare network, or a detector (whose own score is then judged too).
        known: labelled test data of the kinds it was trained on.
        unknown: named data of other kinds; labels are passed over.
        scores: names in `SCORES`; by default all that the model's draws allow. All of them cost one forward pass.
        batch_size, seed, progress: as in `predict`.
    """
    started = time.monotonic()
    if not isinstance(unknown or {}, Mapping):
        raise NescioError(f"unknown data must come with names: {{'noise': data, …}}, not {type(unknown).__name__}")
    method, names = as_method(model.model if isinstance(model, Detector) else model), _names(scores)
    logits, labels = predict_labelled(method, known, batch_size=batch_size, seed=seed, progress=progress)
    if labels is None:
        raise NescioError("known data must come with labels: a dataset of (input, label), or a loader of such batches")
    check_labels(labels, logits.shape[2])
    names = names or list(SCORES if len(logits) > 1 else OUTPUT)
    values = {"known": _values(model, names, logits, known, batch_size)}
    correct = (classes(logits) == labels).cpu().numpy()
    sides = []
    for name, data in (unknown or {}).items():
        if name in values:
            raise NescioError(f"unknown data may not be called {name!r}: the name is taken")
        other = predict(method, data, batch_size=batch_size, seed=seed, progress=progress)
        if other.shape[::2] != logits.shape[::2]:
            raise NescioError(f"{name!r} gives logits (S, N, C) = {tuple(other.shape)}, but the known data "
                              f"{tuple(logits.shape)}: draws and classes must be the same")  # fmt: skip
        values[name] = _values(model, names, other, data, batch_size)
        sides.append(_unknown_side(name, method, other, correct, values["known"], values[name]))
    settings = {"scores": list(values["known"]), "batch_size": batch_size, "unknown": list(unknown or {})}
    return Evaluation(
        method=method.name,
        score=model.name if isinstance(model, Detector) else method.score,
        classes=logits.shape[2],
        draws=len(logits),
        known=_known_side(getattr(known, "name", "") or "known", method, logits, labels, correct, values["known"]),
        unknown=tuple(sides),
        histograms=tuple(_histogram(name, {side: v[name] for side, v in values.items()}) for name in values["known"]),
        provenance=Provenance.now(seed, settings, time.monotonic() - started),
    )


def _names(scores: Sequence[str] | None) -> list[str]:
    for name in scores or ():
        if name not in SCORES:
            raise unknown_name("score", name, SCORES)
    return list(scores or ())


def _values(model: nn.Module, names: Sequence[str], logits: Tensor, data: Any, batch_size: int) -> Values:
    found = {name: SCORES[name](logits).cpu().numpy() for name in names}
    if isinstance(model, Detector):
        found[model.name] = model.score(data, batch_size).cpu().numpy()
    return found


def _known_side(
    name: str, method: Method, logits: Tensor, labels: Tensor, correct: np.ndarray[Any, Any], values: Values
) -> KnownSide:
    log_p = mean_log_probs(logits)[0].cpu().numpy()
    confidence = method.confidence(logits).cpu().numpy()
    answers = labels.cpu().numpy()
    return KnownSide(
        name=name,
        inputs=len(answers),
        accuracy=float(correct.mean()),
        mmc=metrics.mmc(confidence),
        nll=metrics.nll(log_p, answers),
        brier=metrics.brier(np.exp(log_p), answers),
        ece=metrics.ece(confidence, correct),
        misclassification=tuple(_separation(key, v[correct], v[~correct]) for key, v in values.items()),
        rejection=tuple(_rejection(key, correct, v, None) for key, v in values.items()),
    )


def _unknown_side(
    name: str, method: Method, logits: Tensor, correct: np.ndarray[Any, Any], known: Values, values: Values
) -> UnknownSide:
    return UnknownSide(
        name=name,
        inputs=logits.shape[1],
        mmc=metrics.mmc(method.confidence(logits).cpu().numpy()),
        separation=tuple(_separation(key, known[key], v) for key, v in values.items()),
        rejection=tuple(_rejection(key, correct, known[key], v) for key, v in values.items()),
    )


def _separation(score: str, known: np.ndarray[Any, Any], unknown: np.ndarray[Any, Any]) -> Separation:
    if len(known) == 0 or len(unknown) == 0:  # no input was classified wrongly, or none rightly
        return Separation(score, None, None, None, None)
    found = metrics.separation(known, unknown)
    return Separation(score, found.auroc, found.aupr_in, found.aupr_out, found.fpr)


def _rejection(
    score: str, correct: np.ndarray[Any, Any], known: np.ndarray[Any, Any], unknown: np.ndarray[Any, Any] | None
) -> Rejection:
    whole = metrics.rejection_curve(correct, known, unknown)
    curve = whole.at(101)
    rejected, accuracy, maximum = (tuple(map(float, v)) for v in (curve.rejected, curve.accuracy, curve.maximum))
    return Rejection(score, rejected, accuracy, maximum, whole.area, whole.maximum_area)


def _histogram(score: str, values: dict[str, np.ndarray[Any, Any]]) -> Histogram:
    """Counts over edges around the known inputs' scores; what lies farther out is counted in the outermost bins.

    Far away a score may run off by thousands, which would leave a single bin to everything else.
    """
    low, high = (float(v) for v in np.quantile(values["known"], (0.001, 0.999)))
    room = (high - low) or 1.0
    low = max(low - room, min(float(v.min()) for v in values.values()))
    high = min(high + room, max(float(v.max()) for v in values.values()))
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    counts = {side: np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] for side, v in values.items()}
    return Histogram(score, tuple(map(float, edges)), {side: tuple(map(int, c)) for side, c in counts.items()})
