"""A second, small classifier of when to trust the first (Oberdiek et al. 2018, sections 4 to 6)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.core.predict import map_batches
from nescio.core.weight_gradients import BatchGradients, batch_gradients
from nescio.detectors.detector import Detector
from nescio.detectors.meta_fit import HIDDEN, KINDS, MetaFit, fit_meta
from nescio.detectors.scorer import correct_answers
from nescio.errors import NescioError, check_name
from nescio.records import MetaWeights, Stopwatch
from nescio.scores.gradient import EXTRA, columns, gradient_features, joined_features
from nescio.seeds import check_seed

Names = Sequence[str]
MIN_ANSWERS = 10  # to trust, and to mistrust, that anything can be learned from


class MetaClassifier(Detector):
    """Unknown if a classifier of gradient statistics mistrusts the answer (Oberdiek et al. 2018).

    The score is its log-odds that the answer is wrong. It is fitted on labelled data the model was
    not trained on, correct answers against wrong ones and, if given, against unknown inputs.

    Args:
        model: any classifier with one output per input.
        features: names of columns of `gradient_features` (`conv2/l2`, `entropy`), of layers
            (`conv2`, `all`) or of statistics (`l2`); by default all. All are standardised.
        kind: a logistic regression without penalty (`glm`), with one on absolute values (`lasso`),
            on squares (`ridge`) or half on each (`elastic_net`), its strength found by
            cross-validation; or a network of 15 units (`nn`).
        seed: of the folds and of the network.

    >>> detector = MetaClassifier(net, features=["entropy", "l2"])
    >>> noise = nescio.data.noise.samples("uniform", known.test, 200)
    >>> detector.fit(known.test, unknown={"uniform": noise}).predict(x)
    tensor([ 0, -1])
    """

    name, learns = "meta", True
    centre_: Tensor
    scale_: Tensor
    weights_: Tensor  # of the features in order or, of a network, of its units
    bias_: Tensor
    hidden_weights_: Tensor
    hidden_bias_: Tensor

    def __init__(
        self, model: nn.Module, features: Names | None = None, kind: str = "lasso", seed: int = 0
    ) -> None:
        super().__init__(model)
        named = isinstance(features, Sequence) and all(isinstance(f, str) for f in features)
        if features is not None and (isinstance(features, str) or not named):
            raise NescioError(f"features must be a list of names such as 'l2', got {features!r}")
        self.kind, self.seed = check_name("kind of meta-classifier", kind, KINDS), check_seed(seed)
        self.features = None if features is None else tuple(features)
        self.feature_names = self.features or ()
        self.record: MetaWeights | None = None  # of the last fit
        self._unknown: Mapping[str, Any] = {}  # data, during a fit
        self._keep(_unfitted(kind, len(self.feature_names)))

    def fit(
        self,
        calibration: Any,
        accept: float | None = None,
        *,
        unknown: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> Self:
        """Learn which answers to mistrust, then set the threshold on other known data.

        Args:
            calibration: labelled data of known kinds that the model was not trained on.
            accept, how: as for every detector; so are `train` data, if given, labelled and new.
            unknown: named unknown data to learn from, such as `{"uniform": noise}`; 200 inputs do.
        """
        sets = {} if unknown is None else unknown
        if not isinstance(sets, Mapping) or not all(isinstance(name, str) for name in sets):
            raise NescioError("unknown data must come with names: {'uniform': data, …}")
        self._unknown = sets
        try:
            return super().fit(calibration, accept, **how)
        finally:
            self._unknown = {}

    def learn(self, data: Any) -> None:
        stopwatch = Stopwatch()
        rows, correct, names = labelled_features(self.model, data)
        find = partial(gradient_features, self.model, log=True)
        others = {name: find(unknown).values for name, unknown in self._unknown.items()}
        counts = {name: len(values) for name, values in others.items()}
        check_counts(int(correct.sum()), int((~correct).sum()), counts)
        chosen = chosen_features(self.features, names)
        values = torch.cat([rows, *others.values()])[:, [names.index(name) for name in chosen]]
        wrong = torch.cat([~correct, correct.new_ones(sum(counts.values()))])
        fitted = fit_meta(self.kind, values, wrong, self.seed)
        self.feature_names = chosen
        self._keep(fitted)
        self.record = MetaWeights(
            kind=self.kind,
            features=chosen,
            weights=None if self.kind == "nn" else tuple(self.weights_.tolist()),
            strength=fitted.strength,
            right=int(correct.sum()),
            wrong=int((~correct).sum()),
            unknown=counts,
            provenance=stopwatch.provenance(self.seed, {"features": self.features}),
        )

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        if not self.feature_names or self.weights_.isnan().any():
            raise NescioError("MetaClassifier is not fitted: call .fit(calibration) first")
        layers = [name.rpartition("/")[0] for name in self.feature_names if name not in EXTRA]
        how: dict[str, Any] = {"log": True, "batch_size": len(x), "progress": False}
        values, names = gradient_features(self.model, x, list(dict.fromkeys(layers)), **how)
        columns = [names.index(check_name("feature", n, names)) for n in self.feature_names]
        rows = values[:, columns]
        hidden = [(self.hidden_weights_, self.hidden_bias_)] if self.kind == "nn" else []
        layer = self.weights_[None], self.bias_
        fitted = MetaFit(self.centre_, self.scale_, (*hidden, layer), None)
        return fitted(rows.to(self.weights_.device)).to(x.device)

    def settings(self) -> dict[str, Any]:
        return {"features": list(self.feature_names) or None, "kind": self.kind, "seed": self.seed}

    def _keep(self, fitted: MetaFit) -> None:
        *hidden, (weights, bias) = fitted.layers
        self.keep(centre_=fitted.centre, scale_=fitted.scale, weights_=weights[0], bias_=bias)
        for weights, bias in hidden:
            self.keep(hidden_weights_=weights, hidden_bias_=bias)


def labelled_features(model: nn.Module, data: Any) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Return log `gradient_features` of labelled data, which answers are correct, and names.

    >>> features, correct, names = labelled_features(net, known.test)
    >>> features.shape, correct.shape, names[:2]
    (torch.Size([500, 25]), torch.Size([500]), ('linear1/l1', 'linear1/l2'))
    """
    correct, parts = [], []

    def on_batch(x: Tensor, gradients: BatchGradients, y: Tensor | None) -> None:
        parts.append(columns(gradients, True, x.device))
        correct.append(correct_answers(gradients.logits, y).to(x.device))

    map_batches(batch_gradients, model, data, on_batch, "gradients", requires_grad=True)
    values, names = joined_features(parts)
    return values, torch.cat(correct), names


