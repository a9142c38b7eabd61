"""The papers' networks, plain modules: `classes` logits out, or features when no `classes` are given."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from nescio.errors import NescioError, unknown_name
from nescio.models.convolutional import cnn16, conv3, lenet
from nescio.models.mlp import mlp
from nescio.models.resnet import resnet18, resnet20

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "lenet": lenet,
    "conv3": conv3,
    "cnn16": cnn16,
    "resnet18": resnet18,
    "resnet20": resnet20,
}


def network_for(name: str, shape: tuple[int, ...], classes: int | None, **more: Any) -> nn.Module:
    """The named network, sized for inputs of one shape: `(features,)` for tables, `(C, H, W)` for images.

    `more` are further arguments of the network, such as `dropout`.
    """
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    if name == "mlp":
        size = 1
        for side in shape:
            size *= side
        return mlp(size, classes, **more)
    if len(shape) != 3:
        raise NescioError(
            f"network {name!r} takes images (C, H, W), but the inputs have shape {shape}; use 'mlp'"
        )
    extra: dict[str, Any] = {"channels": shape[0], **more}
    if name in ("lenet", "conv3", "cnn16"):  # their dense layer knows the size of the image
        if shape[1] != shape[2]:
            raise NescioError(f"network {name!r} takes square images, not {shape[1]}×{shape[2]}")
        extra["size"] = shape[1]
    return NETWORKS[name](classes=classes, **extra)


def build(recipe: dict[str, Any]) -> nn.Module:
    """The network of a recipe, with fresh weights."""
    arguments = dict(recipe)
    name = arguments.pop("network", None)
    if not isinstance(name, str) or name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    try:
        return NETWORKS[name](**arguments)
    except (
        TypeError,
        RuntimeError,
    ) as error:  # an argument it does not have, or a size no tensor can have
        raise NescioError(f"network {name!r} cannot be made from {arguments}: {error}") from error


def feature_width(net: nn.Module) -> int | None:
    """How many numbers a network gives for an input; None if it does not tell.

    One of ours is asked by its recipe, another by its last linear layer.

    >>> feature_width(cnn16()), feature_width(nn.Sequential(nn.Linear(4, 8), nn.ReLU()))
    (144, 8)
    """
    recipe = getattr(net, "recipe", None)
    if recipe is None:
        layers = [module.out_features for module in net.modules() if isinstance(module, nn.Linear)]
        return layers[-1] if layers else None
    side = recipe.get("size", 32)
    shape = (recipe["inputs"],) if recipe["network"] == "mlp" else (recipe["channels"], side, side)
    like = next(net.parameters(), torch.zeros(0))
    with torch.no_grad():
        return int(copy.deepcopy(net).eval()(like.new_zeros(1, *shape)).shape[1])


__all__ = [
    "NETWORKS",
    "build",
    "cnn16",
    "conv3",
    "feature_width",
    "lenet",
    "mlp",
    "network_for",
    "resnet18",
    "resnet20",
]
