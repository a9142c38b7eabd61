import copy
import math

import pytest
import torch
from torch import nn

from nescio.errors import NescioError
from nescio.models import (
    NETWORKS,
    build,
    cnn16,
    conv3,
    lenet,
    mlp,
    network_for,
    resnet9,
    resnet18,
    resnet20,
)

SHAPES = {
    "mlp": (1, 28, 28),
    "lenet": (1, 28, 28),
    "conv3": (1, 28, 28),
    "cnn16": (1, 28, 28),
    "resnet9": (3, 32, 32),
    "resnet18": (3, 32, 32),
    "resnet20": (3, 32, 32),
}


def count(net):
    return sum(weight.numel() for weight in net.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_logits_or_features(name):
    x = torch.rand(2, *SHAPES[name])
    assert network_for(name, SHAPES[name], 10).eval()(x).shape == (2, 10)
    features = network_for(name, SHAPES[name], None).eval()(x)
    want = {
        "mlp": 100,
        "lenet": 1024,
        "conv3": 256,
        "cnn16": 16 * 9,
        "resnet9": 256,
        "resnet18": 512,
        "resnet20": 64,
    }[name]
    assert features.shape == (2, want)


@pytest.mark.parametrize("name", NETWORKS)
def test_is_rebuilt_from_its_recipe(name):
    net = network_for(name, SHAPES[name], 10)
    again = build(net.recipe)
    assert [(key, value.shape) for key, value in net.state_dict().items()] == [
        (key, value.shape) for key, value in again.state_dict().items()
    ]


@pytest.mark.parametrize(
    ("net", "want"),
    [
        # worked out by hand from the papers' layers
        (lenet(10), 25 * 32 + 32 + 25 * 32 * 64 + 64 + 3136 * 1024 + 1024 + 1024 * 10 + 10),
        (
            conv3(10),
            (9 * 64 + 64 + 128)
            + (9 * 64 * 128 + 128 + 256)
            + (9 * 128 * 128 + 128 + 256)
            + (512 * 256 + 256 + 2570),
        ),
        (cnn16(10), 9 * 16 + 16 + 2 * (9 * 16 * 16 + 16) + 144 * 10 + 10),
        (mlp(64, 10, hidden=(20, 30)), 64 * 20 + 20 + 20 * 30 + 30 + 30 * 10 + 10),
        (
            resnet9(10, width=4),
            9 * (3 * 4 + 4 * 8 + 2 * 8 * 8 + 8 * 16 + 16 * 32 + 2 * 32 * 32)  # convolutions
            + 2 * (4 + 3 * 8 + 16 + 3 * 32)  # norms
            + 32 * 10
            + 10,
        ),
        (resnet18(10), 11_173_962),  # the published size of the CIFAR form with projections
        (
            resnet20(10),
            9
            * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64)  # convolutions
            + 2 * (6 * 16 + 16 + 5 * 32 + 32 + 5 * 64 + 64)
            + 64 * 10
            + 10,
        ),  # norms before and between them, and the last
    ],
    ids=["lenet", "conv3", "cnn16", "mlp", "resnet9", "resnet18", "resnet20"],
)
def test_number_of_weights(net, want):
    assert count(net) == want


