"""Networks, plain modules: `classes` logits out, or features if `classes` is None."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from nescio.errors import NescioError, check_name, unknown_name
from nescio.models.networks import cnn16, conv3, lenet, mlp, resnet18, resnet20
from nescio.models.probs import ProbsToLogits
from nescio.models.resnet9 import resnet9

_FACTORIES = (mlp, lenet, conv3, cnn16, resnet9, resnet18, resnet20)
# by name
NETWORKS: dict[str, Callable[..., nn.Module]] = {make.__name__: make for make in _FACTORIES}


def network_for(name: str, shape: tuple[int, ...], classes: int | None, **more: Any) -> nn.Module:
    """Return the named network for tables of shape `(features,)` or images of shape `(C, H, W)`.

    `more` are further arguments of the network, such as `dropout`.

    >>> network_for("lenet", (3, 32, 32), 10)(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    if check_name("network", name, NETWORKS) == "mlp":
        return mlp(math.prod(shape), classes, **more)
    if len(shape) != 3:
        raise NescioError(
            f"network {name!r} takes images (C, H, W), but inputs have shape {shape}; use 'mlp'"
        )
    extra: dict[str, Any] = {"channels": shape[0], **more}
    if name in ("lenet", "conv3", "cnn16"):  # their dense layer depends on the size of the image
        if shape[1] != shape[2]:
            raise NescioError(f"network {name!r} takes square images, got {shape[1]}×{shape[2]}")
        extra["size"] = shape[1]
    return NETWORKS[name](classes=classes, **extra)


def build(recipe: dict[str, Any]) -> nn.Module:
    """Return the network of a recipe, with fresh weights.

    >>> mlp(2, 3, hidden=[16]).recipe
    {'network': 'mlp', 'inputs': 2, 'classes': 3, 'hidden': [16], 'dropout': 0.0}
    >>> build({"network": "mlp", "inputs": 2, "classes": 3})(torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """
    arguments = dict(recipe)
    name = arguments.pop("network", None)
    if not isinstance(name, str) or name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    try:
        return NETWORKS[name](**arguments)
    except (TypeError, RuntimeError) as error:  # an argument it lacks, or a size no tensor can have
        raise NescioError(f"network {name!r} cannot be built from {arguments}: {error}") from error


def feature_width(net: nn.Module) -> int | None:
    """Return how many numbers a network gives per input, by its recipe or last linear layer.

    >>> feature_width(cnn16()), feature_width(nn.Sequential(nn.Linear(4, 8), nn.ReLU()))
    (144, 8)
    """
    recipe = getattr(net, "recipe", None)
    if recipe is None:
        widths = [module.out_features for module in net.modules() if isinstance(module, nn.Linear)]
        return widths[-1] if widths else None
    side = recipe.get("size", 32)
    shape = (recipe["inputs"],) if recipe["network"] == "mlp" else (recipe["channels"], side, side)
    like = next(net.parameters(), torch.zeros(0))
    with torch.no_grad():
        return int(copy.deepcopy(net).eval()(like.new_zeros(1, *shape)).shape[1])


__all__ = ["NETWORKS", "ProbsToLogits", "build", "feature_width", "network_for"]
__all__ += ["cnn16", "conv3", "lenet", "mlp", "resnet9", "resnet18", "resnet20"]
