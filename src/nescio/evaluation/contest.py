"""All detectors against named unknown data: for those who have such data, and want to see rather than be advised."""

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
from nescio.detectors import Detector
from nescio.detectors.named import candidate_names, detector_named, untried
from nescio.errors import NescioError
from nescio.methods import as_method
from nescio.progress import bar
from nescio.records import Contest, Contestant, Stopwatch
from nescio.seeds import check_seed

TIMED, TIMES = 1000, 3  # inputs by which time is measured, and how often


def contest(
    model: nn.Module,
    known: Any,
    unknown: Mapping[str, Any],
    train: Any = None,
    *,
    candidates: Sequence[str] | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool | None = None,
) -> Contest:
    """Fit each detector on one half of known data, and judge it by the other half against sets of unknown data.

    Args:
        model: any classifier.
        known: inputs of the kinds it knows, which it was not trained on, in an order that does not change.
        unknown: sets of others, by name.
        train: what detectors learn from that learn, such as the model's training data; else a part of `known`.
        candidates: names in `DETECTORS` or `SCORES`; by default all but `meta`. One that cannot work on this model is
            passed over, and the record says why.
        batch_size: inputs per forward pass.
        seed: of which inputs are in which half.
        progress: a bar on standard error; by default only on a terminal.
    """
    stopwatch = Stopwatch()
    if not isinstance(unknown, Mapping) or not unknown:
        raise NescioError("unknown data must come with names: {'mnist': data, …}")
    for name, data in unknown.items():
        if isinstance(data, Iterator):
            raise NescioError(
                f"{name!r} can be read only once, but every detector reads it; give a dataset or a loader"
            )
    if isinstance(train, Iterator):
        raise NescioError(
            "train can be read only once, but every detector that learns reads it; give a dataset or a loader"
        )
    calibration, judged = halves(known, check_seed(seed), batch_size)
    some = _some(judged)
    names = candidate_names(candidates, len(predict(model, some[:1], progress=False)))
    found: list[Contestant] = []
    skipped, alone = untried(candidates), list[float]()
    with bar(len(names), "contest", progress) as shown:
        for name in names:
            shown.advance(0, name)
            try:
                contestant, own = _tried(
                    model, name, calibration, judged, unknown, train, batch_size, some
                )
                found.append(contestant)
                alone.append(own)
            except NescioError as error:
                skipped[name] = str(error)
            shown.advance()
    if not found:
        raise NescioError(
            f"none of {', '.join(names)} can work here; {next(iter(skipped.values()))}"
        )
    sizes = [sum(len(x) for x, _ in _read(half)) for half in (calibration, judged)]
    return Contest(
        method=as_method(model).name,
        contestants=tuple(sorted(found, key=lambda one: -one.mean)),
        skipped=skipped,
        known=sizes[1],
        calibrated=sizes[0],
        unknown={name: _count(data) for name, data in unknown.items()},
        model_seconds_per_1000=statistics.median(alone),
        provenance=stopwatch.provenance(seed, {"batch_size": batch_size}),
    )


def _tried(
    model: nn.Module,
    name: str,
    calibration: Any,
    judged: Any,
    unknown: Mapping[str, Any],
    train: Any,
    batch_size: int,
    some: Tensor,
) -> tuple[Contestant, float]:
    """One detector, and the seconds that the model takes by itself for 1000 inputs, at the same time."""
    begun = time.monotonic()
    detector: Detector = detector_named(model, name).fit(
        calibration, train=train, batch_size=batch_size
    )
    fitted = time.monotonic() - begun
    known = detector.score(judged, batch_size).double().cpu().numpy()
    auroc, fpr95 = {}, {}
    for of, data in unknown.items():
        other = detector.score(data, batch_size).double().cpu().numpy()
        auroc[of], fpr95[of] = metrics.auroc(known, other), metrics.fpr_at_tpr(known, other)
    mean = sum(auroc.values()) / len(auroc)
    own, alone = _in_turns(
        lambda: detector.score(some, batch_size),
        lambda: predict(model, some, batch_size=batch_size, progress=False),
    )
    each = 1000 / len(some)
    return Contestant(name, auroc, fpr95, mean, fitted, each * own), each * alone


def _in_turns(*works: Callable[[], object]) -> list[float]:
    """Seconds that each takes, the median of some, one after the other: what disturbs one disturbs all."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(TIMES):
        for work, seconds in zip(works, found, strict=True):
            begun = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begun)
    return [statistics.median(seconds) for seconds in found]


def _some(data: Any) -> Tensor:
    """The first inputs, at most `TIMED`, to measure time by."""
    found: list[Tensor] = []
    for x, _ in _read(data):
        found.append(x)
        if sum(map(len, found)) >= TIMED:
            break
    return torch.cat(found)[:TIMED]


def _read(data: Any) -> Iterator[Batch]:
    """The batches of data, in the order in which all read them."""
    yield from data_stream(0).over(data)


def _count(data: Any) -> int:
    size = length(data)
    return sum(len(x) for x, _ in batches(data, 1024)) if size is None else size
