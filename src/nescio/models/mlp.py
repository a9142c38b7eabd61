"""A multi-layer perceptron."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from nescio.errors import NescioError
from nescio.models.recipe import check_sizes, recorded


@recorded
def mlp(inputs: int, classes: int | None = None, hidden: Sequence[int] = (100, 100), dropout: float = 0.0) -> nn.Module:
    """Flatten, then Linear and ReLU per hidden width; ends in logits, or without `classes` in features."""
    if not isinstance(hidden, Sequence) or len(hidden) > 1000 or not _is_share(dropout):
        raise NescioError(f"hidden must be at most 1000 widths and dropout in [0, 1), not {hidden!r} and {dropout!r}")
    check_sizes(inputs=inputs, classes=classes, **{f"hidden[{i}]": width for i, width in enumerate(hidden)})
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise((inputs, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    if classes is not None:
        layers.append(nn.Linear((inputs, *hidden)[-1], classes))
    return nn.Sequential(*layers)


def _is_share(given: object) -> bool:
    return isinstance(given, float | int) and 0 <= given < 1
