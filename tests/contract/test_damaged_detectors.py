"""Files of detectors with damaged tensors under a valid digest: refused, or no different."""

from collections import Counter

import pytest
import torch
from torch import nn

import nescio
from feature_data import C, F, drawn, others
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.data import Samples
from nescio.detectors import DETECTORS
from nescio.detectors.learned import AXES
from nescio.detectors.scorer import Scorer
from nescio.errors import NescioError

ASKED = {"knn": {"k": 3, "size": 40}, "combined": {"members": ["energy", "knn", "mahalanobis"]}}

pytestmark = pytest.mark.parametrize("name", DETECTORS)


def one_nan(v):
    changed = v.clone()
    changed.view(-1)[0] = torch.nan
    return changed


OTHER_LENGTHS = ("fewer", "fewer across", "twice")
DAMAGE = {
    "an axis less": lambda v: v.sum(0) if v.dim() else v,
    "axes in one": lambda v: v.flatten() if v.dim() != 1 else v,
    "an axis more": lambda v: v[None],
    "an axis more at the end": lambda v: v[..., None],
    "nothing": lambda v: v[:0] if v.dim() else v.new_empty(0),
    "nothing across": lambda v: v[..., :0] if v.dim() else v.new_empty(0),
    "fewer": lambda v: v[:-1] if v.dim() else v,
    "fewer across": lambda v: v[..., :-1] if v.dim() else v,
    "twice": lambda v: torch.cat([v, v]) if v.dim() else torch.stack([v, v]),
    "other digits": lambda v: v.float() if v.is_floating_point() else v.int(),
    "other numbers": lambda v: v.long() if v.is_floating_point() else v.double(),
    "transposed": lambda v: v.mT.contiguous() if v.dim() > 1 else v,
    "NaN": lambda v: torch.full_like(v, torch.nan) if v.is_floating_point() else v,
    "one NaN": lambda v: one_nan(v) if v.is_floating_point() and v.numel() else v,
    "infinite": lambda v: torch.full_like(v, -torch.inf) if v.is_floating_point() else v,
    "below": lambda v: -v - 1 if not v.is_floating_point() else v,
    "huge": lambda v: v + 2**62 if not v.is_floating_point() else v,
}


def a_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(F, 5), nn.Tanh(), nn.Linear(5, C)).eval()


def answers(detector, x):
    return [
        *(getattr(detector, ask)(x).tolist() for ask in ("score", "predict", "p_value")),
        detector.explain(x),
    ]


def free_lengths(detector):
    """Tensors with an axis all their own, which is not the features': a fit on other data may leave
    fewer, or more.
    """
    for prefix, part in detector.named_modules():
        if isinstance(part, Scorer):
            axes = {"calibration_": AXES["calibration_"]} | part.shapes
            uses = Counter(letter for letters in axes.values() for letter in letters)
            for name, letters in axes.items():
                if any(uses[letter] == 1 for letter in letters if letter != "F"):
                    yield ".".join(filter(None, ("detector", prefix, name)))


def damaged_of(path, detector, x):
    """Which damage to which tensor was neither refused nor of no matter, and how it came out."""
    free, expected = set(free_lengths(detector)), answers(detector, x)
    tensors, about = read_tensors(path, "model")
    for key, value in tensors.items():
        for damage, change in DAMAGE.items():
            changed = change(value)
            if torch.equal(changed, value) and changed.dtype == value.dtype:
                continue
            write_tensors(path, "model", tensors | {key: changed}, about)
            try:
                found = answers(nescio.load(path, model=detector.model), x)
            except NescioError:
                continue
            except Exception as error:  # noqa: BLE001 - that there is none is the point
                yield key, damage, repr(error)
            else:
                if found != expected and not (key in free and damage in OTHER_LENGTHS):
                    yield key, damage, "other answers"


@pytest.mark.parametrize("how", [{}, {"per_class": True, "accept": 0.7}], ids=["", "per class"])
def test_a_file_signed_anew_is_refused_or_answers_as_before(name, how, tmp_path):
    net, data = a_net(), drawn(0)
    right = net(data.inputs).argmax(1)
    labels = torch.where(
        torch.arange(len(data)) // 2 % 4 > 0, right, (right + 1) % C
    )  # mostly right
    calibration, train = (Samples(data.inputs[i::2], labels[i::2]) for i in range(2))
    detector = DETECTORS[name](net, **ASKED.get(name, {})).fit(calibration, train=train, **how)
    nescio.save(detector, tmp_path / "d")
    x = others(0, 12)
    found = damaged_of(tmp_path / "d", detector, x)
    assert list(found) == []
