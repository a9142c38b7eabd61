"""The simplest detector: one score of the network's output, and a threshold on it."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.detectors.detector import Detector
from nescio.errors import unknown_name
from nescio.logits import classes
from nescio.methods import as_method
from nescio.predict import predict
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
        if self.score_name not in SCORES:
            raise unknown_name("score", score, SCORES)

    def evidence(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = predict(self.model, x, batch_size=len(x), progress=False)
        scores = torch.full((len(x),), torch.inf, dtype=torch.float64, device=x.device)
        answer = torch.full((len(x),), -1, device=x.device)
        sound = logits.isfinite().all(2).all(0)
        if sound.any():
            scores[sound] = SCORES[self.score_name](logits[:, sound])
            answer[sound] = classes(logits[:, sound])
        return scores, answer

    def settings(self) -> dict[str, Any]:
        return {"score": self.score_name}
