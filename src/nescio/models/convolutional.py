"""The small convolutional networks of the papers, for images `(N, C, H, W)`; without `classes` they end in features.

Activations run in channels-last order, which CPU convolutions are faster in. Pooling stands before ReLU, after it
in the papers: neither the function nor its gradient changes, and there is a quarter as much to rectify.
"""

import math

from torch import Tensor, nn

from nescio.models.recipe import check_sizes, recorded, thinned


class ChannelsLast(nn.Module):
    """The same images, laid out with the channels innermost."""

    def forward(self, x: Tensor) -> Tensor:
        if (
            x.shape[1] == 1
        ):  # both layouts at once, which torch takes for the other one unless the strides say so
            return x.reshape(x.shape[0], *x.shape[2:], 1).permute(0, 3, 1, 2)
        return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # as `vmap` knows it, too


@recorded
def lenet(
    classes: int | None = None, channels: int = 1, size: int = 28, dropout: float = 0.0
) -> nn.Module:
    """LeNet of *Why ReLU networks yield high-confidence predictions*: 5×5 convolutions of 32 and 64, dense 1024.

    `dropout`, of which the paper has none, stands before the last layer.
    """
    check_sizes(classes=classes, channels=channels, size=size)
    flat = 64 * (size // 4) ** 2
    net = nn.Sequential(
        ChannelsLast(),
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(flat, 1024),
        nn.ReLU(),
        *thinned(dropout),
        *_head(1024, classes),
    )
    for layer in net:  # He's initialisation; the authors cut its tails in the convolutions
        if isinstance(layer, nn.Conv2d):
            spread = math.sqrt(2 / layer.weight[0].numel())
            nn.init.trunc_normal_(layer.weight, std=spread, a=-2 * spread, b=2 * spread)
        elif isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return net


@recorded
def conv3(
    classes: int | None = None, channels: int = 1, size: int = 28, dropout: float = 0.0
) -> nn.Module:
    """The network of DUQ's FashionMNIST runs: 64, 128, 128 filters with BatchNorm, then 256 features.

    `dropout`, of which the paper has none, stands before the last layer.
    """
    check_sizes(classes=classes, channels=channels, size=size)
    last = (size // 4 - 2) // 2  # the third convolution has no padding
    check_sizes(**{"side left after three poolings": last})
    return nn.Sequential(
        ChannelsLast(),
        nn.Conv2d(channels, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.BatchNorm2d(128),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(128, 128, 3),
        nn.BatchNorm2d(128),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128 * last**2, 256),
        nn.ReLU(),
        *thinned(dropout),
        *_head(256, classes),
    )


@recorded
def cnn16(
    classes: int | None = None, channels: int = 1, size: int = 28, dropout: float = 0.33
) -> nn.Module:
    """The network of *Classification uncertainty by gradient metrics*: three convolutions of 16, leaky ReLU, dropout.

    The paper puts dropout after the first convolution and after the dense layer, whose width it leaves out; its dense
    layer is the one with the softmax, so here the second dropout stands before it, where it cannot silence a class.
    """
    check_sizes(classes=classes, channels=channels, size=size)
    last = ((size - 2) // 2 - 2) // 2 - 2  # no padding; the first two convolutions are pooled
    check_sizes(**{"side left after three convolutions": last})
    return nn.Sequential(
        ChannelsLast(),
        nn.Conv2d(channels, 16, 3),
        nn.MaxPool2d(2),
        nn.LeakyReLU(0.1),
        *thinned(dropout),
        nn.Conv2d(16, 16, 3),
        nn.MaxPool2d(2),
        nn.LeakyReLU(0.1),
        nn.Conv2d(16, 16, 3),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        *thinned(dropout),
        *_head(16 * last**2, classes),
    )


def _head(features: int, classes: int | None) -> list[nn.Module]:
    return [] if classes is None else [nn.Linear(features, classes)]
