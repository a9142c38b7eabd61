"""What a detector learned, as files keep it: taken out, and put in again if a fit could have left it so."""

from collections.abc import Sequence

from torch import Tensor

from nescio.detectors.detector import Detector
from nescio.detectors.threshold import Threshold
from nescio.detectors.whitening import is_whitening
from nescio.errors import NescioError
from nescio.scores import is_named


def learned_by(detector: Detector) -> list[tuple[str, Tensor]]:
    """What a detector holds beside its model, and its members beside theirs, by name."""
    return [
        (key, buffer) for key, buffer in detector.named_buffers() if not key.startswith("model.")
    ]


def check_whole(detector: Detector) -> None:
    """An error if a detector learned something, but has no threshold: no file with such a one can be loaded."""
    for module in detector.modules():
        if isinstance(module, Threshold) and not is_named(module.spec):
            raise NescioError(
                f"the score {module.score_name!r} is a function of yours, which cannot be saved; use a "
                "name in nescio.scores.SCORES"
            )
    learned = [
        value for _, value in learned_by(detector) if value.numel() and value.is_floating_point()
    ]
    if detector.threshold_.isnan().any() and any(bool(value.isfinite().all()) for value in learned):
        raise NescioError(
            f"the last fit of this {type(detector).__name__} did not come to an end: it has learned, but "
            "has no threshold; call .fit(known) again before saving it"
        )


def put_in(detector: Detector, found: dict[str, Tensor], where: str) -> None:
    """Put in what a file says a detector learned, or an error if no fit could have left it so."""
    room = dict(learned_by(detector))
    if odd := room.keys() ^ found.keys():
        names = ", ".join(sorted(odd))
        raise NescioError(
            f"{where} does not hold what this detector learns: it lacks or adds {names}"
        )
    sizes: dict[str, int] = {}  # by the letters of axes
    for key, buffer in room.items():
        value, letters = found[key], detector.letters(key, found[key].dim())
        expected: Sequence[int | str] = buffer.shape
        if letters is not None and len(letters) == value.dim():
            expected = [
                sizes.setdefault(letter, size)
                for letter, size in zip(letters, value.shape, strict=True)
            ]
        elif letters is not None:
            expected = letters  # a size that may be any, for each axis
        if tuple(value.shape) != tuple(expected) or value.dtype != buffer.dtype:
            shape = f"({', '.join(map(str, expected))}{',' * (len(expected) == 1)})"
            raise NescioError(
                f"{where}: the detector's {key} is {value.dtype} {tuple(value.shape)}; expected "
                f"{buffer.dtype} {shape}"
            )
        if (
            letters is not None
            and len(letters) > 1
            and letters[-1] == letters[-2]
            and not is_whitening(value)
        ):
            raise NescioError(
                f"{where}: the detector's {key} brings no features to unit covariance"
            )
    fitted = [
        bool(value.isfinite().all())
        for value in found.values()
        if value.numel() and value.is_floating_point()
    ]
    if any(fitted) and not all(fitted):  # what was never fitted is NaN throughout
        raise NescioError(f"{where}: what the detector learned is in part NaN or infinite")
    for key in (key for key in found if key.endswith("calibration_")):  # also those of members
        held, own = found[key], found[f"{key.removesuffix('_')}_class_"]
        if (held.diff() < 0).any():
            raise NescioError(f"{where}: the scores of held-out data are not in order")
        if len(own) not in (0, len(held)):
            raise NescioError(
                f"{where}: there are {len(own)} classes for {len(held)} scores of held-out data"
            )
        cuts = found[f"{key.removesuffix('calibration_')}threshold_"]
        if (len(held) > 0) == bool(cuts.isnan().any()) or (len(own) > 0) != (cuts.dim() == 1):
            raise NescioError(
                f"{where}: there is a threshold without scores of held-out data, or scores without one"
            )
        if len(own) and not (0 <= int(own.min()) <= int(own.max()) < len(cuts)):
            raise NescioError(
                f"{where}: scores of held-out data are of classes that have no threshold"
            )
    detector.keep(**found)
