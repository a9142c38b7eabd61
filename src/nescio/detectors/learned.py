"""What a detector has learned, as files hold it: taken out, checked, and restored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nescio.detectors.detector import Detector
from nescio.detectors.scorer import Scorer
from nescio.detectors.statistics import is_whitening
from nescio.errors import NescioError, check_name
from nescio.guarantees.risk import Controlled
from nescio.guarantees.rules import RULES

AXES = {"calibration_": "N", "calibration_class_": "M"}  # as in `Scorer.shapes`, of every detector


@dataclass(frozen=True)
class StoredRule:
    """The rule that set a threshold, and how it met a bound on the risk."""

    name: str  # in RULES
    settings: dict[str, Any]
    controlled: Controlled | None = None


def rule_of(detector: Detector) -> StoredRule | None:
    """Return the rule of the last fit; None without a fit, and of a rule that no file can hold."""
    rule = detector.rule
    if rule is None or RULES.get(type(rule).__name__) is not type(rule):
        return None
    return StoredRule(type(rule).__name__, dict(vars(rule)), detector.controlled)


def restore_rule(detector: Detector, stored: StoredRule | None, where: str) -> None:
    """Restore the rule of a file; raise an error if it cannot have set the thresholds there."""
    if stored is None:
        return
    kind = RULES[check_name(f"rule in {where}", stored.name, RULES)]
    try:
        detector.rule, detector.controlled = kind(**stored.settings), stored.controlled
    except TypeError as error:
        raise NescioError(f"{where}: no {stored.name} has {stored.settings}") from error
    if kind.per_class != (detector.threshold_.dim() == 1):
        raise NescioError(f"{where}: {stored.name} sets no such thresholds as are there")


def learned_by(detector: Scorer) -> dict[str, Tensor]:
    """Return what a detector holds beside its model, and its members beside theirs, by name."""
    return {k: buffer for k, buffer in detector.named_buffers() if not k.startswith("model.")}


def check_complete(detector: Scorer) -> None:
    """Raise an error if a file with this detector could not be loaded again."""
    for module in detector.modules():
        if isinstance(module, Scorer):
            module.check_savable()
    learned = learned_by(detector)
    if learned["threshold_"].isnan().any() and any(_are_fitted(learned)):
        raise NescioError(
            f"the last fit of this {type(detector).__name__} did not finish: it has learned, but "
            "has no threshold; call .fit(calibration) again before saving it"
        )


def restore_learned(detector: Scorer, saved: dict[str, Tensor], where: str) -> None:
    """Restore what a file holds; raise an error if no fit could have left it so."""
    expected = learned_by(detector)
    if names := expected.keys() ^ saved.keys():
        words = ", ".join(sorted(names))
        raise NescioError(
            f"{where} does not hold what this detector learns: missing or extra {words}"
        )
    sizes: dict[str, int] = {}  # by the letters of axes, which members do not share
    for key, buffer in expected.items():
        _check_shape(_owner(detector, key), key, saved[key], buffer, sizes, where)
    fitted = _are_fitted(saved)
    if any(fitted) and not all(fitted):  # before a fit all are NaN
        raise NescioError(f"{where}: what the detector learned is partly NaN or infinite")
    for key in (key for key in saved if key.endswith("calibration_")):  # also of members
        _check_calibration(saved, key.removesuffix("calibration_"), where)
    for key, value in saved.items():
        _owner(detector, key).keep(**{key.rpartition(".")[2]: value})


def _are_fitted(learned: dict[str, Tensor]) -> list[bool]:
    values = [value for value in learned.values() if value.numel() and value.is_floating_point()]
    return [bool(value.isfinite().all()) for value in values]


def _owner(detector: Scorer, key: str) -> Scorer:
    """Return the detector or member that a buffer belongs to."""
    owner = detector.get_submodule(key.rpartition(".")[0])
    return owner if isinstance(owner, Scorer) else detector


def _check_shape(
    owner: Scorer, key: str, value: Tensor, buffer: Tensor, sizes: dict[str, int], where: str
) -> None:
    name = key.rpartition(".")[2]
    axes = (AXES | owner.shapes | ({"threshold_": "C"} if value.dim() == 1 else {})).get(name)
    shape: Sequence[int | str] = buffer.shape
    if axes is not None:
        shape = axes  # any size, for each axis
        if len(axes) == value.dim():
            letters = [f"{key.removesuffix(name)}{letter}" for letter in axes]
            shape = [sizes.setdefault(*pair) for pair in zip(letters, value.shape, strict=True)]
    if tuple(value.shape) != tuple(shape) or value.dtype != buffer.dtype:
        words = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise NescioError(
            f"{where}: the detector's {key} is {value.dtype} {tuple(value.shape)}; expected "
            f"{buffer.dtype} {words}"
        )
    if axes is not None and axes[-2:] == "FF" and not is_whitening(value):
        raise NescioError(f"{where}: the detector's {key} gives no features of unit covariance")


def _check_calibration(saved: dict[str, Tensor], path: str, where: str) -> None:
    """Check threshold, calibration scores and their classes against each other."""
    names = ("calibration_", "calibration_class_", "threshold_")
    scores, classes, threshold = (saved[path + name] for name in names)
    if (scores.diff() < 0).any():
        raise NescioError(f"{where}: the calibration scores are not in order")
    if len(classes) not in (0, len(scores)):
        raise NescioError(f"{where}: {len(classes)} classes for {len(scores)} calibration scores")
    unfitted, per_class = bool(threshold.isnan().any()), len(classes) > 0
    if (len(scores) > 0) == unfitted or per_class != (threshold.dim() == 1):
        raise NescioError(f"{where}: a threshold without calibration scores, or scores without one")
    if per_class and not (0 <= int(classes.min()) <= int(classes.max()) < len(threshold)):
        raise NescioError(f"{where}: calibration scores of classes that have no threshold")
