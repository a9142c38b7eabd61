"""A scikit-learn classifier for tables, which can also answer "I do not know"."""

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
from nescio.errors import NescioError, check_float, check_name
from nescio.guarantees.conformal import min_calibration_inputs
from nescio.methods import Method, default_settings, method_class, method_for
from nescio.models import mlp
from nescio.records import History
from nescio.scores import score_spec
from nescio.seeds import derived_seed, seed_generators
from nescio.training.train import train as train_model

# settings that `train` takes
OF_TRAINING = ("epochs", "batch_size", "learning_rate", "weight_decay")


class NescioClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network for tables that scores how unknown an input is, and may reject it.

    It is a scikit-learn estimator: `Pipeline`, `cross_val_score` and `GridSearchCV` take it as any
    other. Features are standardised inside, and all is computed in float64.

    Args:
        method: a name in `nescio.methods.METHODS`.
        hidden: widths of the hidden layers; an RBF network has none.
        dropout: fraction of units dropped in training; by default 0, and 0.2 for "mc_dropout".
        method_settings: further arguments of the method, such as `{"length_scale": 0.2}` of "duq".
        epochs, batch_size, learning_rate, weight_decay: of Adam, with the schedule `OneCycle`.
        reject: None, and `predict` always returns a class; or the fraction of known inputs to
            accept, such as 0.95, and it returns `unknown` for the others. New inputs like those of
            `fit` are accepted with at least that probability (conformal prediction, exact in finite
            samples), for which calibration data are set aside.
        calibration: the fraction to set aside.
        unknown: the label for "I do not know": by default −1, or "unknown" where classes are texts.
        uncertainty_score: a name in `nescio.scores.SCORES`; by default that of the method's paper.
        random_state: an int makes results reproducible.
        verbose: whether to show progress bars.

    Attributes:
        classes_: the labels, sorted.
        n_features_in_, feature_names_in_: number of columns, and their names if they had any.
        model_: the trained method, which takes raw inputs.
        detector_: the `Threshold` on it, which `nescio.save` can write.
        threshold_: the uncertainty above which inputs are rejected; None without `reject`.
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
        self.method, self.hidden, self.dropout = method, hidden, dropout
        self.method_settings = method_settings
        self.epochs, self.batch_size = epochs, batch_size
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.reject, self.calibration, self.unknown = reject, calibration, unknown
        self.uncertainty_score = uncertainty_score
        self.random_state, self.verbose = random_state, verbose

    classes_: Array
    model_: Method
    detector_: Threshold
    threshold_: float | None
    history_: History

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a table `(N, F)` of numbers and N labels, ints or texts."""
        x, y = validate_data(self, _for_sklearn(X), _for_sklearn(y), dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            only = self._class_name(0)
            raise NescioError(f"all {len(y)} labels are of one class, {only}; give at least two")
        self._answers = self._all_answers()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        known, calibration, accept = Samples(x, labels), None, None
        if self.reject is not None:
            accept = check_float("reject", self.reject, most=1, inside=True)
            known, calibration = self._split(known, accept, seed)
        self.model_ = self._untrained(known, seed)
        score = self.uncertainty_score
        if score is not None and score_spec(score).needs_draws and not self.model_.sampled:
            problem = f"{score!r} compares draws, of which {self.method!r} has none"
            advice = "use a score such as 'entropy', or a stochastic method, such as 'ensemble'"
            raise NescioError(f"{problem}; {advice}")
        how: dict[str, Any] = {name: getattr(self, name) for name in OF_TRAINING}
        how |= {"schedule": "one_cycle", "seed": seed, "progress": bool(self.verbose)}
        self.history_ = train_model(self.model_, known, **how)
        self.detector_ = Threshold(self.model_, score)
        self.detector_.progress = bool(self.verbose)
        self.threshold_ = None
        if calibration is not None:
            self.detector_.fit(calibration, accept=accept)
            self.threshold_ = float(self.detector_.threshold_)
        return self

    def predict(self, X: Any) -> Array:
        """Return the class of each input, `(N,)`, or with `reject`, `unknown` for rejected ones."""
        x = self._checked(X)
        if self.threshold_ is None:
            return self.classes_[self._of_logits(x, classes)]
        predicted: Array = self._answers[self.detector_.predict(x).numpy()]  # −1 is the last
        return predicted

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities `(N, C)` that sum to 1; of "duq" its kernels, divided by their sum.

        They say which class it is if it is any; `uncertainty` says how unknown an input is.
        """
        return self._of_logits(self._checked(X), lambda logits: mean_log_probs(logits)[0].exp())

    def uncertainty(self, X: Any) -> Array:
        """Return the score `(N,)` that `reject` decides by; higher = more likely unknown (OOD)."""
        x = self._checked(X)  # first, since there may be no detector yet
        return self.detector_.score(x).numpy()

    def _all_answers(self) -> Array:
        """Return all classes and, last, the label for "I do not know"."""
        texts = isinstance(self.classes_[0], str)
        unknown: Any = ("unknown" if texts else -1) if self.unknown is None else self.unknown
        if not isinstance(unknown, str if texts else Real):
            expected = f"the type of the classes, {self._class_name(0)}"
            raise NescioError(f"unknown must be of {expected}, got {unknown!r}")
        if self.reject is not None and unknown in self.classes_.tolist():
            problem = f"{unknown!r} is a class of these data, and cannot also mean unknown"
            raise NescioError(f"{problem}; give another one as unknown=…, or leave out reject")
        return np.append(self.classes_, np.asarray(unknown))

    def _split(self, known: Samples, accept: float, seed: int) -> tuple[Samples, Samples]:
        """Return training and calibration data, split at random, as the guarantee requires."""
        fraction = check_float("calibration", self.calibration, most=1, inside=True)
        count, needed = round(fraction * len(known)), min_calibration_inputs(accept)
        if count < needed or count == len(known):
            least = f"at least {needed} calibration inputs, and some to train on"
            size = f"calibration={fraction:g} of {len(known)} is {count}"
            advice = "give more inputs, or another fraction"
            raise NescioError(f"reject={accept:g} takes {least}, but {size}; {advice}")
        rows = train_test_split(torch.arange(len(known)), test_size=count, random_state=seed)
        train, calibration = (known.select(part) for part in rows)
        if missing := set(range(len(self.classes_))) - set(train.labels.tolist()):
            problem = f"no input of class {self._class_name(min(missing))} is left to train on"
            aside = f"once {count} of {len(known)} are set aside"
            raise NescioError(f"{problem}, {aside}; give more of it, or a smaller calibration")
        return train, calibration

    def _untrained(self, train: Samples, seed: int) -> Method:
        """Return the method, untrained, with the standardisation of its training data."""
        if not isinstance(self.method_settings, Mapping | None):
            raise NescioError(f"method_settings must be a dict, got {self.method_settings!r}")
        settings = dict(self.method_settings or {})
        for name in settings:
            check_name(f"setting of {self.method}", name, default_settings(self.method))
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = StandardScaler().fit(train.inputs.numpy())
        if not (fine := np.isfinite(scaler.mean_) & np.isfinite(scaler.scale_)).all():
            column = int(np.argmin(fine))
            reach = f"its values reach {float(train.inputs[:, column].abs().max()):g}"
            problem = f"feature {column} cannot be standardised in float64, as {reach}"
            raise NescioError(f"{problem}; give it in another unit")
        normalise = Normalise(torch.from_numpy(scaler.mean_), torch.from_numpy(scaler.scale_))
        kind = method_class(self.method)
        dropout = kind.default_dropout if self.dropout is None else self.dropout
        make_net = partial(mlp, train.shape[0], hidden=self.hidden, dropout=dropout)
        settings = {**kind.small_data_settings, **settings}
        with torch.random.fork_rng():
            seed_generators(derived_seed(seed, "weights", 0))
            model = method_for(self.method, make_net, len(self.classes_), normalise, **settings)
        model.expect_all_classes()  # of rare ones the first batch may hold none
        return model.double()

    def _class_name(self, label: int) -> str:
        return repr(self.classes_.tolist()[label])  # without numpy's type

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        x: Array = validate_data(self, _for_sklearn(X), dtype=np.float64, reset=False)
        return x

    def _of_logits(self, x: Array, function: Callable[[Tensor], Tensor]) -> Array:
        """Return what a function makes of logits `(S, B, C)`, batch by batch."""
        parts: list[Tensor] = []
        progress = bool(self.verbose)
        map_logits(self.model_, x, lambda _, z, __: parts.append(function(z)), progress=progress)
        return torch.cat(parts).numpy()


def _for_sklearn(values: Any) -> Any:
    """Return what scikit-learn can check: it knows no tensors, and would not see what is masked."""
    masked = is_tensor(values) or isinstance(values, np.ma.MaskedArray)
    return as_array(values) if masked else values
