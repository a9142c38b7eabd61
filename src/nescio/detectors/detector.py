"""The abstract detector: fitted on known data, it answers with a class or −1 = "I do not know"."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from nescio.data.batches import halves
from nescio.data.overlap import check_disjoint
from nescio.detectors import answers as ans
from nescio.detectors.scorer import Scorer, add_batch_axis, calibration_scores
from nescio.errors import NescioError, check_int
from nescio.guarantees.conformal import Calibrated
from nescio.guarantees.risk import Controlled
from nescio.guarantees.rules import Rule, rule_for


class Detector(Scorer):
    """A model that can say "I do not know": a score, and a threshold set by calibration data.

    A subclass brings `score_batch(x, forward_pass)`, and `learn` if it learns more than that.

    Attributes:
        threshold_: inputs that score above it are unknown; one number, or one for each class.
        calibration_: sorted scores of the calibration data, rounded up, which give p-values.
        calibration_class_: the model's class of each, if thresholds are per class; else empty.
        rule: how the last fit set the threshold; None before a fit.
        controlled: how the last fit met a bound on the risk, or None.

    >>> detector = nescio.Mahalanobis(net).fit(known.test, accept=0.9, train=known.train)
    >>> detector.predict(x), detector.p_value(x) > 0.05  # −1 = "I do not know"
    (tensor([ 0, -1]), tensor([ True, False]))
    """

    learns: ClassVar[bool] = False  # whether from data other than those that set the threshold
    split_note: str = "set aside to learn from; give train, or --train, to use all"
    threshold_: Tensor
    calibration_: Tensor
    calibration_class_: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self._reset()
        self.keep(input_dims_=torch.tensor(0))

    def _reset(self) -> None:
        self.rule: Rule | None = None
        self.controlled: Controlled | None = None
        self._split = False  # whether calibration data had to be shared out
        nan, empty = torch.tensor(math.nan, dtype=torch.float64), torch.empty(0)
        self.keep(threshold_=nan, calibration_=empty.double(), calibration_class_=empty.long())

    def learn(self, data: Any) -> None:
        """Learn from known data what there is to learn before the threshold."""

    def check_calibration(self, scores: Tensor) -> None:
        """Raise an error if calibration scores `(N,)` cannot set a threshold."""

    def fit(
        self,
        calibration: Any,
        accept: float | None = None,
        *,
        train: Any = None,
        per_class: bool = False,
        balanced: bool = False,
        risk: float | None = None,
        confidence_level: float | None = None,
        rule: Rule | None = None,
        batch_size: int = 256,
    ) -> Self:
        """Set the threshold by known calibration data, in one of four ways (`nescio.guarantees`).

        Args:
            calibration: inputs of known kinds that the model was not trained on.
            accept: the fraction of known inputs to accept, in (0, 1); 0.95 by default.
            train: data to learn from, such as the model's; else half of `calibration`, at random.
            per_class: whether that fraction is to hold for each predicted class.
            balanced: separate correct from wrong answers best (Oberdiek et al. 2018, eq. 7).
            risk: error rate to allow among accepted inputs (Geifman & El-Yaniv 2017).
            confidence_level: of that bound, 0.95 by default.
            rule: such a rule itself, in place of the arguments above.
            batch_size: inputs per forward pass; a loader has its own.
        """
        self.batch_size = check_int("batch_size", batch_size)
        rule = rule_for(accept, per_class, balanced, risk, confidence_level, rule)
        if self.learns:
            check_disjoint(calibration, train)
        self._reset()  # should it fail, nothing is half done
        if self.learns and train is None:
            train, calibration = halves(calibration, batch_size=batch_size)
            self._split = True
        if self.learns:
            self.learn(train)
        note = f" (as many were {self.split_note})" if self._split else ""
        scores, dims = calibration_scores(self, calibration, rule.needs_labels, note)
        self.check_calibration(scores.scores)
        threshold, self.controlled = rule.fit(scores)
        sorted_scores, order = scores.rounded_up.sort(stable=False)
        labels = scores.predicted[order] if rule.per_class else scores.predicted[:0]
        self.keep(threshold_=threshold, calibration_=sorted_scores, calibration_class_=labels)
        self.keep(input_dims_=torch.tensor(dims))
        self.rule = rule
        return self

    def predict(self, data: Any, batch_size: int = 256) -> Tensor:
        """Return the class of each input `(N,)`, or −1 = "I do not know", also if not finite."""
        return self._answers(data, batch_size).answer

    def p_value(self, data: Any, batch_size: int = 256) -> Tensor:
        """Return the fraction of calibration inputs, and itself, that score at least as high.

        With thresholds per class these are of the same predicted class; 0 if not finite.
        """
        return self._answers(data, batch_size).p_value

    def explain(
        self, data: Any, batch_size: int = 256, classes: Sequence[str] | None = None
    ) -> list[ans.Explanation]:
        """Return class, confidence, score, p-value and verdict of each input, naming `classes`."""
        return ans.explanations(self._answers(data, batch_size), self.threshold_, classes)

    def _answers(self, data: Any, batch_size: int) -> ans.Answers:
        if self.threshold_.isnan().any():
            raise NescioError(f"{type(self).__name__} is not fitted: call .fit(calibration) first")
        rows, single = add_batch_axis(data, self.input_dims_)
        answers = ans.answer_all(self, rows, batch_size, self._calibrated)
        return ans.Answers(*(part[0] for part in answers)) if single else answers

    @property
    def _calibrated(self) -> Calibrated:
        return Calibrated(self.threshold_, self.calibration_, self.calibration_class_)

    def __repr__(self) -> str:
        title = f"{type(self).__name__}({{}}) over {type(self.model).__name__}"
        promise = None if self.rule is None else self.rule.promise(self.controlled)
        return ans.description(title, self.shown_settings(), self._calibrated, promise)
