"""Several detectors as one, so that nobody need choose."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from reprlib import repr as shown
from typing import Any, Self

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass, NoFeaturesError
from nescio.core.predict import read
from nescio.core.replica import keep_replicas
from nescio.data.batches import halves
from nescio.data.overlap import check_disjoint
from nescio.detectors.answers import Explanation
from nescio.detectors.detector import Detector
from nescio.detectors.named import detector_named
from nescio.detectors.scorer import add_batch_axis
from nescio.detectors.threshold import NoEnergyError, Threshold
from nescio.errors import NescioError
from nescio.guarantees.conformal import merged_p_value, p_values, surprise
from nescio.guarantees.rounding import rounded_up
from nescio.methods import Method, as_method


class Combined(Detector):
    """Unknown if several detectors, taken together, find an input unusual (Vovk & Wang 2020).

    The score is the geometric mean of the members' p-values, on a scale that continues beyond their
    calibration data: e times that mean is valid under any dependence between members, and of the
    means with such a factor it separated best. The threshold is set by data of its own, so that its
    guarantee is that of every detector. One forward pass serves all members.

    Args:
        model: any classifier.
        members: names in `DETECTORS` or `SCORES`, pairs such as `("knn", {"k": 10})`, or detectors
            over this very model, which are fitted anew; by default the energy and, if the model has
            features, Mahalanobis' distance, or scores in place of what a model does not support.

    Attributes:
        without: default members that were not supported, by name, and why not.

    >>> detector = Combined(net).fit(known.test, train=known.train)
    >>> detector.predict(x)
    tensor([ 0, -1])
    """

    name, learns = "combined", True

    def __init__(self, model: nn.Module, members: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        chosen = default_members(model) if members is None else members
        if not isinstance(chosen, list | tuple) or not chosen:
            problem = f"got {shown(members)}"
            raise NescioError(f"members must be a list such as ['energy', 'knn'], {problem}")
        score = as_method(model).score
        self.split_note = f"set aside for its members' p-values; --score {score} needs none"
        self.chosen = members is not None
        self.without: dict[str, str] = {}
        self._calibration: Any = None  # data for the members' p-values, during a fit
        self._halved = False  # whether they were split off, in a fit
        self._set_members(chosen)

    def _set_members(self, members: Sequence[Any]) -> None:
        self.members = nn.ModuleList([_member(self.model, member) for member in members])
        self.layers = tuple({name: 0 for member in self._each() for name in member.layers})

    def fit(
        self,
        calibration: Any,
        accept: float | None = None,
        *,
        train: Any = None,
        member_calibration: Any = None,
        **how: Any,
    ) -> Self:
        """Fit the members, their p-values and the threshold, each on data of its own.

        Args:
            calibration: inputs of known kinds that the model was not trained on.
            accept, how: as for every detector.
            train: what members learn from; else a quarter of `calibration`, if some learn.
            member_calibration: other known inputs, for the members' p-values; else a half of
                `calibration`, or a quarter without `train`.
        """
        if member_calibration is not None and train is None:
            raise NescioError("member_calibration need train data, too; give both, or neither")
        check_disjoint(calibration, train)
        check_disjoint(calibration, member_calibration)
        check_disjoint(member_calibration, train)
        self._halved = train is not None and member_calibration is None
        if self._halved:
            size = how.get("batch_size", 256)
            member_calibration, calibration = halves(calibration, batch_size=size)
        self._calibration = member_calibration
        try:
            return super().fit(calibration, accept, train=train, **how)
        except (NoFeaturesError, NoEnergyError) as error:
            if self.chosen:
                raise
            once = "calibration" if isinstance(calibration, Iterator) else "train"
            if isinstance(calibration, Iterator) or isinstance(train, Iterator):
                raise NescioError(
                    f"{error}. To use other members, {once} would have to be read again, which "
                    "it can only once; give data that can be read twice, or members=[…]"
                ) from error
            name = "mahalanobis" if isinstance(error, NoFeaturesError) else "energy"
            self._do_without(name, str(error))
            how |= {"train": train, "member_calibration": member_calibration}
            return self.fit(calibration, accept, **how)
        finally:
            self._calibration = None

    def _do_without(self, name: str, reason: str) -> None:
        """Exchange a default member for scores that every model has."""
        self.without[name] = reason
        supported = [member for member in default_members(self.model) if member not in self.without]
        names = dict.fromkeys([*supported, as_method(self.model).score, "entropy"])
        self._set_members(list(names)[:2])

    def learn(self, data: Any) -> None:
        self._split = self._split or self._halved
        calibration = self._calibration
        learners = [member for member in self._each() if member.learns]
        if calibration is None:
            calibration = data
            if learners:
                data, calibration = halves(data, seed=1, batch_size=self.batch_size)
        for member in learners:
            member.learn(data)
        parts: list[Tensor] = []
        dims = 0

        def on_batch(x: Tensor, forward_pass: ForwardPass, _: Tensor | None) -> None:
            nonlocal dims
            parts.append(self._scores(x, forward_pass))
            dims = x.dim() - 1

        self.map_batches(calibration, on_batch)
        scores = torch.cat(parts, 1)
        if not scores.isfinite().all():
            raise NescioError("some members give NaN or infinite scores for calibration data")
        for member, row in zip(self._each(), scores.sort(1).values, strict=True):
            member.check_calibration(row)
            buffers = {"calibration_": rounded_up(row), "threshold_": rounded_up(row)[-1]}
            member.keep(**buffers, input_dims_=torch.tensor(dims))

    def score_batch(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        return torch.stack(self._by_member(surprise, self._scores(x, forward_pass))).mean(0)

    def member_p_values(self, data: Any, batch_size: int = 256) -> Tensor:
        """Return the p-value of each input for each member, `(K, N)`."""
        rows, single = add_batch_axis(data, self.input_dims_)
        p = self._member_p_values(rows, batch_size)
        if p.isnan().any():
            raise NescioError("some members give NaN or infinite scores for some inputs")
        return p[:, 0] if single else p

    def _member_p_values(self, data: Any, batch_size: int) -> Tensor:
        """Return the same, `(K, N)`, but NaN where a member has no number for an input."""
        parts: list[Tensor] = []

        def on_batch(x: Tensor, forward_pass: ForwardPass, _: Tensor | None) -> None:
            scores = self._scores(x, forward_pass)
            p = torch.stack(self._by_member(p_values, scores))
            parts.append(p.where(scores.isfinite(), torch.nan))

        self.map_batches(data, on_batch, batch_size)
        return torch.cat(parts, 1)

    def merged_p_value(self, data: Any, batch_size: int = 256) -> Tensor:
        """Return one p-value `(N,)` from the members' alone; valid, but larger than `p_value`."""
        p = self.member_p_values(data, batch_size)
        return merged_p_value(p[:, None])[0] if p.dim() == 1 else merged_p_value(p)

    def explain(
        self, data: Any, batch_size: int = 256, classes: Sequence[str] | None = None
    ) -> list[Explanation]:
        """Explain as every detector, and say which member finds each input most unusual."""
        rows, _ = add_batch_axis(data, self.input_dims_)
        with keep_replicas(self.model):
            batches = (self._explain_batch(x, classes) for x, _ in read(rows, batch_size))
            return list(chain.from_iterable(batches))

    def _explain_batch(self, x: Tensor, classes: Sequence[str] | None) -> list[Explanation]:
        explained = super().explain(x, len(x), classes)
        scored = [i for i, e in enumerate(explained) if e.predicted >= 0 and math.isfinite(e.score)]
        if scored:
            p = self._member_p_values(x[scored], len(scored)).nan_to_num(torch.inf)
            least, members = (part.tolist() for part in p.min(0))
            for i, value, member in zip(scored, least, members, strict=True):
                words = f"Most unusual to {self.member_names[member]}: p = {value:.2g}."
                explained[i] = replace(explained[i], verdict=f"{explained[i].verdict} {words}")
        return explained

    @property
    def member_names(self) -> tuple[str, ...]:
        """Return the members' names or, of thresholds, those of their scores."""
        each = self._each()
        return tuple(m.score_name if isinstance(m, Threshold) else m.name for m in each)

    def shown_settings(self) -> dict[str, Any]:
        return {"members": list(self.member_names)}

    def settings(self) -> dict[str, Any]:
        return {"members": [[member.name, member.settings()] for member in self._each()]}

    def _each(self) -> list[Detector]:
        return [member for member in self.members if isinstance(member, Detector)]

    def _scores(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        """Return the members' scores of a batch, `(K, B)`."""
        scores = [member.score_batch(x, forward_pass) for member in self._each()]
        return torch.stack([values.to(x.device).double() for values in scores])

    def _by_member(self, function: Any, scores: Tensor) -> list[Tensor]:
        """Return a function of each member's scores `(B,)` and its calibration scores."""
        calibrations = [member.calibration_ for member in self._each()]
        if not all(len(scores) for scores in calibrations):
            raise NescioError("Combined is not fitted: call .fit(calibration) first")
        pairs = zip(scores, calibrations, strict=True)
        return [function(row, calibration.to(row.device)) for row, calibration in pairs]


def default_members(model: nn.Module) -> list[str]:
    """Return energy and Mahalanobis, or scores alone for a model with draws or no linear layer."""
    method = as_method(model)
    sampled = (m for m in model.modules() if isinstance(m, Method) and m.sampled)
    if stochastic := next(sampled, None):
        return [stochastic.score, "energy", "mutual_information"]
    linear = any(isinstance(module, nn.Linear) for module in model.modules())
    return ["energy", "mahalanobis" if method.on_features or linear else method.score]


def _member(model: nn.Module, member: Any) -> Detector:
    name, settings = member, {}
    if isinstance(member, Detector):
        if member.model is not model:
            raise NescioError(f"got a {type(member).__name__} over another model")
        if isinstance(member, Threshold):  # whose score may be a function
            return Threshold(model, member.spec)
        name, settings = member.name, member.settings()
    elif isinstance(member, list | tuple) and len(member) == 2:
        name, settings = member
    if not isinstance(name, str) or not isinstance(settings, dict) or name == Combined.name:
        raise NescioError(
            "a member must be the name of a detector or a score, such as 'energy', or a pair of a "
            f"name and settings, or a detector, but not a combined one; got {shown(member)}"
        )
    return detector_named(model, name, **settings)
