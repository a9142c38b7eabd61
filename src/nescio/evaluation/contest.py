"""All detectors compared on unknown data → a `Contest` record."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core.predict import predict
from nescio.core.random_streams import data_stream
from nescio.data.batches import Batch, batches, halves, length
from nescio.detectors.named import detector_named, named_candidates, usually_skipped
from nescio.errors import NescioError
from nescio.evaluation.unknown_sets import check_rereadable
from nescio.methods import as_method
from nescio.progress import bar
from nescio.records import Contest, Contestant, Stopwatch
from nescio.scores import ScoreLike
from nescio.seeds import check_seed

TIMING_INPUTS, TIMING_ROUNDS = 1000, 3


def contest(
    model: nn.Module,
    known: Any,
    unknown: Mapping[str, Any],
    train: Any = None,
    *,
    candidates: Sequence[ScoreLike] | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Contest:
    """Fit each detector on half of the known data, and compare all on the rest and unknown data.

    Args:
        model: any classifier.
        known: known data that it was not trained on, in an order that does not change.
        unknown: sets of unknown data, by name.
        train: training data for detectors that learn; by default a part of `known`.
        candidates: names of detectors or scores, or functions of logits; by default all but `meta`.
            The record says why one was skipped.
        batch_size, progress: as in `predict`.
        seed: of which inputs are in which half.

    >>> far = nescio.data.noise.far(known.test)
    >>> record = contest(net, known.test, {"far": far}, candidates=["energy", "mahalanobis"])
    >>> [contestant.name for contestant in record.contestants]
    ['mahalanobis', 'energy']
    """
    stopwatch = Stopwatch()
    if not isinstance(unknown, Mapping) or not unknown:
        raise NescioError("unknown data must come with names: {'mnist': data, …}")
    check_rereadable({**unknown, "train": train})
    calibration, test = halves(known, check_seed(seed), batch_size)
    timing_inputs = _first_inputs(test)
    draws = len(predict(model, timing_inputs[:1], progress=False))
    named = named_candidates(candidates, draws)
    skipped, contestants = usually_skipped(candidates), list[tuple[Contestant, float]]()
    how = (calibration, test, unknown, train, batch_size, timing_inputs)
    with bar(len(named), "contest", progress) as shown:
        for name, candidate in named.items():
            shown.advance(0, name)
            try:
                contestants.append(_try(model, name, candidate, *how))
            except NescioError as error:
                skipped[name] = str(error)
            shown.advance()
    if not contestants:
        reason = next(iter(skipped.values()))
        raise NescioError(f"none of {', '.join(named)} can work here; {reason}")
    sizes = [sum(len(x) for x, _ in _read(half)) for half in (calibration, test)]
    return Contest(
        method=as_method(model).name,
        contestants=tuple(sorted((each for each, _ in contestants), key=lambda each: -each.mean)),
        skipped=skipped,
        known=sizes[1],
        calibrated=sizes[0],
        unknown={name: _count(data) for name, data in unknown.items()},
        model_seconds_per_1000=statistics.median(seconds for _, seconds in contestants),
        provenance=stopwatch.provenance(seed, {"batch_size": batch_size}),
    )


def _try(
    model: nn.Module,
    name: str,
    candidate: ScoreLike,
    calibration: Any,
    test: Any,
    unknown: Mapping[str, Any],
    train: Any,
    batch_size: int,
    timing_inputs: Tensor,
) -> tuple[Contestant, float]:
    """One detector, and the seconds that the model takes by itself for 1000 inputs."""
    begun, detector = time.monotonic(), detector_named(model, candidate)
    detector.fit(calibration, train=train, batch_size=batch_size)
    fit_seconds = time.monotonic() - begun
    known = detector.score(test, batch_size).double().cpu().numpy()
    auroc, fpr95 = {}, {}
    for set_name, data in unknown.items():
        scores = detector.score(data, batch_size).double().cpu().numpy()
        auroc[set_name] = metrics.auroc(known, scores)
        fpr95[set_name] = metrics.fpr_at_tpr(known, scores)
    seconds, model_seconds = _interleaved(
        lambda: detector.score(timing_inputs, batch_size),
        lambda: predict(model, timing_inputs, batch_size=batch_size, progress=False),
    )
    mean, per_1000 = sum(auroc.values()) / len(auroc), 1000 / len(timing_inputs)
    contestant = Contestant(name, auroc, fpr95, mean, fit_seconds, per_1000 * seconds)
    return contestant, per_1000 * model_seconds


def _interleaved(*works: Callable[[], object]) -> list[float]:
    """Median seconds of each, measured in turn: what disturbs one disturbs all."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(TIMING_ROUNDS):
        for work, seconds in zip(works, times, strict=True):
            begun = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begun)
    return [statistics.median(seconds) for seconds in times]


def _first_inputs(data: Any) -> Tensor:
    inputs: list[Tensor] = []
    for x, _ in _read(data):
        inputs.append(x)
        if sum(map(len, inputs)) >= TIMING_INPUTS:
            break
    return torch.cat(inputs)[:TIMING_INPUTS]


def _read(data: Any) -> Iterator[Batch]:
    """Batches of data, in the order in which all read them."""
    yield from data_stream(0).over(data)


def _count(data: Any) -> int:
    size = length(data)
    return sum(len(x) for x, _ in batches(data, 1024)) if size is None else size
