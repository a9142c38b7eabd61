"""A second, small classifier that says whether to trust the first (Oberdiek et al. 2018, sections 4 to 6)."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass
from nescio.core.predict import map_batches
from nescio.core.weight_gradients import BatchGradients, batch_gradients
from nescio.detectors.detector import Detector
from nescio.detectors.level import right_answers
from nescio.detectors.meta_fit import HIDDEN, KINDS, MetaFit, fit_meta
from nescio.errors import NescioError, unknown_name
from nescio.records import MetaWeights, Provenance
from nescio.scores.gradient import (
    EXTRA,
    GradientFeatures,
    columns,
    gradient_features,
    joined_features,
)
from nescio.seeds import check_seed

FEWEST = 10  # of answers to trust, and of answers to mistrust, that anything can be learned from


class MetaClassifier(Detector):
    """Known as long as a classifier of gradient statistics trusts the answer (Oberdiek et al. 2018).

    Its score is the log-odds, by its own reckoning, that the answer is wrong. It is fitted on labelled data the model
    was not trained on, right answers against wrong ones and, if given, against inputs that are known to be unknown.

    Args:
        model: any classifier with one answer for each input.
        features: names of columns of `gradient_features` (`conv2/l2`, `entropy`), of layers (`conv2`, `all`) or of
            statistics (`l2`); by default all. Magnitudes are taken by their logarithms, and all are standardised.
        kind: a logistic regression without penalty (`glm`), with one on absolute values (`lasso`), on squares (`ridge`)
            or half on each (`elastic_net`), its strength found by cross-validation; or a network of 15 units (`nn`).
        seed: of the folds and of the network.
    """

    name, learns = "meta", True
    centre_: Tensor
    scale_: Tensor
    weights_: Tensor  # of the features in order or, of a network, of its units
    bias_: Tensor
    hidden_weights_: Tensor
    hidden_bias_: Tensor

    def __init__(
        self,
        model: nn.Module,
        features: Sequence[str] | None = None,
        kind: str = "lasso",
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if kind not in KINDS:
            raise unknown_name("kind of meta-classifier", kind, KINDS)
        if features is not None and not _is_list_of_names(features):
            raise NescioError(
                f"features must be a list of names, such as ['all/l2', 'entropy'], not {features!r}"
            )
        self.kind, self.seed = kind, check_seed(seed)
        self.features = None if features is None else tuple(features)
        self.feature_names = self.features or ()
        self.record: MetaWeights | None = None  # of the fit, if it was made here
        self._mistrusted: Mapping[str, Any] = {}  # unknown data, during a fit
        self._keep(_nothing(kind, len(self.feature_names)))

    def fit(
        self,
        known: Any,
        accept: float | None = None,
        *,
        unknown: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> Self:
        """Learn which answers to mistrust, then settle the threshold on known data it has not learned from.

        Args:
            known: labelled data of the kinds the model knows, which it was not trained on.
            accept, how: as for every detector; `train`, if given, is labelled and was not trained on either.
            unknown: named data of other kinds to learn to mistrust, such as `{"uniform": noise}`; 200 inputs will do.
        """
        sets = {} if unknown is None else unknown
        if not isinstance(sets, Mapping) or not all(isinstance(name, str) for name in sets):
            raise NescioError("unknown data must come with names: {'uniform': data, …}")
        self._mistrusted = sets
        try:
            return super().fit(known, accept, **how)
        finally:
            self._mistrusted = {}

    def learn(self, data: Any) -> None:
        started, sets = time.monotonic(), self._mistrusted
        rows, right, names = judged_features(self.model, data)
        others = {
            name: gradient_features(self.model, data, log=True).values
            for name, data in sets.items()
        }
        counts = {name: len(values) for name, values in others.items()}
        check_counts(int(right.sum()), int((~right).sum()), counts)
        chosen = chosen_features(self.features, names)
        values = torch.cat([rows, *others.values()])[:, [names.index(name) for name in chosen]]
        wrong = torch.cat([~right, right.new_ones(sum(counts.values()))])
        found = fit_meta(self.kind, values, wrong, self.seed)
        self.feature_names = chosen
        self._keep(found)
        self.record = MetaWeights(
            kind=self.kind,
            features=chosen,
            weights=None if self.kind == "nn" else tuple(self.weights_.tolist()),
            strength=found.strength,
            right=int(right.sum()),
            wrong=int((~right).sum()),
            unknown=counts,
            provenance=Provenance.now(
                self.seed, {"features": self.features}, time.monotonic() - started
            ),
        )

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        if not self.feature_names or self.weights_.isnan().any():
            raise NescioError(
                "MetaClassifier has learned nothing yet: call .fit(known) with labelled data first"
            )
        layers = list(
            dict.fromkeys(
                name.rpartition("/")[0] for name in self.feature_names if name not in EXTRA
            )
        )
        values, names = gradient_features(
            self.model, x, layers, log=True, batch_size=len(x), progress=False
        )
        if missing := [name for name in self.feature_names if name not in names]:
            raise unknown_name("feature", missing[0], names)
        rows = values[:, [names.index(name) for name in self.feature_names]]
        return self._kept()(rows.to(self.weights_.device)).to(x.device)

    def settings(self) -> dict[str, Any]:
        return {"features": list(self.feature_names) or None, "kind": self.kind, "seed": self.seed}

    def _keep(self, found: MetaFit) -> None:
        """What was learned, as buffers, which are saved and moved with the rest."""
        *hidden, (weights, bias) = found.layers
        learned = {
            "centre_": found.centre,
            "scale_": found.scale,
            "weights_": weights[0],
            "bias_": bias,
        }
        if hidden:
            learned |= {"hidden_weights_": hidden[0][0], "hidden_bias_": hidden[0][1]}
        self.keep(**learned)

    def _kept(self) -> MetaFit:
        hidden = [(self.hidden_weights_, self.hidden_bias_)] if self.kind == "nn" else []
        return MetaFit(
            self.centre_, self.scale_, (*hidden, (self.weights_[None], self.bias_)), None
        )


def judged_features(model: nn.Module, known: Any) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """`gradient_features` of labelled data, with logarithms; which answers `(N,)` are right; the features' names."""
    right: list[Tensor] = []
    found: list[GradientFeatures] = []

    def on_batch(x: Tensor, gradients: BatchGradients, y: Tensor | None) -> None:
        found.append(columns(gradients, True, x.device))
        right.append(right_answers(gradients.logits, y).to(x.device))

    map_batches(batch_gradients, model, known, on_batch, "gradients", requires_grad=True)
    values, names = joined_features(found)
    return values, torch.cat(right), names


