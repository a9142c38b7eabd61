"""The residual networks of the papers, in their form for 32×32 images; without `classes` they end in features."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nescio.models.convolutional import ChannelsLast
from nescio.models.recipe import check_sizes, recorded, thinned


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with BatchNorm and a shortcut, projected where the shape changes (He et al. 2015)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class PreActivationBlock(nn.Module):
    """BatchNorm and ReLU before each convolution; the shortcut pools and pads with zeros (option A, no weights)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.stride, self.grown = stride, after - before

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))
        if self.stride != 1:
            x = F.avg_pool2d(x, self.stride, ceil_mode=True, count_include_pad=False)
        if self.grown:
            x = F.pad(x, (0, 0, 0, 0, self.grown // 2, self.grown - self.grown // 2))
        return torch.add(out, x)


@recorded
def resnet18(classes: int | None = None, channels: int = 3, dropout: float = 0.0) -> nn.Module:
    """ResNet-18 in its CIFAR form (*DUQ*): 3×3 stem without pooling, 64 to 512 filters, 512 features.

    `dropout`, of which the paper has none, stands before the last layer.
    """
    check_sizes(classes=classes, channels=channels)
    blocks: list[nn.Module] = []
    for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        blocks += [BasicBlock(before, after, stride), BasicBlock(after, after, 1)]
    stem = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return _residual([*stem, *blocks], 512, classes, dropout)


@recorded
def resnet20(classes: int | None = None, channels: int = 3, dropout: float = 0.0) -> nn.Module:
    """Pre-activation ResNet-20 (*Why ReLU networks yield high-confidence predictions*): 16, 32, 64 filters.

    `dropout`, of which the paper has none, stands before the last layer.
    """
    check_sizes(classes=classes, channels=channels)
    blocks: list[nn.Module] = []
    for before, after, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
        blocks += [PreActivationBlock(before, after, stride)]
        blocks += [PreActivationBlock(after, after, 1) for _ in range(2)]
    stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
    net = _residual([stem, *blocks, nn.BatchNorm2d(64), nn.ReLU()], 64, classes, dropout)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.01  # the authors' moving averages keep 99 %
    return net


def _residual(
    layers: list[nn.Module], features: int, classes: int | None, dropout: float
) -> nn.Module:
    head = [] if classes is None else [nn.Linear(features, classes)]
    net = nn.Sequential(
        ChannelsLast(), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *thinned(dropout), *head
    )
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net
