"""Several detectors as one, so that nobody need choose."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from nescio.core.features import ForwardPass, NoFeaturesError
from nescio.core.predict import read
from nescio.data.batches import halves
from nescio.data.overlap import check_disjoint
from nescio.detectors.detector import Detector
from nescio.detectors.explanation import Explanation
from nescio.detectors.named import detector_named
from nescio.detectors.threshold import NoEnergyError, Threshold
from nescio.detectors.told import told
from nescio.errors import NescioError
from nescio.guarantees.conformal import p_values
from nescio.guarantees.merging import merged, surprise
from nescio.guarantees.rounding import reached
from nescio.methods import Method, as_method


class Combined(Detector):
    """Known as long as several detectors, taken together, do not find an input too odd (Vovk & Wang 2020).

    Each member's score becomes a p-value among held-out known data. Their geometric mean, on a scale that goes on
    beyond those data, is the score: e times it is a valid p-value whatever the members have to do with each other (Vovk
    & Wang 2020), and of the means with such a factor (least, harmonic, geometric, arithmetic) it told most. The
    threshold on it is settled by data of its own, so that its guarantee is that of every detector.

    One forward pass serves all members.

    Args:
        model: any classifier.
        members: names in `DETECTORS` or in `SCORES`, pairs of a name and settings such as `("knn", {"k": 10})`, or
            detectors over this very model, which are fitted anew; by default the energy and, if the model has features
            to look at, Mahalanobis' distance; what a fit finds not to be had is exchanged for scores that are.

    Attributes:
        without: usual members that could not be had, by name, and why not.
    """

    name, learns = "combined", True

    def __init__(self, model: nn.Module, members: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        given = usual_members(model) if members is None else members
        if not isinstance(given, list | tuple) or not given:
            raise NescioError(
                f"members must be a list of detectors, such as ['energy', 'threshold'], not {members!r}"
            )
        self.chosen = members is not None
        self.without: dict[str, str] = {}
        self._halved = False  # whether known data had to be shared out, in a fit
        self._calibration: Any = None  # data for the members' p-values, during a fit
        self._take(given)

    def _take(self, given: Sequence[Any]) -> None:
        found = [_member(self.model, one) for one in given]
        self.members = nn.ModuleList(found)
        self.layers = tuple(dict.fromkeys(layer for one in found for layer in one.layers))

    def fit(
        self,
        known: Any,
        accept: float | None = None,
        *,
        train: Any = None,
        calibration: Any = None,
        **how: Any,
    ) -> Self:
        """Teach the members, read their p-values off other data, and settle the threshold on data of its own again.

        Args:
            known: inputs of the kinds the model knows, which it was not trained on.
            accept, how: as for every detector.
            train: what the members learn from, such as the model's training data; else a quarter of `known`, by chance,
                if there are members that learn.
            calibration: known inputs, neither in `train` nor trained on, that the members' p-values are read from; else
                a half of `known`, or a quarter if that has to teach, too.
        """
        if calibration is not None and train is None:
            raise NescioError(
                "calibration data were given, but nothing to learn from; give train=… too, or neither"
            )
        for one, other in ((known, train), (known, calibration), (calibration, train)):
            check_disjoint(one, other)
        self._halved = train is not None and calibration is None
        if self._halved:
            calibration, known = halves(known, batch_size=how.get("batch_size", 256))
        self._calibration = calibration
        try:
            return super().fit(known, accept, train=train, **how)
        except (NoFeaturesError, NoEnergyError) as error:
            if self.chosen:
                raise
            if once := [
                name
                for name, data in (("known", known), ("train", train))
                if isinstance(data, Iterator)
            ]:
                raise NescioError(
                    f"{error}. To take other members, {once[0]} would have to be read again, which it "
                    "can only once; give data that can be read twice, or members=[…]"
                ) from error
            self._do_without(
                "mahalanobis" if isinstance(error, NoFeaturesError) else "energy", str(error)
            )
            return self.fit(known, accept, train=train, calibration=calibration, **how)
        finally:
            self._calibration = None

    def set_aside(self, halved: bool) -> str:
        spared = "Threshold, or --score max_prob, sets nothing aside"
        return (
            f" (as many were set aside for the p-values of its members; {spared})"
            if halved or self._halved
            else ""
        )

    def _do_without(self, name: str, why: str) -> None:
        """Scores that every model has in place of a usual member that cannot be had of this one."""
        self.without[name] = why
        left = [one for one in usual_members(self.model) if one not in self.without]
        self._take(list(dict.fromkeys([*left, as_method(self.model).score, "entropy"]))[:2])

    def learn(self, data: Any) -> None:
        calibration = self._calibration
        learners = [one for one in self._each() if one.learns]
        if calibration is None:
            data, calibration = (
                halves(data, seed=1, batch_size=self.batch_size) if learners else (data, data)
            )
        for one in learners:
            one.learn(data)
        parts: list[Tensor] = []
        dims = 0

        def on_batch(x: Tensor, seen: ForwardPass, _: Tensor | None) -> None:
            nonlocal dims
            parts.append(self._scores(x, seen))
            dims = x.dim() - 1

        self.map_batches(calibration, on_batch)
        scores = torch.cat(parts, 1)
        if not scores.isfinite().all():
            raise NescioError(
                "some members give NaN or infinite scores for data to calibrate them on"
            )
        for one, row in zip(self._each(), scores.sort(1).values, strict=True):
            one.check_held(row)
            own = reached(row)
            one.keep(calibration_=own, threshold_=own[-1], input_dims_=torch.tensor(dims))

    def score_batch(self, x: Tensor, seen: ForwardPass) -> Tensor:
        scores = self._scores(x, seen)
        calibrations = self._calibrations()
        found = [
            surprise(own, held.to(own.device))
            for own, held in zip(scores, calibrations, strict=True)
        ]
        return torch.stack(found).mean(0)

    def member_p_values(self, data: Any, batch_size: int = 256) -> Tensor:
        """The p-value of each input for each member, `(K, N)`: its share of calibration inputs at least as odd."""
        rows, alone = self.rows(data)
        found = self._member_p_values(rows, batch_size)
        if found.isnan().any():
            raise NescioError("some members give NaN or infinite scores for some inputs")
        return found[:, 0] if alone else found

    def _member_p_values(self, data: Any, batch_size: int) -> Tensor:
        """The same, `(K, N)`, but NaN where a member has no number for an input."""
        parts: list[Tensor] = []
        calibrations = self._calibrations()

        def on_batch(x: Tensor, seen: ForwardPass, _: Tensor | None) -> None:
            scores = self._scores(x, seen)
            found = [
                p_values(own, held.to(own.device))
                for own, held in zip(scores, calibrations, strict=True)
            ]
            parts.append(torch.stack(found).where(scores.isfinite(), torch.nan))

        self.map_batches(data, on_batch, batch_size)
        return torch.cat(parts, 1)

    def merged_p_value(self, data: Any, batch_size: int = 256) -> Tensor:
        """One p-value `(N,)` of the members' alone; valid, too, but larger than `p_value`, which has seen more data."""
        p = self.member_p_values(data, batch_size)
        return merged(p[:, None])[0] if p.dim() == 1 else merged(p)

    def explain(
        self, data: Any, batch_size: int = 256, classes: Sequence[str] | None = None
    ) -> list[Explanation]:
        """As of every detector, and which member finds each input oddest."""
        rows, _ = self.rows(data)
        return [one for x, _ in read(rows, batch_size) for one in self._explained(x, classes)]

    def _explained(self, x: Tensor, classes: Sequence[str] | None) -> list[Explanation]:
        found = super().explain(x, len(x), classes)
        told = [
            index
            for index, one in enumerate(found)
            if one.claimed >= 0 and math.isfinite(one.score)
        ]
        if told:
            least, oddest = self._member_p_values(x[told], len(told)).nan_to_num(torch.inf).min(0)
            for index, p, who in zip(told, least.tolist(), oddest.tolist(), strict=True):
                verdict = f"{found[index].verdict} Oddest to {self.member_names[who]}: p = {p:.2g}."
                found[index] = replace(found[index], verdict=verdict)
        return found

    @property
    def member_names(self) -> tuple[str, ...]:
        """What members go by: their names or, of thresholds, those of their scores."""
        return tuple(
            one.score_name if isinstance(one, Threshold) else one.name for one in self._each()
        )

    def keep(self, **learned: Tensor) -> None:
        """Hold what was learned; what is a member's goes to it, such as `members.0.calibration_`."""
        super().keep(**{name: value for name, value in learned.items() if "." not in name})
        for name, value in learned.items():
            if "." in name:
                _, index, own = name.split(".", 2)
                self._each()[int(index)].keep(**{own: value})

    def letters(self, name: str, dims: int) -> Sequence[str] | None:
        """As of every detector; members have letters of their own, since each may see other features."""
        if "." not in name:
            return super().letters(name, dims)
        _, index, own = name.split(".", 2)
        found = self._each()[int(index)].letters(own, dims)
        return None if found is None else [f"{index}.{letter}" for letter in found]

    def __repr__(self) -> str:
        return told(self, {"members": list(self.member_names)})

    def settings(self) -> dict[str, Any]:
        return {"members": [[one.name, one.settings()] for one in self._each()]}

    def _each(self) -> list[Detector]:
        return [one for one in self.members if isinstance(one, Detector)]

    def _scores(self, x: Tensor, seen: ForwardPass) -> Tensor:
        """The members' scores of a batch, `(K, B)`."""
        return torch.stack([one.score_batch(x, seen).to(x.device).double() for one in self._each()])

    def _calibrations(self) -> list[Tensor]:
        found = [one.calibration_ for one in self._each()]
        if not all(len(one) for one in found):
            raise NescioError(
                "Combined has no p-values yet: call .fit(known) with held-out data first"
            )
        return found


def usual_members(model: nn.Module) -> list[str]:
    """The energy and Mahalanobis' distance, or scores alone for a model with draws or without a linear layer."""
    method = as_method(model)
    if drawing := next(
        (one for one in model.modules() if isinstance(one, Method) and one.sampled), None
    ):
        return [drawing.score, "energy", "mutual_information"]
    featured = method.on_features or any(
        isinstance(module, nn.Linear) for module in model.modules()
    )
    return ["energy", "mahalanobis" if featured else method.score]


def _member(model: nn.Module, given: Any) -> Detector:
    if isinstance(given, Detector):
        if given.model is not model:
            raise NescioError(
                f"a {type(given).__name__} over another model was given; all must be over the same one"
            )
        given = given.name, given.settings()
    name, settings = (
        (given, {}) if isinstance(given, str) else given if _is_pair(given) else (None, {})
    )
    if name is None or name == Combined.name:
        raise NescioError(
            f"a member must be the name of a detector or a score, such as 'energy', or a pair of a name "
            f"and settings, or a detector, but not a combined one; not {given!r}"
        )
    return detector_named(model, name, **settings)


def _is_pair(given: Any) -> bool:
    return (
        isinstance(given, list | tuple)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], dict)
    )
