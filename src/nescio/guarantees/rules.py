"""Rules that set a threshold from calibration scores, and what each guarantees."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from nescio.errors import NescioError, check_float
from nescio.guarantees.conformal import conformal_threshold
from nescio.guarantees.risk import Controlled, control_risk
from nescio.guarantees.rounding import rounded_up
from nescio.metrics import balanced_threshold
from nescio.metrics.percent import percent

NO_LABELS = (
    "this needs labelled data, to tell correct answers from wrong ones: a file with labels (of a "
    "CSV file, --label names the column), a dataset of (input, label), or such batches"
)


@dataclass(frozen=True)
class CalibrationScores:
    """Scores of calibration data, and what the model predicted for them.

    Attributes:
        scores: `(N,)`.
        predicted: `(N,)`, the model's classes.
        correct: `(N,)`, whether they are the labels; None without labels.
        classes: how many there are.
        note: what other known inputs were used for, in brackets, for an error about too few.
        noise: how much scores changed between batches; see `rounding.noise`.

    >>> CalibrationScores(torch.tensor([0.2, 1.5, 0.7])).rounded_up
    tensor([0.2000, 1.5000, 0.7000], dtype=torch.float64)
    """

    scores: Tensor
    predicted: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    correct: Tensor | None = None
    classes: int = 1
    note: str = ""
    noise: float = 0.0

    @property
    def rounded_up(self) -> Tensor:
        """Return how large the scores may be in another batch, `(N,)`."""
        return rounded_up(self.scores, self.noise)


class Rule(ABC):
    """Sets a threshold: one number `()`, or one per class `(C,)`.

    >>> rule = Accept(0.9)
    >>> nescio.Threshold(net).fit(known.test, rule=rule).rule
    Accept(accept=0.9)
    """

    needs_labels: ClassVar[bool] = False
    per_class: ClassVar[bool] = False

    @abstractmethod
    def fit(self, calibration: CalibrationScores) -> tuple[Tensor, Controlled | None]:
        """Return the threshold and, of a bounded risk, how it was met."""

    @abstractmethod
    def promise(self, controlled: Controlled | None = None) -> str:
        """Return what such a threshold guarantees for exchangeable inputs, in words."""


@dataclass(frozen=True)
class Accept(Rule):
    """Accept a fraction of known inputs (conformal prediction).

    >>> threshold, _ = Accept(0.95).fit(CalibrationScores(torch.arange(99.0)))
    >>> int(threshold)  # 95 of the 99 scores are at most 94
    94
    >>> Accept(0.95).promise()
    'at least 95 % of known inputs are accepted'
    """

    accept: float = 0.95

    def __post_init__(self) -> None:
        accept = check_float("accept, a fraction of known inputs,", self.accept, 0, 1, inside=True)
        object.__setattr__(self, "accept", accept)

    def fit(self, calibration: CalibrationScores) -> tuple[Tensor, None]:
        scores = _checked(calibration).rounded_up
        threshold = conformal_threshold(scores, self.accept, calibration.note)
        return torch.tensor(threshold, dtype=torch.float64), None

    def promise(self, controlled: Controlled | None = None) -> str:
        return f"at least {100 * self.accept:g} % of known inputs are accepted"


@dataclass(frozen=True)
class AcceptPerClass(Accept):
    """Accept a fraction of known inputs of each predicted class, by a threshold for each.

    >>> scores = CalibrationScores(torch.arange(40.0), torch.arange(40) % 2, classes=2)
    >>> thresholds, _ = AcceptPerClass(0.9).fit(scores)
    >>> thresholds.int()
    tensor([36, 37], dtype=torch.int32)
    """

    per_class = True

    def fit(self, calibration: CalibrationScores) -> tuple[Tensor, None]:
        scores, thresholds = _checked(calibration).rounded_up, []
        for label in range(calibration.classes):
            of = f" that the model assigns to class {label}{calibration.note}"
            class_scores = scores[calibration.predicted == label]
            thresholds.append(conformal_threshold(class_scores, self.accept, of))
        return torch.tensor(thresholds, dtype=torch.float64), None

    def promise(self, controlled: Controlled | None = None) -> str:
        percentage = f"{100 * self.accept:g} %"
        return f"at least {percentage} of known inputs of each predicted class are accepted"


@dataclass(frozen=True)
class ControlRisk(Rule):
    """Bound the error rate among accepted inputs, at a confidence level.

    >>> scores = torch.arange(300.0)
    >>> calibration = CalibrationScores(scores, correct=scores < 200)
    >>> threshold, controlled = ControlRisk(risk=0.05).fit(calibration)
    >>> int(threshold), controlled.errors
    (195, 0)
    """

    risk: float
    confidence_level: float = 0.95
    needs_labels = True

    def __post_init__(self) -> None:
        for name in ("risk", "confidence_level"):
            value = check_float(name, getattr(self, name), most=1, inside=True)
            object.__setattr__(self, name, value)

    def fit(self, calibration: CalibrationScores) -> tuple[Tensor, Controlled]:
        correct, scores, noise = _correct(calibration), calibration.scores, calibration.noise
        controlled = control_risk(scores, correct, self.risk, self.confidence_level, noise)
        return torch.tensor(controlled.threshold, dtype=torch.float64), controlled

    def promise(self, controlled: Controlled | None = None) -> str:
        bound = f"at most {100 * self.risk:g} % of accepted answers are wrong"
        words = f"{bound}, with confidence level {self.confidence_level:g}"
        if controlled is None:
            return words
        accepted = f"{percent(controlled.coverage)} of the calibration inputs are accepted"
        return f"{words}; {accepted}, {controlled.errors} of those {controlled.accepted} wrongly"


@dataclass(frozen=True)
class Balanced(Rule):
    """Separate correct answers from wrong ones best, each side counting half; no guarantee.

    >>> scores = torch.arange(6.0)
    >>> Balanced().fit(CalibrationScores(scores, correct=scores < 4))[0]
    tensor(3., dtype=torch.float64)
    """

    needs_labels = True

    def fit(self, calibration: CalibrationScores) -> tuple[Tensor, None]:
        correct, scores = _correct(calibration), calibration.scores
        count = int(correct.sum())
        if count in (0, len(correct)):
            raise NescioError(
                f"balanced=True needs correct and wrong answers, but {count} of {len(correct)} are "
                "correct; give other data, or a fraction to accept"
            )
        sides = (scores[rows].cpu().numpy() for rows in (correct, ~correct))
        return torch.tensor(balanced_threshold(*sides), dtype=torch.float64), None

    def promise(self, controlled: Controlled | None = None) -> str:
        return "none: the threshold separates correct from wrong answers best on these data"


# those that a file can hold, by name
RULES: dict[str, type[Rule]] = {
    rule.__name__: rule for rule in (Accept, AcceptPerClass, ControlRisk, Balanced)
}


def rule_for(
    accept: float | None = None,
    per_class: bool = False,
    balanced: bool = False,
    risk: float | None = None,
    confidence_level: float | None = None,
    rule: Rule | None = None,
) -> Rule:
    """Return the rule that arguments of `Detector.fit` ask for; raise if they ask for two."""
    asked = [f"accept {accept}"] * (accept is not None) + ["balanced"] * bool(balanced)
    asked += [f"risk {risk}"] * (risk is not None) + [f"rule {rule}"] * (rule is not None)
    if len(asked) > 1:
        raise NescioError(f"{' and '.join(asked)} are two ways to set one threshold; give one")
    if per_class and asked and accept is None:
        raise NescioError(f"thresholds per class need a fraction to accept, not {asked[0]}")
    if confidence_level is not None and risk is None:
        raise NescioError(f"confidence_level {confidence_level} needs a risk, too (risk, --risk)")
    if rule is not None:
        if not isinstance(rule, Rule):
            raise NescioError(f"rule must be a rule such as Accept(0.95), got {rule!r}")
        return rule
    if risk is not None:
        return ControlRisk(risk, 0.95 if confidence_level is None else confidence_level)
    if balanced:
        return Balanced()
    fraction = 0.95 if accept is None else accept
    return AcceptPerClass(fraction) if per_class else Accept(fraction)


def _checked(calibration: object) -> CalibrationScores:
    if not isinstance(calibration, CalibrationScores):
        kind = type(calibration).__name__
        raise NescioError(f"a rule is fitted to CalibrationScores(scores, …), not to a {kind}")
    return calibration


def _correct(calibration: CalibrationScores) -> Tensor:
    correct = _checked(calibration).correct
    if correct is None:
        raise NescioError(NO_LABELS)
    return correct
