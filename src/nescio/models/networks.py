"""The papers' networks, each with the recipe it was made by; features out if `classes` is None.

Activations run in channels-last order, in which CPU convolutions are faster. Pooling comes before
ReLU, after it in the papers: neither the function nor its gradient changes, and there is a quarter
as much to rectify. `dropout` comes before the last layer; only `cnn16`'s paper uses any.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ParamSpec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.errors import NescioError

P = ParamSpec("P")
SIZES = ("inputs", "classes", "channels", "size", "width")  # arguments that must be sizes, or None
MAX_LAYERS = 1000


def network_factory(make: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Check the sizes a factory is given, and keep its name and arguments as `net.recipe`.

    By its recipe a saved network is rebuilt without a pickle.
    """
    signature = inspect.signature(make)

    @functools.wraps(make)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        check_sizes(**{name: size for name, size in arguments.items() if name in SIZES})
        net = make(*args, **kwargs)
        net.recipe = {"network": make.__name__, **arguments}  # type: ignore[assignment]
        return net

    return wrapper


def check_sizes(**sizes: int | None) -> None:
    """Raise an error that names the first size which is not a positive int; None passes.

    A size must be Python's own int: it goes into the recipe, which is stored as plain data.
    """
    for name, size in sizes.items():
        if size is not None and (type(size) is not int or not 1 <= size < 2**30):
            raise NescioError(f"{name} must be an int ≥ 1 and < 2**30, got {size!r}")


def dropout_layers(dropout: float) -> list[nn.Module]:
    """Return one dropout layer, or none for a fraction of 0."""
    if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
        raise NescioError(f"dropout must be a fraction in [0, 1), got {dropout!r}")
    return [nn.Dropout(dropout)] if dropout else []


@network_factory
def mlp(
    inputs: int,
    classes: int | None = None,
    hidden: Sequence[int] = (100, 100),
    dropout: float = 0.0,
) -> nn.Module:
    """Flatten, then Linear and ReLU per hidden width; ends in features if `classes` is None.

    >>> mlp(2, 3, hidden=[16])
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=2, out_features=16, bias=True)
      (2): ReLU()
      (3): Linear(in_features=16, out_features=3, bias=True)
    )
    """
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


