"""Which weights of a network have a prior: those of its affine layers."""

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from nescio.errors import NescioError

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)


def affine_weights(net: nn.Module) -> dict[str, int]:
    """Names of the weights and biases of all linear and convolutional layers, and the inputs of one of their units.

    >>> affine_weights(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    {'0.weight': 3, '0.bias': 3}
    """
    found: dict[str, int] = {}
    shared: set[int] = set()  # weights used by two layers count once
    for path, module in net.named_modules():
        if not isinstance(module, AFFINE):
            continue
        if (
            is_parametrized(module) or "weight" not in module._parameters
        ):  # the latter in torch's older way
            raise NescioError(
                f"the weights of layer {path!r} are parametrised, and so have no prior of their own; "
                "take it off with torch.nn.utils.parametrize.remove_parametrizations"
            )
        # a transposed convolution has its inputs first, divided into groups
        inputs = (
            module.weight[:, 0].numel() // module.groups
            if isinstance(module, TRANSPOSED)
            else module.weight[0].numel()
        )
        for name, weight in module.named_parameters(path, recurse=False):
            if id(weight) not in shared:
                shared.add(id(weight))
                found[name] = inputs
    if not found:
        raise NescioError(
            f"this {type(net).__name__} has no linear or convolutional layer, whose weights could be drawn"
        )
    return found
