"""What is fitted on known data, scores any input, and decides: a class, or −1 = "I do not know"."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from nescio.data.batches import batches
from nescio.errors import NescioError
from nescio.predict import check_inputs

UNKNOWN = -1


class Detector(nn.Module, ABC):
    """A model with a sense of what it does not know.

    `fit(known)` learns a threshold from held-out known inputs; `score(data)` gives `(N,)` numbers, larger = less
    known; `predict(data)` gives the class, or −1 where the score is above the threshold or the input not finite.
    A subclass brings `evidence`; what it learns are buffers whose names end in an underscore.
    """

    name: ClassVar[str]  # as in DETECTORS
    threshold_: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("threshold_", torch.tensor(math.nan, dtype=torch.float64))

    @abstractmethod
    def evidence(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and classes, both `(N,)`, of a batch of finite inputs; a score of +∞ where there can be no class."""

    def fit(self, known: Any, accept: float = 0.95) -> Self:
        """Take the smallest score, among those of the known inputs, at which this share of them is accepted."""
        if not 0 < accept < 1:
            raise NescioError(f"accept is the share of known inputs to accept, between 0 and 1, not {accept}")
        ordered = self.score(known).sort().values
        rank = math.ceil(round(accept * len(ordered), 9))  # 0.95 · 100 is 95, though floats say 94.99…
        self.threshold_.copy_(ordered[rank - 1])
        return self

    def score(self, data: Any, batch_size: int = 256) -> Tensor:
        """How unknown each input is, `(N,)`, larger = less known; NaN or infinite inputs are an error."""
        scores, before = [], 0
        for x, _ in batches(data, batch_size):
            check_inputs(x, self.model, before)
            scores.append(self.evidence(x)[0])
            if not scores[-1].isfinite().all():
                bad = int((~scores[-1].isfinite()).nonzero()[0])
                raise NescioError(f"the model's output for input {before + bad} is NaN or infinite, so it has no score")
            before += len(x)
        return torch.cat(scores)

    forward = score

    def predict(self, data: Any, batch_size: int = 256) -> Tensor:
        """The class of each input, `(N,)`, or −1 = "I do not know"."""
        if self.threshold_.isnan():
            raise NescioError(
                f"{type(self).__name__} has no threshold yet: call .fit(known) with held-out known data first"
            )
        return torch.cat([self._decide(x) for x, _ in batches(data, batch_size)])

    def _decide(self, x: Tensor) -> Tensor:
        answer = torch.full((len(x),), UNKNOWN, device=x.device)
        sound = x.isfinite().flatten(1).all(1)
        if sound.any():
            scores, classes = self.evidence(x[sound])
            answer[sound] = torch.where(scores <= self.threshold_, classes, UNKNOWN)
        return answer

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beside the model, as plain data for saved files."""
        return {}
