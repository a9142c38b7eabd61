"""How a detector's threshold is to be settled, and from what: scores of held-out known data and what was right."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nescio.core.logits import classes
from nescio.data.labelled import as_int64, check_labels
from nescio.errors import NescioError, check_float
from nescio.guarantees.conformal import accepting
from nescio.guarantees.risk import Controlled, controlling
from nescio.guarantees.rounding import reached
from nescio.metrics import balanced_threshold
from nescio.metrics.percent import percent

ACCEPT, CONFIDENCE = 0.95, 0.95


@dataclass(frozen=True)
class CalibrationScores:
    """What a model and a detector made of held-out known data.

    Attributes:
        scores: `(N,)`.
        claimed: `(N,)`, the classes the model gave.
        right: `(N,)`, whether they are right; None of data without labels.
        classes: how many there are.
        aside: what became of other known inputs that were given, in brackets, for an error about too few.
        noise: how much scores were seen to change in batches of other sizes; see `rounding.noise`.
    """

    scores: Tensor
    claimed: Tensor
    right: Tensor | None
    classes: int
    aside: str = ""
    noise: float = 0.0

    @property
    def reached(self) -> Tensor:
        """`(N,)`, how large the scores may come out in another batch."""
        return reached(self.scores, self.noise)


@dataclass(frozen=True)
class Level:
    """One of four ways to settle a threshold; see `Detector.fit`."""

    accept: float | None
    per_class: bool
    balanced: bool
    risk: float | None
    confidence: float

    @classmethod
    def of(
        cls,
        accept: float | None,
        per_class: bool,
        balanced: bool,
        risk: float | None,
        confidence: float | None,
    ) -> "Level":
        """What was asked for, or an error if it cannot be, or is two things at once."""
        asked = [f"accept {accept}"] * (accept is not None) + ["balanced"] * bool(balanced)
        asked += [f"risk {risk}"] * (risk is not None)
        if len(asked) > 1:
            raise NescioError(
                f"{' and '.join(asked)} are two ways to settle one threshold; give one"
            )
        if per_class and (balanced or risk is not None):
            raise NescioError(
                f"thresholds per class go with a share to accept, not with {asked[0]}"
            )
        if confidence is not None and risk is None:
            raise NescioError(
                f"confidence {confidence} is that of a bound on the risk; give a risk (risk, --risk) too"
            )
        if not balanced and risk is None:
            share = ACCEPT if accept is None else accept
            if (
                isinstance(share, bool)
                or not isinstance(share, float | int | np.floating)
                or not 0 < share < 1
            ):
                raise NescioError(
                    f"accept is the share of known inputs to accept, between 0 and 1, not {share!r}"
                )
            accept = float(share)
        bound = None if risk is None else check_float("risk", risk, most=1, inside=True)
        sure = check_float(
            "confidence", CONFIDENCE if confidence is None else confidence, most=1, inside=True
        )
        return cls(accept, bool(per_class), bool(balanced), bound, sure)

    @property
    def judges(self) -> bool:
        """Whether it must know which answers are right."""
        return self.balanced or self.risk is not None

    def settle(self, held: CalibrationScores) -> tuple[Tensor, Controlled | None]:
        """The threshold, `()` or one for each class `(C,)`, and of a bounded risk what it is known by."""
        if self.accept is not None and self.per_class:
            cuts = [self._of_class(held, label, self.accept) for label in range(held.classes)]
            return torch.tensor(cuts, dtype=torch.float64), None
        if self.accept is not None:
            return torch.tensor(
                accepting(held.reached, self.accept, held.aside), dtype=torch.float64
            ), None
        right = needed_labels(held.right)
        if self.risk is not None:
            found = controlling(held.scores, right, self.risk, self.confidence, held.noise)
            return torch.tensor(found.threshold, dtype=torch.float64), found
        return torch.tensor(balancing(held.scores, right), dtype=torch.float64), None

    def promise(self, found: Controlled | None) -> str:
        """What a threshold settled so promises, in words; `found` is what a bounded risk is known by."""
        if found is not None:
            seen = (
                f"accepts {percent(found.coverage)}, {found.errors} of those {found.accepted} wrong"
            )
            return (
                f"with confidence {self.confidence:g}, at most {self.risk:g} of accepted answers are wrong; of "
                f"these it {seen}"
            )
        if self.balanced:
            return "nothing: it told right answers from wrong ones best, in these data"
        each = " of each class that the model answers" if self.per_class else ""
        return f"a new known input{each}, drawn as these were, is accepted with a probability of at least {self.accept:g}"

    @staticmethod
    def _of_class(held: CalibrationScores, label: int, accept: float) -> float:
        own = held.reached[held.claimed == label]
        return accepting(own, accept, f" that the model takes for class {label}{held.aside}")


def balancing(scores: Tensor, right: Tensor) -> float:
    """The threshold that tells right answers from wrong ones best, both counting half."""
    count = int(right.sum())
    if count in (0, len(right)):
        raise NescioError(
            f"balanced=True needs right and wrong answers to tell apart, but {count} of {len(right)} are "
            "right; give other data, or a share to accept"
        )
    return balanced_threshold(scores[right].cpu().numpy(), scores[~right].cpu().numpy())


def needed_labels(right: Tensor | None) -> Tensor:
    """Which answers are right, or an error if the data had no labels to tell."""
    if right is None:
        raise NescioError(
            "this needs labelled data, to tell right answers from wrong ones: a file with labels (of "
            "a CSV file, --label names the column), a dataset of (input, label), or such batches"
        )
    return right


def right_answers(logits: Tensor, labels: Tensor | None) -> Tensor:
    """Which inputs `(B,)` got the class of their label, which must be one of those the model knows."""
    labels = as_int64(needed_labels(labels)).to(logits.device)
    check_labels(labels, logits.shape[2])
    return classes(logits) == labels