def same_padding(x, kernel, stride):
    """Zeros as TensorFlow's SAME has them: as few as it takes, the odd one at the end."""
    pads = []
    for side in x.shape[:1:-1]:  # the last axis comes first
        whole = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
        pads += [whole // 2, whole - whole // 2]
    return nn.functional.pad(x, pads)


def authors_resnet(x, weights):
    """The network of Hein et al.'s code, layer by layer, from weights by the places of ours."""

    def convolved(x, name, stride=1):
        return nn.functional.conv2d(
            same_padding(x, 3, stride), weights[f"{name}.weight"], stride=stride
        )

    def rectified(x, name):
        mean, var, scale, shift = (
            weights[f"{name}.{key}"][:, None, None]
            for key in ("running_mean", "running_var", "weight", "bias")
        )
        return ((x - mean) / (var + 1e-5).sqrt() * scale + shift).clamp(min=0)

    x = convolved(x, "1")
    for block in range(9):
        name, stride = f"{2 + block}", 2 if block in (3, 6) else 1
        active = rectified(x, f"{name}.norm1")
        shortcut = active if block % 3 == 0 else x
        out = convolved(active, f"{name}.conv1", stride)
        if stride == 2:
            shortcut = torch.stack(
                [shortcut[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
            ).mean(0)
            more = torch.zeros_like(shortcut[:, : shortcut.shape[1] // 2])
            shortcut = torch.cat([more, shortcut, more], 1)
        x = convolved(rectified(out, f"{name}.norm2"), f"{name}.conv2") + shortcut
    return rectified(x, "11").mean((2, 3)) @ weights["15.weight"].T + weights["15.bias"]


def test_resnet20_is_the_authors_network(seed):
    torch.manual_seed(seed)
    net = resnet20(10).double().eval()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                nn.init.uniform_(values, 0.1, 0.9)
    x = torch.rand(3, 3, 12, 20, dtype=torch.double)
    torch.testing.assert_close(net(x), authors_resnet(x, net.state_dict()))


@pytest.mark.parametrize("size", [(7, 7), (8, 7), (7, 8)])
def test_odd_sides_are_padded_as_in_tensorflow(size, seed):
    torch.manual_seed(seed)
    block = resnet20(10)[5].eval()  # the first block of the second stage
    x = torch.rand(2, 16, *size)
    active = nn.functional.relu(block.norm1(x))
    ours = []
    block.conv1.register_forward_hook(lambda _module, _inputs, out: ours.append(out))
    assert block(x).shape[2:] == tuple((side + 1) // 2 for side in size)
    want = nn.functional.conv2d(same_padding(active, 3, 2), block.conv1.weight, stride=2)
    torch.testing.assert_close(ours[0], want)


def test_resnet9_is_its_formula():
    torch.manual_seed(0)
    net = resnet9(width=2).eval()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                nn.init.uniform_(values, 0.5, 1.5)
    convs = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d)]
    steps = iter(zip(convs, norms, strict=True))

    def conv(x, pool=False):
        layer, norm = next(steps)
        x = nn.functional.conv2d(x, layer.weight, padding=1)
        mean, std = norm.running_mean, (norm.running_var + norm.eps).sqrt()
        x = (x - mean[:, None, None]) / std[:, None, None]
        x = (x * norm.weight[:, None, None] + norm.bias[:, None, None]).clamp(min=0)
        return nn.functional.max_pool2d(x, 2) if pool else x

    x = torch.rand(2, 3, 16, 16)
    out = conv(conv(x), pool=True)
    out = out + conv(conv(out))
    out = conv(conv(out, pool=True), pool=True)
    out = (out + conv(conv(out))).mean((2, 3))
    torch.testing.assert_close(net(x), out)


def test_details_of_the_papers():
    net = cnn16(10)
    assert [layer.p for layer in net if isinstance(layer, nn.Dropout)] == [0.33, 0.33]
    assert [layer.negative_slope for layer in net if isinstance(layer, nn.LeakyReLU)] == [
        0.1,
        0.1,
        0.1,
    ]
    assert all(
        layer.momentum == 0.01
        for layer in resnet20().modules()
        if isinstance(layer, nn.BatchNorm2d)
    )
    first, second, dense, last = (layer for layer in lenet(10) if hasattr(layer, "weight"))
    for conv, fan_in in ((first, 25), (second, 25 * 32)):
        spread = (2 / fan_in) ** 0.5
        assert conv.weight.abs().max() <= 2 * spread
        assert conv.weight.std().item() == pytest.approx(
            0.88 * spread, rel=0.1
        )  # a normal cut at two deviations
    assert dense.weight.std().item() == pytest.approx((2 / 3136) ** 0.5, rel=0.02)
    assert all((layer.bias == 0).all() for layer in (first, second, dense, last))


def test_convolutions_run_channels_last_also_on_grey_images():
    for net, channels in ((conv3(10), 1), (lenet(10), 1), (resnet20(10), 3)):
        out = net[1](net[0](torch.rand(2, channels, 28, 28)))
        assert out.is_contiguous(memory_format=torch.channels_last)
        assert not out.is_contiguous()


@pytest.mark.parametrize("name", NETWORKS)
def test_dropout_is_the_fraction_asked_for(name):
    def fractions(**more):
        net = network_for(name, SHAPES[name], 10, **more)
        return [layer.p for layer in net.modules() if isinstance(layer, nn.Dropout)]

    places = {"mlp": 2, "cnn16": 2}.get(name, 1)
    assert fractions(dropout=0.4) == [0.4] * places
    assert fractions(dropout=0.0) == []
    assert fractions() == ([0.33] * 2 if name == "cnn16" else [])


@pytest.mark.parametrize("name", NETWORKS)
def test_dropout_stands_before_the_last_layer_and_is_off_at_prediction(name):
    net, plain = (network_for(name, SHAPES[name], 10, dropout=fraction) for fraction in (0.4, 0.0))
    assert isinstance(net[-2], nn.Dropout)
    assert isinstance(net[-1], nn.Linear)
    assert count(net) == count(plain)
    for weight, other in zip(plain.parameters(), net.parameters(), strict=True):
        weight.data.copy_(other)
    x = torch.rand(2, *SHAPES[name])
    assert torch.equal(net.eval()(x), plain.eval()(x))
    assert not torch.equal(
        net[-2:].train()(torch.ones(1, net[-1].in_features)),
        net[-1](torch.ones(1, net[-1].in_features)),
    )
    assert isinstance(network_for(name, SHAPES[name], None, dropout=0.4)[-1], nn.Dropout)


@pytest.mark.parametrize("name", NETWORKS)
def test_dropout_is_in_the_recipe(name):
    net = network_for(name, SHAPES[name], 10, dropout=0.4)
    assert net.recipe["dropout"] == 0.4
    assert repr(build(net.recipe)) == repr(net)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("fraction", [1, 1.0, -0.1, float("nan"), "0.1", None, True])
def test_impossible_fractions_are_refused(name, fraction):
    with pytest.raises(NescioError, match=r"dropout must be a fraction in \[0, 1\)"):
        network_for(name, SHAPES[name], 10, dropout=fraction)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mlp(0, 3),
        lambda: mlp(4, 0),
        lambda: mlp(4, 3, hidden=(5, -1)),
        lambda: lenet(2.5),
        lambda: conv3(10, size=12),
        lambda: cnn16(10, size=8),
        lambda: network_for("lenet", (4,), 3),
        lambda: network_for("conv3", (1, 28, 20), 3),
        lambda: network_for("lenett", (1, 28, 28), 3),
        lambda: build({"network": "mlp", "width": 3}),
        lambda: build({}),
        lambda: mlp(4, 3, dropout=5),
        lambda: mlp(4, 3, hidden=5),
        lambda: mlp(4, 3, hidden=(1,) * 2000),
        lambda: build({"network": ["mlp"]}),
        lambda: build({"network": "mlp", "inputs": None}),
        lambda: mlp(10**30, 3),
        lambda: build({"network": "mlp", "inputs": 2, "dropout": "x"}),
        lambda: mlp(2**39, 3),
    ],
)
def test_refuses_impossible_sizes(make):
    with pytest.raises(NescioError):
        make()


def test_an_unknown_network_suggests_the_nearest():
    with pytest.raises(NescioError, match="did you mean 'lenet'"):
        network_for("lenett", (1, 28, 28), 3)


@pytest.mark.parametrize("make", [lenet, conv3, cnn16])
def test_pooling_before_relu_changes_nothing(make, seed):
    """The papers rectify first; outputs and gradients are the same to the bit."""
    torch.manual_seed(seed)
    ours = make(10, dropout=0.0).train()
    layers = list(copy.deepcopy(ours))
    for i, layer in enumerate(layers[:-1]):
        if isinstance(layer, nn.MaxPool2d):
            layers[i : i + 2] = layers[i + 1], layer
    papers = nn.Sequential(*layers)
    x = torch.rand(6, 1, 28, 28)
    found = []
    for net in (ours, papers):
        inputs = x.clone().requires_grad_()
        output = net(inputs)
        output.square().sum().backward()
        found.append([output, inputs.grad, *(weight.grad for weight in net.parameters())])
    assert [type(layer) for layer in papers] != [type(layer) for layer in ours]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
