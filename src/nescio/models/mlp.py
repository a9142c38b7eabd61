"""A multi-layer perceptron."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from nescio.errors import NescioError
from nescio.models.recipe import check_sizes, dropout_layers, network_factory

MAX_LAYERS = 1000


@network_factory
def mlp(
    inputs: int,
    classes: int | None = None,
    hidden: Sequence[int] = (100, 100),
    dropout: float = 0.0,
) -> nn.Module:
    """Flatten, then Linear and ReLU per hidden width; ends in features if `classes` is None."""
    if not isinstance(hidden, Sequence) or len(hidden) > MAX_LAYERS:
        raise NescioError(
            f"hidden must be at most {MAX_LAYERS} widths, such as (100, 100), got {hidden!r}"
        )
    check_sizes(**{f"hidden[{i}]": width for i, width in enumerate(hidden)})
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise((inputs, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU(), *dropout_layers(dropout)]
    if classes is not None:
        layers.append(nn.Linear((inputs, *hidden)[-1], classes))
    return nn.Sequential(*layers)
