"""How unknown is this input? Scores are functions of logits `(S, N, C)`, and **larger = less known** for each."""

from collections.abc import Callable, Sequence

from torch import Tensor

from nescio.errors import NescioError, unknown_name
from nescio.scores.natural import natural, natural_name
from nescio.scores.output import energy, entropy, margin, max_logit, max_prob, normalised_entropy
from nescio.scores.sampled import expected_entropy, mutual_information, variance

Score = Callable[[Tensor], Tensor]

OUTPUT: dict[str, Score] = {
    "max_prob": max_prob,
    "margin": margin,
    "entropy": entropy,
    "normalised_entropy": normalised_entropy,
    "max_logit": max_logit,
    "energy": energy,
}
SAMPLED: dict[str, Score] = {  # these compare draws, and need S ≥ 2
    "expected_entropy": expected_entropy,
    "variance": variance,
    "mutual_information": mutual_information,
}
SCORES: dict[str, Score] = OUTPUT | SAMPLED


def score_names(given: Sequence[str] | None) -> list[str]:
    """The names of scores that were given, each of them in `SCORES`; a single one may come bare, and None is none.

    >>> score_names("entropy")
    ['entropy']
    """
    if not isinstance(given, Sequence | None):
        raise NescioError(f"scores must be names such as 'entropy', not {given!r}")
    names = [given] if isinstance(given, str) else list(dict.fromkeys(given or ()))
    for name in names:
        if name not in SCORES:
            raise unknown_name("score", name, SCORES)
    return names


__all__ = [
    "OUTPUT",
    "SAMPLED",
    "SCORES",
    "Score",
    "energy",
    "entropy",
    "expected_entropy",
    "margin",
    "max_logit",
    "max_prob",
    "mutual_information",
    "natural",
    "natural_name",
    "normalised_entropy",
    "score_names",
    "variance",
]