def chosen_features(given: Sequence[str] | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that names of columns, layers or statistics stand for, in the columns' own order.

    >>> chosen_features(["conv1", "l2", "entropy"], ("conv1/l1", "conv1/l2", "all/l1", "all/l2", "entropy", "max_prob"))
    ('conv1/l1', 'conv1/l2', 'all/l2', 'entropy')
    """
    if given is None:
        return names
    known = [(name, *name.rsplit("/", 1)) for name in names]
    words = {word for ways in known for word in ways}
    for word in given:
        if word not in words:
            raise unknown_name("feature", word, words)
    chosen = tuple(ways[0] for ways in known if set(ways) & set(given))
    if not chosen:
        raise NescioError("features=[] leaves nothing to learn from; give names, or None for all")
    return chosen


def check_counts(right: int, wrong: int, unknown: Mapping[str, int]) -> None:
    """An error that says what is missing if there is too little to learn from."""
    if right < FEWEST:
        raise NescioError(
            f"only {right} of {right + wrong} known inputs are classified rightly; a meta-classifier "
            f"needs at least {FEWEST} answers to trust"
        )
    if wrong + sum(unknown.values()) < FEWEST:
        raise NescioError(
            f"only {wrong} of {right + wrong} known inputs are classified wrongly, and there are "
            f"{sum(unknown.values())} unknown ones; a meta-classifier needs at least {FEWEST} answers to "
            "mistrust: fit it on more held-out data, or give some unknown ones, such as "
            "unknown={'uniform': nescio.data.noise.samples('uniform', known.test, 200)}"
        )


def _is_list_of_names(given: object) -> bool:
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str)
        and all(isinstance(one, str) for one in given)
    )


def _nothing(kind: str, features: int) -> MetaFit:
    """Room for what will be learned from so many features."""
    sizes = [(HIDDEN, features), (1, HIDDEN)] if kind == "nn" else [(1, features)]
    room = [(_nan(out, given), _nan(out)) for out, given in sizes]
    return MetaFit(_nan(features), _nan(features), tuple(room), None)


def _nan(*size: int) -> Tensor:
    return torch.full(size, torch.nan, dtype=torch.float64)