def chosen_features(features: Names | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that names of columns, layers or statistics stand for, in their order.

    >>> chosen_features(["conv1", "l2"], ("conv1/l1", "conv1/l2", "all/l1", "all/l2", "entropy"))
    ('conv1/l1', 'conv1/l2', 'all/l2')
    """
    if features is None:
        return names
    aliases = [(name, *name.rsplit("/", 1)) for name in names]
    known = {alias for column in aliases for alias in column}
    for name in features:
        check_name("feature", name, known)
    chosen = tuple(column[0] for column in aliases if set(column) & set(features))
    if not chosen:
        raise NescioError("features=[] leaves nothing to learn from; give names, or None for all")
    return chosen


def check_counts(correct: int, wrong: int, unknown: Mapping[str, int]) -> None:
    """Raise an error that says what is missing if there is too little to learn from."""
    total, others = correct + wrong, sum(unknown.values())
    if correct < MIN_ANSWERS:
        raise NescioError(
            f"only {correct} of {total} known inputs are classified correctly; expected at least "
            f"{MIN_ANSWERS} answers to trust"
        )
    if wrong + others < MIN_ANSWERS:
        raise NescioError(
            f"only {wrong} of {total} known inputs are classified wrongly, and there are {others} "
            f"unknown ones; expected at least {MIN_ANSWERS} answers to mistrust: give more, or "
            "unknown={'uniform': nescio.data.noise.samples('uniform', known.test, 200)}"
        )


def _unfitted(kind: str, features: int) -> MetaFit:
    """Return NaN in the shapes of what will be learned from so many features."""

    def nan(*size: int) -> Tensor:
        return torch.full(size, torch.nan, dtype=torch.float64)

    sizes = [(HIDDEN, features), (1, HIDDEN)] if kind == "nn" else [(1, features)]
    layers = tuple((nan(*size), nan(size[0])) for size in sizes)
    return MetaFit(nan(features), nan(features), layers, None)
