"""Detectors by name: those in DETECTORS, and thresholds by the name of their score."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from nescio.detectors.detector import Detector
from nescio.detectors.threshold import Threshold
from nescio.errors import NescioError, unknown_name
from nescio.scores import SCORES, score_spec

USUAL_SCORES = ("max_prob", "entropy", "max_logit", "energy", "mutual_information")
SKIPPED = {  # unless they are named
    "threshold": "tried with each of its scores",
    "meta": "learns from wrong answers, of which there may be few, and is slow; name it to try it",
}


def check_name(name: str) -> None:
    """Raise an error, with the nearest names, if this names neither a detector nor a score."""
    from nescio.detectors import DETECTORS

    if name in DETECTORS:
        return
    if name.partition(":")[0].partition("(")[0].rstrip() not in SCORES:
        raise unknown_name("detector or score", name, (*DETECTORS, *SCORES))
    score_spec(name)


def detector_named(model: nn.Module, name: str, **settings: Any) -> Detector:
    """Make a detector by its name in `DETECTORS`, or a threshold by the name of its score."""
    from nescio.detectors import DETECTORS

    check_name(name)
    if name not in DETECTORS:
        if settings:
            raise NescioError(f"{name!r} is a score, which has no settings, but got {settings}")
        return Threshold(model, name)
    try:
        return DETECTORS[name](model, **settings)
    except TypeError as error:  # settings it does not have
        raise NescioError(f"{name!r} cannot be made with {settings}: {error}") from error


def candidate_names(given: Sequence[str] | None, draws: int) -> list[str]:
    """Return names of detectors and scores, each once: those given, or all usual for such draws."""
    from nescio.detectors import DETECTORS

    if given is None:
        scores = [name for name in USUAL_SCORES if draws > 1 or not SCORES[name].needs_draws]
        return [*scores, *(name for name in DETECTORS if name not in SKIPPED)]
    names = given if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise NescioError(
            f"candidates must be names of detectors or scores, such as ['energy'], got {given!r}"
        )
    for name in names:
        check_name(name)
    return list(dict.fromkeys(names))


def usually_skipped(given: Sequence[str] | None) -> dict[str, str]:
    """Return which detectors are skipped if no candidates are given, and why."""
    return {"meta": SKIPPED["meta"]} if given is None else {}
