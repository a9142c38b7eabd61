"""Why a detector answered what it did."""

import math
from dataclasses import dataclass

from nescio.metrics.percent import percent


@dataclass(frozen=True)
class Explanation:
    """The evidence about one input.

    Attributes:
        answer: the class, or −1 = "I do not know".
        claimed: the class the model itself gives, or −1 if it gives none: its output, or the input, is not finite, or
            holds a word that is unknown to it.
        confidence: the model's own.
        score: how unknown it looks, larger = less known.
        threshold: up to where it would count as known.
        p_value: the share of held-out known inputs at least as odd; 0 where there is no score.
        verdict: all that in words.
    """

    answer: int
    claimed: int
    confidence: float
    score: float
    threshold: float
    p_value: float
    verdict: str

    @classmethod
    def of(
        cls,
        answer: int,
        claimed: int,
        confidence: float,
        score: float,
        threshold: float,
        p: float,
        called: str,
        *,
        of_class: bool = False,
    ) -> "Explanation":
        """The evidence, with its verdict, in which the class the model gives is called so.

        With `of_class` the p-value is among known inputs of that class alone.
        """
        those = f"known inputs taken for {called}" if of_class else "known inputs"
        words = _in_words(answer, claimed, called, confidence, score, threshold, p, those)
        return cls(answer, claimed, confidence, score, threshold, p, words)

    def __str__(self) -> str:
        return self.verdict


def _in_words(
    answer: int,
    claimed: int,
    called: str,
    confidence: float,
    score: float,
    threshold: float,
    p: float,
    those: str,
) -> str:
    if claimed < 0 or math.isnan(score):
        return "I do not know: the input, or what the model makes of it, is not finite, or it holds an unknown word."
    odd = f"{percent(p)} of {those} look at least as odd"
    if answer < 0:
        return (
            f"I do not know: the score {score:.4g} is above {threshold:.4g}; {odd}. The model alone would say "
            f"{called}, with confidence {percent(confidence)}."
        )
    return f"{called[0].upper()}{called[1:]}, with confidence {percent(confidence)}; {odd}."
