"""Which detector suits a model: all are tried on known data and synthetic outliers alone."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core.features import ForwardPass, forward_with_features
from nescio.core.logits import classes
from nescio.core.model_state import check_model
from nescio.core.predict import map_batches, predict, read
from nescio.core.replica import keep_replicas
from nescio.data.batches import halves
from nescio.data.outliers import make_outliers
from nescio.data.overlap import check_disjoint
from nescio.detectors import Detector
from nescio.detectors.named import detector_named, named_candidates, usually_skipped
from nescio.detectors.statistics import Reservoir
from nescio.errors import NescioError, check_int
from nescio.evaluation.unknown_sets import check_rereadable
from nescio.guarantees.rules import rule_for
from nescio.progress import bar
from nescio.records import Ranked, Recommendation, Stopwatch
from nescio.scores import ScoreLike
from nescio.seeds import check_seed

CRITERION = "mean AUROC over the kinds of outliers"


@dataclass(frozen=True)
class Recommended:
    """The ranking that `recommend` found, and the detector that leads it, fitted."""

    record: Recommendation
    detector: Detector


def recommend(
    model: nn.Module,
    known: Any,
    train: Any = None,
    *,
    accept: float | None = None,
    candidates: Sequence[ScoreLike] | None = None,
    inputs: int = 1000,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Recommended:
    """Fit the detector that best separates known data from outliers made from them.

    A random half of `known` calibrates every detector; the other half, as it is and made into
    outliers (`nescio.data.outliers`), ranks them by mean AUROC over the kinds. The half that sets
    the winner's threshold has no part in the choice, so that its guarantee holds.

    Args:
        model: any classifier.
        known: known data that it was not trained on; with labels, if a detector needs them.
        train: training data for detectors that learn; by default a part of `known`.
        accept: the fraction of known inputs to accept, by default 0.95.
        candidates: names of detectors or scores, or functions of logits; by default all detectors
            but `meta`, and thresholds on usual scores. The record says why one was skipped.
        inputs: number of known inputs, and of outliers of each kind.
        batch_size, seed, progress: as in `predict`; the seed also chooses the inputs.

    >>> recommend(net, known.test, known.train, candidates=["energy", "knn"]).detector.name
    'knn'
    """
    stopwatch, count = Stopwatch(), check_int("inputs", inputs, least=10)
    _check(model, known, train, accept)
    with keep_replicas(model):
        calibration, test = halves(known, batch_size=batch_size)
        x = _random_inputs(test, count, check_seed(seed))
        logits = predict(model, x, progress=progress)
        sets = {"known": x} | make_outliers(x, classes(logits).to(x.device), seed)
        named = named_candidates(candidates, len(logits))
        trials = _Trials(model, named, {"accept": accept, "train": train, "batch_size": batch_size})
        with bar(len(named) + len(sets), "recommend", progress) as shown:
            for name in named:
                shown.advance(0, name)
                trials.fit(name, calibration)
                shown.advance()
            for name, data in sets.items():
                trials.score(name, data)
                shown.advance(1, name)
    best = trials.fitted[(ranking := trials.ranking())[0].name]
    record = Recommendation(
        detector=ranking[0].name,
        criterion=CRITERION,
        ranking=ranking,
        skipped=usually_skipped(candidates) | trials.skipped,
        inputs=len(x),
        calibrated=len(best.calibration_),
        classes=logits.shape[2],
        draws=len(logits),
        provenance=stopwatch.provenance(seed, {"accept": accept, "inputs": count}),
    )
    return Recommended(record, best)


class _Trials:
    """Detectors fitted and scored by name; those that fail are skipped, with the reason."""

    def __init__(
        self, model: nn.Module, candidates: Mapping[str, ScoreLike], how: Mapping[str, Any]
    ) -> None:
        self.model, self.candidates, self.how = model, candidates, how
        self.fitted: dict[str, Detector] = {}
        self.skipped: dict[str, str] = {}
        self.seconds = dict.fromkeys(candidates, 0.0)
        # by candidate, then by set
        self.scores: dict[str, dict[str, Tensor]] = {name: {} for name in candidates}

    def fit(self, name: str, calibration: Any) -> None:
        """Fit one, or keep the reason why not."""
        started = time.monotonic()
        try:
            detector = detector_named(self.model, self.candidates[name])
            self.fitted[name] = detector.fit(calibration, **self.how)
        except NescioError as error:
            self.skipped[name] = str(error)
        self.seconds[name] += time.monotonic() - started

    def score(self, set_name: str, data: Tensor) -> None:
        """Score one set by all candidates, in one forward pass."""
        parts: dict[str, list[Tensor]] = {name: [] for name in self.fitted}
        layers = tuple({layer: 0 for fitted in self.fitted.values() for layer in fitted.layers})

        def on_batch(x: Tensor, forward_pass: ForwardPass, _: Tensor | None) -> None:
            for name, detector in list(self.fitted.items()):
                started = time.monotonic()
                try:
                    parts[name].append(detector.finite_scores(x, forward_pass).cpu())
                except NescioError as error:
                    self.skipped[name] = f"of {set_name}: {error}"
                    del self.fitted[name]
                self.seconds[name] += time.monotonic() - started

        if self.fitted:
            step = partial(forward_with_features, layers=layers)
            map_batches(step, self.model, data, on_batch, "recommend", progress=False)
        for name in self.fitted:
            self.scores[name][set_name] = torch.cat(parts[name])

    def ranking(self) -> tuple[Ranked, ...]:
        """Return the best first; of equals the one that was named first."""
        if not self.fitted:
            why = "; ".join(f"{name}: {reason}" for name, reason in list(self.skipped.items())[:3])
            raise NescioError(f"none of {', '.join(self.candidates)} can work here. {why}")
        return tuple(sorted(map(self._ranked, self.fitted), key=lambda ranked: -ranked.mean))

    def _ranked(self, name: str) -> Ranked:
        scores = {of: values.double().numpy() for of, values in self.scores[name].items()}
        known = scores.pop("known")
        auroc = {of: metrics.auroc(known, values) for of, values in scores.items()}
        cut = float(self.fitted[name].threshold_)
        refused = {of: float((values > cut).mean()) for of, values in scores.items()}
        mean, worst = sum(auroc.values()) / len(auroc), min(auroc.values())
        return Ranked(name, auroc, mean, worst, self.seconds[name], refused)


def _check(model: nn.Module, known: Any, train: Any, accept: float | None) -> None:
    check_model(model)
    rule_for(accept)
    check_rereadable({"train": train})
    check_disjoint(known, train)


def _random_inputs(data: Any, count: int, seed: int) -> Tensor:
    """So many inputs `(N, …)` of data, at random, or all if there are fewer."""
    sample = Reservoir(count, seed)
    for x, _ in read(data, 256):
        sample.add(x)
    if len(sample.rows) < 2:
        raise NescioError(f"{len(sample.rows)} known inputs to rank detectors; expected at least 2")
    return sample.rows