class ChannelsLast(nn.Module):
    """The same images, laid out with the channels innermost."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:  # torch takes one channel for channels first unless the strides say so
            return x.reshape(x.shape[0], *x.shape[2:], 1).permute(0, 3, 1, 2)
        return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # works under vmap, too


@network_factory
def lenet(
    classes: int | None = None, channels: int = 1, size: int = 28, dropout: float = 0.0
) -> nn.Module:
    """LeNet of Hein et al. (2019): 5×5 convolutions with 32 and 64 filters, then 1024 features.

    >>> lenet(classes=10)(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    net = nn.Sequential(
        ChannelsLast(),
        *_pooled(nn.Conv2d(channels, 32, 5, padding=2)),
        *_pooled(nn.Conv2d(32, 64, 5, padding=2)),
        *_dense(64 * (size // 4) ** 2, 1024),
        *_head(1024, classes, dropout),
    )
    for layer in net:  # He's initialisation; the authors cut its tails in the convolutions
        if isinstance(layer, nn.Conv2d):
            std = math.sqrt(2 / layer.weight[0].numel())
            nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
        elif isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return net


@network_factory
def conv3(
    classes: int | None = None, channels: int = 1, size: int = 28, dropout: float = 0.0
) -> nn.Module:
    """The network of DUQ on FashionMNIST: 64, 128, 128 filters, BatchNorm, then 256 features.

    >>> conv3(classes=10).eval()(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    last = (size // 4 - 2) // 2  # the third convolution has no padding
    check_sizes(**{"side left after three poolings": last})
    return nn.Sequential(
        ChannelsLast(),
        *_pooled(nn.Conv2d(channels, 64, 3, padding=1), nn.BatchNorm2d(64)),
        *_pooled(nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128)),
        *_pooled(nn.Conv2d(128, 128, 3), nn.BatchNorm2d(128)),
        *_dense(128 * last**2, 256),
        *_head(256, classes, dropout),
    )


@network_factory
def cnn16(
    classes: int | None = None, channels: int = 1, size: int = 28, dropout: float = 0.33
) -> nn.Module:
    """The network of *Classification uncertainty by gradient metrics*: three convolutions of 16.

    The paper has dropout after the first convolution and after the dense layer, whose width it
    leaves out. Its dense layer is the one with the softmax, so here the second dropout comes before
    it, where it cannot silence a class.

    >>> cnn16(classes=10)(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    last = ((size - 2) // 2 - 2) // 2 - 2  # no padding; the first two convolutions are pooled
    check_sizes(**{"side left after three convolutions": last})
    stages = [nn.Conv2d(channels, 16, 3), nn.MaxPool2d(2), nn.LeakyReLU(0.1)]
    stages += dropout_layers(dropout)
    stages += [nn.Conv2d(16, 16, 3), nn.MaxPool2d(2), nn.LeakyReLU(0.1)]
    stages += [nn.Conv2d(16, 16, 3), nn.LeakyReLU(0.1), nn.Flatten()]
    return nn.Sequential(ChannelsLast(), *stages, *_head(16 * last**2, classes, dropout))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with BatchNorm and a shortcut, projected where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            projection = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class PreActivationBlock(nn.Module):
    """BatchNorm and ReLU before each convolution; the shortcut pools and pads with zeros.

    The shortcut of a block that opens a stage leaves after its first ReLU, that of others before
    its first norm. A stride of 2 pads as little as it must, at the bottom and on the right first.
    """

    def __init__(self, before: int, after: int, stride: int = 1, opens_stage: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=2 - stride, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.stride, self.opens_stage, self.grown = stride, opens_stage, after - before

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        x = active if self.opens_stage else x
        if self.stride == 2:
            height, width = x.shape[2:]  # of odd sides both ends are padded
            active = F.pad(active, (width % 2, 1, height % 2, 1))
            x = F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
        if self.grown:
            x = F.pad(x, (0, 0, 0, 0, self.grown // 2, self.grown - self.grown // 2))
        return torch.add(self.conv2(F.relu(self.norm2(self.conv1(active)))), x)


@network_factory
def resnet18(classes: int | None = None, channels: int = 3, dropout: float = 0.0) -> nn.Module:
    """ResNet-18 (He et al. 2015) in its CIFAR form: 3×3 stem without pooling, 512 features.

    >>> resnet18(classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    blocks: list[nn.Module] = []
    for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        blocks += [BasicBlock(before, after, stride), BasicBlock(after, after, 1)]
    stem = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return _residual([*stem, *blocks], 512, classes, dropout)


@network_factory
def resnet20(classes: int | None = None, channels: int = 3, dropout: float = 0.0) -> nn.Module:
    """Pre-activation ResNet-20 of Hein et al. (2019): 16, 32, 64 filters, 64 features.

    >>> resnet20(classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    blocks: list[nn.Module] = []
    for before, after, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
        blocks += [PreActivationBlock(before, after, stride, opens_stage=True)]
        blocks += [PreActivationBlock(after, after) for _ in range(2)]
    stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
    net = _residual([stem, *blocks, nn.BatchNorm2d(64), nn.ReLU()], 64, classes, dropout)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.01  # the authors' moving averages keep 99 %
    return net


def _residual(
    layers: list[nn.Module], features: int, classes: int | None, dropout: float
) -> nn.Module:
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *_head(features, classes, dropout)]
    net = nn.Sequential(ChannelsLast(), *layers)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net


def _pooled(*layers: nn.Module) -> list[nn.Module]:
    return [*layers, nn.MaxPool2d(2), nn.ReLU()]


def _dense(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(inputs, outputs), nn.ReLU()]


def _head(features: int, classes: int | None, dropout: float) -> list[nn.Module]:
    return dropout_layers(dropout) + ([] if classes is None else [nn.Linear(features, classes)])
