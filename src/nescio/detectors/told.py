"""What a detector says of itself: its settings, its threshold, and what that promises."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nescio.records.detector import UNCOVERED

if TYPE_CHECKING:
    from nescio.detectors.detector import Detector

FEW = 6  # members of a list that are told


def told(detector: "Detector", settings: Mapping[str, Any]) -> str:
    """A few lines for `print`."""
    words = ", ".join(
        f"{name}={_short(value)}" for name, value in settings.items() if value is not None
    )
    first = f"{type(detector).__name__}({words}) over {type(detector.model).__name__}"
    cuts = detector.threshold_.reshape(-1).tolist()
    if detector.threshold_.isnan().any():
        return f"{first}\n  not fitted: .fit(known) settles its threshold"
    cut = (
        f"threshold {cuts[0]:g}"
        if detector.threshold_.dim() == 0
        else f"a threshold for each of {len(cuts)} classes"
    )
    level = detector.level
    promise = (
        "not in its file, which has the threshold alone"
        if level is None
        else level.promise(detector.controlled)
    )
    return "\n  ".join(
        [
            first,
            f"{cut}, settled by {len(detector.calibration_)} known inputs",
            f"Promised: {promise}",
            f"{UNCOVERED}. Measure it: nescio.decide(detector, known_test, {{name: unknown}})",
        ]
    )


def _short(value: Any) -> str:
    return (
        f"<{len(value)}>" if isinstance(value, list | tuple) and len(value) > FEW else repr(value)
    )
