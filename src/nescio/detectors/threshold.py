"""The simplest detector: one score of the network's output, and a threshold on it."""

from typing import Any

from torch import Tensor, nn

from nescio.detectors.detector import Detector
from nescio.errors import unknown_name
from nescio.methods import as_method
from nescio.scores import SCORES


class Threshold(Detector):
    """Known as long as a score of the logits stays under a threshold (Hendrycks & Gimpel 2017 for `max_prob`).

    Args:
        model: any classifier.
        score: a name in `SCORES`; by default the one the method's paper pairs with it.
    """

    name = "threshold"

    def __init__(self, model: nn.Module, score: str | None = None) -> None:
        super().__init__(model)
        self.score_name = as_method(model).score if score is None else score
        if self.score_name not in list(SCORES):
            raise unknown_name("score", score, SCORES)

    def evidence(self, x: Tensor, logits: Tensor) -> Tensor:
        return SCORES[self.score_name](logits)

    def settings(self) -> dict[str, Any]:
        return {"score": self.score_name}
