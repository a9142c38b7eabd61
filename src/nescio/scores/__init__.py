"""How unknown is this input? **Larger = less known** for every score.

Most are functions of logits `(S, N, C)`; those of the gradient look into the network, and are functions of the model
and its inputs. `scores_of` gives either.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from nescio.errors import NescioError, unknown_name
from nescio.scores.gradient import (
    GradientFeatures,
    gradient_features,
    gradient_l1,
    gradient_l2,
    gradient_max,
    gradient_min,
    gradient_std,
)
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
OF_LOGITS: dict[str, Score] = OUTPUT | SAMPLED
GRADIENT: dict[
    str, Callable[..., Tensor]
] = {  # of a model and its inputs; `gradient_l2:conv2` is that of one layer
    "gradient_l1": gradient_l1,
    "gradient_l2": gradient_l2,
    "gradient_min": gradient_min,
    "gradient_max": gradient_max,
    "gradient_std": gradient_std,
}
SCORES: dict[str, Callable[..., Tensor]] = OF_LOGITS | GRADIENT


def score_names(given: Sequence[str] | None, table: Mapping[str, Any] = SCORES) -> list[str]:
    """The names of scores that were given, each of them in the table; a single one may come bare, and None is none.

    A score of the gradient may name its layer: `gradient_l2:conv2`.

    >>> score_names("entropy")
    ['entropy']
    """
    if not isinstance(given, Sequence | None):
        raise NescioError(f"scores must be names such as 'entropy', not {given!r}")
    names = [given] if isinstance(given, str) else given or ()
    for name in names:
        if not isinstance(name, str):
            raise unknown_name("score", name, table)
        plain = name.partition(":")[0] if _layered(name) else name
        if plain in GRADIENT and plain not in table:
            raise NescioError(
                f"{name} looks into the network, and is no function of its logits alone; here only "
                f"{', '.join(table)} will do"
            )
        if plain not in table:
            raise unknown_name("score", name, table)
    return list(dict.fromkeys(names))


def usual_scores(draws: int) -> list[str]:
    """The scores of logits with so many draws, all of which cost next to nothing once the logits are there."""
    return list(OF_LOGITS if draws > 1 else OUTPUT)


def scores_of(
    names: Sequence[str], model: nn.Module, x: Tensor, logits: Tensor
) -> dict[str, Tensor]:
    """Scores `(B,)` by name, of a batch of inputs whose logits `(S, B, C)` are at hand.

    Those of the gradient, all together, cost one more pass forward and back.
    """
    found = {name: OF_LOGITS[name](logits) for name in names if name in OF_LOGITS}
    rest = [name.partition(":") for name in names if name not in OF_LOGITS]
    if rest:
        layers = list(dict.fromkeys(layer or "all" for _, _, layer in rest))
        values, columns = gradient_features(
            model, x, layers, log=True, batch_size=len(x), progress=False
        )
        for name, mark, layer in rest:
            statistic = name.removeprefix("gradient_")
            found[name + mark + layer] = values[:, columns.index(f"{layer or 'all'}/{statistic}")]
    return {name: found[name] for name in names}


def _layered(name: str) -> bool:
    return name.partition(":")[0] in GRADIENT and not name.endswith(":")


__all__ = [
    "GRADIENT",
    "OF_LOGITS",
    "OUTPUT",
    "SAMPLED",
    "SCORES",
    "GradientFeatures",
    "Score",
    "energy",
    "entropy",
    "expected_entropy",
    "gradient_features",
    "gradient_l1",
    "gradient_l2",
    "gradient_max",
    "gradient_min",
    "gradient_std",
    "margin",
    "max_logit",
    "max_prob",
    "mutual_information",
    "natural",
    "natural_name",
    "normalised_entropy",
    "score_names",
    "scores_of",
    "usual_scores",
    "variance",
]
