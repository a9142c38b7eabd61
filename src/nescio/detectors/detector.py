"""What is fitted on known data, scores any input, and decides: a class, or −1 = "I do not know"."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from nescio.data.batches import batches
from nescio.errors import NescioError
from nescio.logits import classes
from nescio.metrics.ranking import accepted_count
from nescio.predict import sweep
from nescio.seeds import derived_seed, start_from
from nescio.untouched import check_model

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
        check_model(model)
        self.model = model
        self.register_buffer("threshold_", torch.tensor(math.nan, dtype=torch.float64))

    @abstractmethod
    def evidence(self, x: Tensor, logits: Tensor) -> Tensor:
        """Scores `(B,)` of a batch of finite inputs and the model's finite logits `(S, B, C)` for them."""

    def fit(self, known: Any, accept: float = 0.95) -> Self:
        """Take the smallest score, among those of the known inputs, at which this share of them is accepted."""
        if not isinstance(accept, float | int) or not 0 < accept <= 1:
            raise NescioError(f"accept is the share of known inputs to accept, in (0, 1], not {accept}")
        ordered = self.score(known).sort().values
        self.threshold_.copy_(ordered[accepted_count(len(ordered), accept) - 1])
        return self

    def score(self, data: Any, batch_size: int = 256) -> Tensor:
        """How unknown each input is, `(N,)`, larger = less known; NaN or infinite inputs are an error."""
        scores: list[Tensor] = []
        sweep(self.model, data, lambda x, logits, _: scores.append(self.of_batch(x, logits)), batch_size=batch_size)
        return torch.cat(scores)

    forward = score

    def of_batch(self, x: Tensor, logits: Tensor) -> Tensor:
        """The scores of a batch whose logits are already at hand, or an error if the model's output is not finite."""
        if not logits.isfinite().all():
            raise NescioError("the model's output for some inputs is NaN or infinite, so they have no score")
        return self.evidence(x, logits)

    def predict(self, data: Any, batch_size: int = 256) -> Tensor:
        """The class of each input, `(N,)`, or −1 = "I do not know"."""
        if self.threshold_.isnan():
            raise NescioError(f"{type(self).__name__} has no threshold yet: call .fit(known) with held-out data first")
        with torch.random.fork_rng():
            start_from(derived_seed(0, "data", 0))  # as in `score`
            return torch.cat([self._decide(x) for x, _ in batches(data, batch_size)])

    def _decide(self, x: Tensor) -> Tensor:
        answer = torch.full((len(x),), UNKNOWN, device=x.device)
        rows = x.isfinite().flatten(1).all(1).nonzero().flatten()

        def visit(x: Tensor, logits: Tensor, _: Tensor | None) -> None:
            fine = logits.isfinite().all(2).all(0)
            if fine.any():
                scores, found = self.evidence(x[fine], logits[:, fine]), classes(logits[:, fine])
                answer[rows[fine]] = torch.where(scores <= self.threshold_.to(scores.device), found, UNKNOWN)

        if len(rows):
            sweep(self.model, x[rows], visit, batch_size=len(rows), progress=False)
        return answer

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beside the model, as plain data for saved files."""
        return {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves and casts as every module's, but for the threshold's digits, which are those of the scores."""
        threshold = self.threshold_
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.threshold_ = threshold.to(self.threshold_.device)
        return self
