"""A classifier of tables as scikit-learn has them, which can also answer "I do not know"."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from nescio.arrays import Array, as_array, is_tensor
from nescio.core.logits import classes, mean_log_probs
from nescio.core.predict import map_logits
from nescio.data.samples import Samples
from nescio.data.transforms import Normalise
from nescio.detectors import Threshold
from nescio.errors import NescioError, check_float, unknown_name
from nescio.guarantees.conformal import calibration_inputs
from nescio.methods import DUQ, Method, method_for, own_settings
from nescio.methods.mc_dropout import DROPOUT
from nescio.models import mlp
from nescio.records import History
from nescio.scores import score_spec
from nescio.seeds import derived_seed, seed_generators
from nescio.training.train import train as train_model

# Where a method's own defaults, those of its paper, are not for a few hundred rows.
SMALL: dict[str, dict[str, Any]] = {
    "duq": {"momentum": 0.9},  # centroids that follow within the tens of steps there are
    "acet": {"steps": 5},
}


class NescioClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network for tables that knows how unknown an input is, and may say so.

    It is a scikit-learn estimator: `Pipeline`, `cross_val_score` and `GridSearchCV` take it as any other. Features are
    standardised inside, and all is computed in float64.

    Args:
        method: a name in `nescio.methods.METHODS`.
        hidden: widths of the hidden layers; an RBF network has none.
        dropout: share of units dropped in training; by default none, and 0.2 for "mc_dropout".
        method_settings: what else the method takes, such as `{"length_scale": 0.2}` of "duq".
        epochs, batch_size, learning_rate, weight_decay: of Adam, whose rate goes up and down once (`OneCycle`).
        reject: None, and `predict` always answers a class; or the share of known inputs to accept, such as 0.95, and
            it answers `unknown` to the others. New inputs like those of `fit` are accepted with at least that
            probability (conformal prediction, exact in finite samples), for which part of the data is set aside.
        calibration: the share to set aside.
        unknown: what "I do not know" is called: by default −1, or "unknown" where classes are texts.
        uncertainty_score: a name in `nescio.scores.SCORES`; by default the one the method's paper pairs with it.
        random_state: a whole number makes everything the same again.
        verbose: whether to show progress bars.

    Attributes:
        classes_: the labels there are, sorted.
        n_features_in_, feature_names_in_: how many columns, and their names if they had any.
        model_: the trained method, which takes raw inputs.
        detector_: the `Threshold` on it, which `nescio.save` can keep.
        threshold_: the uncertainty above which the answer is `unknown`; None without `reject`.
        history_: the record of the training.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = NescioClassifier("duq", reject=0.9, random_state=0).fit(X, y)
    >>> classifier.predict([[5.1, 3.5, 1.4, 0.2], [30.0, 0.1, 30.0, 0.1]])
    array([ 0, -1])
    """

    def __init__(
        self,
        method: str = "duq",
        *,
        hidden: Sequence[int] = (100, 100),
        dropout: float | None = None,
        method_settings: Mapping[str, Any] | None = None,
        epochs: int = 50,
        batch_size: int = 64,
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        reject: float | None = None,
        calibration: float = 0.2,
        unknown: Any = None,
        uncertainty_score: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.dropout = dropout
        self.method_settings = method_settings
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.reject = reject
        self.calibration = calibration
        self.unknown = unknown
        self.uncertainty_score = uncertainty_score
        self.random_state = random_state
        self.verbose = verbose

    classes_: Array
    model_: Method
    detector_: Threshold
    threshold_: float | None
    history_: History

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a table `(N, F)` of numbers and N labels, whole numbers or texts."""
        x, y = validate_data(self, _gated(X), _gated(y), dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise NescioError(
                f"all {len(y)} labels are of one class, {self._shown(0)}; at least two are needed"
            )
        self._answers = self._named()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        known = Samples(x, labels)
        accept = (
            None if self.reject is None else check_float("reject", self.reject, most=1, inside=True)
        )
        train, held = (known, None) if accept is None else self._set_aside(known, accept, seed)
        self.model_ = self._made(train, seed)
        score = self.uncertainty_score
        if score is not None and score_spec(score).needs_draws and not self.model_.sampled:
            raise NescioError(
                f"{self.uncertainty_score!r} compares draws, of which {self.method!r} has none; take a "
                "score such as 'entropy', or a method that draws, such as 'ensemble'"
            )
        self.history_ = train_model(
            self.model_,
            train,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule="one_cycle",
            seed=seed,
            progress=bool(self.verbose),
        )
        self.detector_ = Threshold(self.model_, self.uncertainty_score)
        self.detector_.progress = bool(self.verbose)
        self.threshold_ = None
        if held is not None:
            self.detector_.fit(held, accept=accept)
            self.threshold_ = float(self.detector_.threshold_)
        return self

    def predict(self, X: Any) -> Array:
        """The class of each input, `(N,)`; with `reject`, `unknown` where the uncertainty is above the threshold."""
        x = self._checked(X)
        if self.threshold_ is None:
            return self.classes_[self._of_logits(x, classes)]
        found: Array = self._answers[self.detector_.predict(x).numpy()]  # −1 is the last of them
        return found

    def predict_proba(self, X: Any) -> Array:
        """Probabilities `(N, C)` that sum to one; of "duq" the shares of the kernels, however small these all are.

        So they tell which class it is if it is any; how unknown an input is, `uncertainty` tells.
        """
        return self._of_logits(self._checked(X), lambda logits: mean_log_probs(logits)[0].exp())

    def uncertainty(self, X: Any) -> Array:
        """How unknown each input is, `(N,)`, larger = less known, by the score that `reject` decides by."""
        x = self._checked(X)  # first, since there may be no detector yet
        return self.detector_.score(x).numpy()

    def _named(self) -> Array:
        """All answers there can be: the classes and, last, "I do not know"."""
        texts = isinstance(self.classes_[0], str)
        unknown: Any = ("unknown" if texts else -1) if self.unknown is None else self.unknown
        if not isinstance(unknown, str if texts else Real):
            raise NescioError(
                f"unknown={unknown!r} is not of the kind of the classes, such as {self._shown(0)}"
            )
        if self.reject is not None and unknown in self.classes_.tolist():
            raise NescioError(
                f"{unknown!r} is a class of these data, and cannot also mean that it is not known; give "
                "another one as unknown=…, or leave out reject"
            )
        return np.append(self.classes_, np.asarray(unknown))

    def _set_aside(self, known: Samples, accept: float, seed: int) -> tuple[Samples, Samples]:
        """Data to learn from, and by chance alone, as the guarantee asks for, data to settle the threshold on."""
        share = check_float("calibration", self.calibration, most=1, inside=True)
        count, needed = round(share * len(known)), calibration_inputs(accept)
        if count < needed or count == len(known):
            raise NescioError(
                f"reject={accept:g} takes at least {needed} inputs set aside, and some to learn from, "
                f"but calibration={share:g} of {len(known)} is {count}; give more inputs, or another "
                "share"
            )
        rows = torch.arange(len(known))
        train, held = (
            known.select(part)
            for part in train_test_split(rows, test_size=count, random_state=seed)
        )
        if missing := set(range(len(self.classes_))) - set(train.labels.tolist()):
            raise NescioError(
                f"no input of class {self._shown(min(missing))} is left to learn from, once {count} "
                f"of {len(known)} are set aside by chance; give more of that class, or a smaller "
                "calibration"
            )
        return train, held

    def _made(self, train: Samples, seed: int) -> Method:
        """The method, untrained, with the standardisation of its training data."""
        if not isinstance(self.method_settings, Mapping | None):
            raise NescioError(
                f"method_settings must be a dict such as {{'samples': 50}}, not {self.method_settings!r}"
            )
        settings = dict(self.method_settings or {})
        for name in settings:
            if name not in (known := own_settings(self.method)):
                raise unknown_name(f"setting of {self.method}", name, known)
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = StandardScaler().fit(train.inputs.numpy())
        if not (fine := np.isfinite(scaler.mean_) & np.isfinite(scaler.scale_)).all():
            column = int(np.argmin(fine))
            raise NescioError(
                f"feature {column} cannot be standardised in float64: its values reach "
                f"{float(train.inputs[:, column].abs().max()):g}; give it in another unit"
            )
        normalise = Normalise(torch.from_numpy(scaler.mean_), torch.from_numpy(scaler.scale_))
        dropout = (
            (DROPOUT if self.method == "mc_dropout" else 0.0)
            if self.dropout is None
            else self.dropout
        )
        make_net = partial(mlp, train.shape[0], hidden=self.hidden, dropout=dropout)
        settings = SMALL.get(self.method, {}) | settings
        with torch.random.fork_rng():
            seed_generators(derived_seed(seed, "weights", 0))
            model = method_for(
                self.method, make_net, len(self.classes_), normalise, **settings
            ).double()
        if isinstance(model, DUQ):
            model.met.fill_(
                True
            )  # all classes are there, though of rare ones the first batch may hold none
        return model

    def _shown(self, label: int) -> str:
        return repr(
            self.classes_.tolist()[label]
        )  # as Python's own, without the name of numpy's type

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        x: Array = validate_data(self, _gated(X), dtype=np.float64, reset=False)
        return x

    def _of_logits(self, x: Array, what: Callable[[Tensor], Tensor]) -> Array:
        """What a function makes of logits `(S, B, C)`, batch by batch."""
        parts: list[Tensor] = []
        map_logits(
            self.model_,
            x,
            lambda _, logits, __: parts.append(what(logits)),
            progress=bool(self.verbose),
        )
        return torch.cat(parts).numpy()


def _gated(values: Any) -> Any:
    """What scikit-learn is given to check: it knows no tensors, and would not see what is masked."""
    return (
        as_array(values) if is_tensor(values) or isinstance(values, np.ma.MaskedArray) else values
    )
