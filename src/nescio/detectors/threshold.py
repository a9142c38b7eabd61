"""The simplest detector: a threshold on a score of the model's output."""

from typing import Any

from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.detectors.detector import Detector
from nescio.errors import NescioError
from nescio.methods import as_method
from nescio.scores import ScoreLike, is_named, score_spec, scores_of

ZERO_ENERGY = 1e-4  # what rounding alone can make of it


class NoEnergyError(NescioError):
    """All inputs of a model have the same energy."""


class Threshold(Detector):
    """Unknown if a score is above a threshold (Hendrycks & Gimpel 2017 for `max_prob`).

    Args:
        model: any classifier.
        score: a name in `SCORES`, with parameters if it has any or, of the gradient, a layer
            (`gradient_l2:conv2`); a `ScoreSpec`; or a function of logits `(S, N, C)` giving `(N,)`.
            By default the score that the method's paper uses.

    >>> detector = Threshold(net, score="energy").fit(known.test, accept=0.95)
    >>> detector.predict(x)  # class, or −1: energy takes the input far away for a known one
    tensor([0, 2])
    """

    name = "threshold"

    def __init__(self, model: nn.Module, score: ScoreLike | None = None) -> None:
        super().__init__(model)
        self.spec = score_spec(as_method(model).score if score is None else score)
        self.score_name = str(self.spec)

    def check_calibration(self, scores: Tensor) -> None:
        if self.score_name == "energy" and bool((scores.abs() < ZERO_ENERGY).all()):
            raise NoEnergyError(
                "the model returns log-probabilities, whose energy is 0; use max_prob, say"
            )

    def check_savable(self) -> None:
        if not is_named(self.spec):
            name = self.score_name
            raise NescioError(f"the score {name!r} is a function, not a name, and cannot be saved")

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        logits = forward_pass.logits.to(x.device)
        return scores_of([self.spec], self.model, x, logits)[self.score_name]

    def settings(self) -> dict[str, Any]:
        return {"score": self.score_name}
