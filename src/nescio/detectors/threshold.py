"""The simplest detector: one score, and a threshold on it."""

from typing import Any

from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.detectors.detector import Detector
from nescio.errors import NescioError
from nescio.methods import as_method
from nescio.scores import ScoreLike, score_spec, scores_of

NOTHING = 1e-4  # an energy that rounding, and no input, has made


class NoEnergyError(NescioError):
    """All inputs of a model have the same energy."""


class Threshold(Detector):
    """Known as long as a score stays under a threshold (Hendrycks & Gimpel 2017 for `max_prob`).

    Args:
        model: any classifier.
        score: a name in `SCORES`, of the gradient also with a layer (`gradient_l2:conv2`); by default the one the
            method's paper pairs with it.
    """

    name = "threshold"

    def __init__(self, model: nn.Module, score: ScoreLike | None = None) -> None:
        super().__init__(model)
        self.spec = score_spec(as_method(model).score if score is None else score)
        self.score_name = str(self.spec)

    def check_held(self, scores: Tensor) -> None:
        if self.score_name == "energy" and bool((scores.abs() < NOTHING).all()):
            raise NoEnergyError(
                "the model returns log-probabilities, whose energy is 0 for every input; take another "
                "score, such as max_prob"
            )

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        return scores_of([self.spec], self.model, x, seen.logits.to(x.device))[self.score_name]

    def settings(self) -> dict[str, Any]:
        return {"score": self.score_name}
