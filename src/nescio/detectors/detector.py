"""What is fitted on known data, scores any input, and decides: a class, or −1 = "I do not know"."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from nescio.data.batches import batches
from nescio.detectors.level import accepting, balancing, right_answers, share_to_accept
from nescio.errors import NescioError
from nescio.logits import classes
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

    def fit(self, known: Any, accept: float | None = None, *, balanced: bool = False) -> Self:
        """Settle the threshold from held-out known data: the smallest of their scores that accepts a share of them.

        Args:
            known: inputs of the kinds the model knows; with labels, if `balanced`.
            accept: the share, in (0, 1]; 0.95 if not given.
            balanced: instead, tell right answers from wrong ones best, each side counting half (Oberdiek et al. 2018,
                eq. 7).
        """
        share = share_to_accept(accept, balanced)
        self.threshold_.fill_(balancing(*self._judged(known)) if share is None else accepting(share, self.score(known)))
        return self

    def _judged(self, known: Any) -> tuple[Tensor, Tensor]:
        """The scores of labelled data, and which answers are right."""
        parts: list[tuple[Tensor, Tensor]] = []
        sweep(self.model, known, lambda x, z, y: parts.append((self.of_batch(x, z), right_answers(z, y))))
        scores, right = zip(*parts, strict=True)
        return torch.cat(scores), torch.cat(right)

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
        scores = self.evidence(x, logits)
        if not scores.isfinite().all():
            raise NescioError(f"{type(self).__name__} gives NaN or infinite scores for some inputs")
        return scores

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
        """Moves and casts as every module's, but for the digits of what was learned, which are those of the scores."""
        learned = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in learned.items():
            moved = self._buffers[name]
            if value is not None and moved is not None:
                self._buffers[name] = value.to(moved.device)
        return self
