"""A multi-layer perceptron."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from nescio.errors import NescioError
from nescio.models.recipe import check_sizes, recorded, thinned


@recorded
def mlp(
    inputs: int,
    classes: int | None = None,
    hidden: Sequence[int] = (100, 100),
    dropout: float = 0.0,
) -> nn.Module:
    """Flatten, then Linear and ReLU per hidden width; ends in logits, or without `classes` in features."""
    if not isinstance(hidden, Sequence) or len(hidden) > 1000:
        raise NescioError(
            f"hidden must be a list of widths, such as (100, 100), at most 1000 of them, not {hidden!r}"
        )
    check_sizes(
        inputs=inputs, classes=classes, **{f"hidden[{i}]": width for i, width in enumerate(hidden)}
    )
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise((inputs, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU(), *thinned(dropout)]
    if classes is not None:
        layers.append(nn.Linear((inputs, *hidden)[-1], classes))
    return nn.Sequential(*layers)
