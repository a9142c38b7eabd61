"""What the layers of a network are, and what they are called."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from nescio.core.weight_gradients.layers import layers_of
from nescio.methods import DUQ, Softmax
from nescio.models import cnn16, lenet, mlp


class With(nn.Module):
    """Modules, and weights of its own, by name."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def weight(*shape):
    return nn.Parameter(torch.zeros(shape))


def linear():
    return nn.Linear(2, 2)


NAMES = {
    "a sequence": (lambda: nn.Sequential(linear(), nn.ReLU(), linear()), ["linear1", "linear2"]),
    "kinds are counted apart": (
        lambda: nn.Sequential(
            nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1), nn.Conv1d(1, 1, 1), nn.LayerNorm(1), linear()
        ),
        ["conv1", "norm1", "conv2", "norm2", "linear1"],
    ),
    "other kinds": (
        lambda: nn.Sequential(nn.PReLU(), nn.Embedding(2, 2)),
        ["prelu1", "embedding1"],
    ),
    "sequences in one another": (
        lambda: nn.Sequential(nn.Sequential(linear()), linear()),
        ["linear1", "linear2"],
    ),
    "given names": (lambda: With(first=linear(), second=linear()), ["first", "second"]),
    "what all share is left out": (lambda: With(net=With(a=linear(), b=linear())), ["a", "b"]),
    "what only some share is not": (
        lambda: With(x=With(a=linear()), y=With(a=linear())),
        ["x.a", "y.a"],
    ),
    "one layer": (lambda: With(net=With(only=linear())), ["only"]),
    "a layer by itself": (linear, ["linear1"]),
    "weights of its own": (lambda: With(scale=weight(2), a=linear()), ["with1", "a"]),
    "a list": (
        lambda: With(blocks=nn.ModuleList([linear(), linear()]), a=linear()),
        ["blocks.0", "blocks.1", "a"],
    ),
    "names that would clash": (
        lambda: With(conv1=linear(), **{"0": nn.Conv1d(1, 1, 1)}),
        ["conv1", "0"],
    ),
    "what is called all": (lambda: With(all=linear(), rest=linear()), ["linear1", "rest"]),
    "parametrised": (
        lambda: nn.Sequential(weight_norm(linear()), linear()),
        ["linear1", "linear2"],
    ),
    "parametrised, by itself": (lambda: weight_norm(linear()), ["linear1"]),
    "no weights": (nn.Flatten, []),
    "lenet": (lambda: lenet(3, size=8), ["conv1", "conv2", "linear1", "linear2"]),
    "cnn16": (lambda: cnn16(3), ["conv1", "conv2", "conv3", "linear1"]),
    "a method": (lambda: Softmax(mlp(2, 3, hidden=(4,))), ["linear1", "linear2"]),
    "DUQ": (lambda: DUQ(mlp(2, hidden=(4, 4)), 3), ["duq1", "net.1", "net.3"]),
}


@pytest.mark.parametrize("kind", NAMES)
def test_names(kind):
    make, names = NAMES[kind]
    assert list(layers_of(make())) == names


@pytest.mark.parametrize("kind", NAMES)
def test_every_weight_belongs_to_one_layer(kind):
    model = NAMES[kind][0]()
    found = [path for own in layers_of(model).values() for path in own]
    assert sorted(found) == sorted(dict(model.named_parameters()))
    assert all(
        parameter is model.get_parameter(path)
        for own in layers_of(model).values()
        for path, parameter in own.items()
    )


def test_a_layer_is_its_weight_and_its_bias():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2, bias=False))
    assert [list(own) for own in layers_of(model).values()] == [
        ["0.weight", "0.bias"],
        ["1.weight"],
    ]
    assert list(layers_of(weight_norm(nn.Linear(2, 3)))["linear1"]) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]


def test_shared_weights_count_to_the_first():
    model = With(a=linear(), b=linear())
    model.b.weight = model.a.weight
    assert {name: list(own) for name, own in layers_of(model).items()} == {
        "a": ["a.weight", "a.bias"],
        "b": ["b.bias"],
    }


def test_whole_numbers_are_no_weights():
    model = With(
        a=linear(), counts=nn.Parameter(torch.zeros(3, dtype=torch.long), requires_grad=False)
    )
    assert list(layers_of(model)) == ["a"]
