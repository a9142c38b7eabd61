"""Small networks for tests of training, and ways to look at them."""

import torch
from torch import nn

from nescio.methods import Softmax
from nescio.models import mlp


def small(seed=0):
    """A network for `three_blobs`."""
    torch.manual_seed(seed)
    return mlp(2, 3, hidden=(16,))


def linear(weight, bias=None, dtype=torch.float64):
    """A linear network with given weights, and a bias of 0 unless it is given."""
    net = nn.Linear(len(weight[0]), len(weight), dtype=dtype).requires_grad_(False)
    net.weight.copy_(torch.as_tensor(weight, dtype=torch.float64))
    net.bias.copy_(torch.zeros(len(weight)) if bias is None else torch.as_tensor(bias))
    return net.requires_grad_()


def same(a, b):
    """Whether two networks have the same weights, to the bit."""
    return all(torch.equal(a.state_dict()[key], b.state_dict()[key]) for key in a.state_dict())


def seeded(net, seed=0):
    """With random weights and statistics everywhere, in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    for module in net.modules():
        for name, value in (
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
        ):
            if value.is_floating_point():
                drawn = torch.randn(value.shape, generator=generator)
                value.data = (
                    drawn.abs() + 0.5
                    if name == "running_var"
                    else drawn / max(1, value[0].numel()) ** 0.5
                )
    return net.eval()


class Watched(Softmax):
    """Records each step: its inputs, a random number, and which layers were in train mode."""

    def __init__(self, net):
        super().__init__(net)
        self.inputs, self.drawn, self.modes = [], [], []

    def loss(self, x, y):
        self.inputs.append(x)
        self.drawn.append(torch.rand(1).item())
        self.modes.append([module.training for module in self.net])
        return super().loss(x, y)


class Draws(nn.Module):
    """Several networks, each a draw."""

    def __init__(self, *nets):
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, x):
        return torch.stack([net(x) for net in self.nets])
