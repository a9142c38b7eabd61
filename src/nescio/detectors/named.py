"""Detectors by name: those of our table, and thresholds by the score they are on."""

import re
from collections.abc import Sequence
from typing import Any

from torch import nn

from nescio.detectors.detector import Detector
from nescio.detectors.threshold import Threshold
from nescio.errors import NescioError, unknown_name
from nescio.scores import SCORES as ALL
from nescio.scores import score_spec

SCORES = (
    "max_prob",
    "entropy",
    "max_logit",
    "energy",
    "mutual_information",
)  # that thresholds are tried on
UNTRIED = {  # unless they are named, and why not
    "threshold": "it is tried by each of its scores",
    "meta": "it learns from wrong answers, of which there may be few, and takes long; name it to have it tried",
}


def check_name(name: str) -> None:
    """An error, with the nearest ones, if this is the name of neither a detector nor a score."""
    from nescio.detectors import DETECTORS

    if name in DETECTORS:
        return
    if re.split("[:(]", name)[0] not in ALL:
        raise unknown_name("detector or score", name, (*DETECTORS, *ALL))
    score_spec(name)


def detector_named(model: nn.Module, name: str, **settings: Any) -> Detector:
    """A detector by its name in `DETECTORS`, or a threshold by the name of its score."""
    from nescio.detectors import DETECTORS

    check_name(name)
    if name not in DETECTORS and settings:
        raise NescioError(f"{name!r} is a score, which has no settings, but {settings} were given")
    if name not in DETECTORS:
        return Threshold(model, name)
    try:
        return DETECTORS[name](model, **settings)
    except TypeError as error:  # settings it does not have
        raise NescioError(f"{name!r} cannot be made with {settings}: {error}") from error


def candidate_names(given: Sequence[str] | None, draws: int) -> list[str]:
    """Names of detectors and of thresholds' scores, each once: all that are usual for so many draws, or those given."""
    from nescio.detectors import DETECTORS

    if given is None:
        scores = [name for name in SCORES if draws > 1 or not ALL[name].needs_draws]
        return [*scores, *(name for name in DETECTORS if name not in UNTRIED)]
    if (
        not isinstance(given, list | tuple)
        or not given
        or not all(isinstance(name, str) for name in given)
    ):
        raise NescioError(
            f"candidates must be names of detectors or scores, such as ['energy'], not {given!r}"
        )
    for name in given:
        check_name(name)
    return list(dict.fromkeys(given))


def untried(given: Sequence[str] | None) -> dict[str, str]:
    """Which detectors are not among those tried if none are given, and why."""
    return {"meta": UNTRIED["meta"]} if given is None else {}
