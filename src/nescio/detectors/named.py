"""Detectors by name: those in DETECTORS, and thresholds by the name of their score."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from nescio.detectors.detector import Detector
from nescio.detectors.threshold import Threshold
from nescio.errors import NescioError, unknown_name
from nescio.scores import SCORES, ScoreLike, ScoreSpec, score_spec

USUAL_SCORES = ("max_prob", "entropy", "max_logit", "energy", "mutual_information")
SKIPPED = {  # unless they are named
    "threshold": "tried with each of its scores",
    "meta": "learns from wrong answers, of which there may be few, and is slow; name it to try it",
}


def _checked(name: ScoreLike) -> str | ScoreSpec:
    """Return the name of a detector, or the spec of a score; raise, with the nearest names."""
    from nescio.detectors import DETECTORS

    if isinstance(name, str):
        if name in DETECTORS:
            return name
        if name.partition(":")[0].partition("(")[0].rstrip() not in SCORES:
            raise unknown_name("detector or score", name, (*DETECTORS, *SCORES))
    return score_spec(name)


def detector_named(model: nn.Module, name: ScoreLike, **settings: Any) -> Detector:
    """Make a detector by its name in `DETECTORS`, or a threshold on a score."""
    from nescio.detectors import DETECTORS

    name = _checked(name)
    if not isinstance(name, str):
        if settings:
            raise NescioError(f"'{name}' is a score, which has no settings, but got {settings}")
        return Threshold(model, name)
    try:
        return DETECTORS[name](model, **settings)
    except TypeError as error:  # settings it does not have
        raise NescioError(f"{name!r} cannot be made with {settings}: {error}") from error


def named_candidates(
    candidates: Sequence[ScoreLike] | None, draws: int
) -> dict[str, str | ScoreSpec]:
    """Return detectors and scores by name: the candidates, or all usual for such draws."""
    from nescio.detectors import DETECTORS

    if candidates is None:
        scores = [name for name in USUAL_SCORES if draws > 1 or not SCORES[name].needs_draws]
        names = [*scores, *(name for name in DETECTORS if name not in SKIPPED)]
        return {name: name for name in names}
    listed = candidates if isinstance(candidates, list | tuple) else ()
    if not listed or not all(_is_candidate(each) for each in listed):
        raise NescioError(
            "candidates must be names of detectors or scores, such as ['energy'], or functions of "
            f"logits, got {candidates!r}"
        )
    named: dict[str, str | ScoreSpec] = {}
    for candidate in map(_checked, listed):
        name = str(candidate)
        if named.get(name, candidate) != candidate:  # a function of the same name
            name = f"{name} {len(named) + 1}"
        named[name] = candidate
    return named


def _is_candidate(candidate: Any) -> bool:
    function = callable(candidate) and not isinstance(candidate, type | nn.Module)
    return function or isinstance(candidate, str)


def usually_skipped(candidates: Sequence[ScoreLike] | None) -> dict[str, str]:
    """Return which detectors are skipped if no candidates are given, and why."""
    return {"meta": SKIPPED["meta"]} if candidates is None else {}
