"""Gradients of single inputs, with and without rules, against autograd one input at a time."""

import copy
from unittest.mock import patch

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

import nescio
from nescio.core.model_state import preserve_state
from nescio.core.weight_gradients import STATISTICS, batch, batch_gradients
from nescio.core.weight_gradients import layers as rules
from nescio.errors import NescioError
from nescio.methods import DUQ, BayesByBackprop, Ensemble, MCDropout, Softmax
from nescio.models import cnn16, conv3, lenet, mlp, resnet20
from nescio.models.networks import BasicBlock
from nescio.scores import gradient_features
from single_gradients import assert_close, assert_exact, entries, ready, statistics_of, used_layers

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")


class Net(nn.Module):
    """Layers by name, and what is done with them."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.run(self, x)


class Noisy(nn.Linear):
    """Weights that are drawn anew at each pass."""

    def forward(self, x):
        return F.linear(x, self.weight + torch.randn_like(self.weight), self.bias)


class Scaled(nn.Linear):
    """A layer with a forward pass of its own."""

    def forward(self, x):
        return 3 * super().forward(x)


def lin(*sizes, **how):
    return nn.Linear(*sizes, **how)


def images(*layers, flat):
    """Layers for images of 2 × 7 × 6, and a last one."""
    return nn.Sequential(*layers, nn.Flatten(), lin(flat, 3)), (4, 2, 7, 6)


def residual(net, x):
    h = net.stem(x)
    return net.head((h + net.inner(h).relu()).mean((2, 3)))


def tied():
    net = Net(
        lambda net, x: net.c(torch.tanh(net.b(torch.tanh(net.a(x))))),
        a=lin(4, 4),
        b=lin(4, 4),
        c=lin(4, 3),
    )
    net.b.weight = net.a.weight
    return net


def tied_words():
    """Words in and words out by one table, the second time through a module."""
    net = Net(
        lambda net, x: net.out(torch.tanh(net.table(x).mean(1))),
        table=nn.Embedding(5, 4),
        out=lin(4, 5),
    )
    net.out.weight = net.table.weight
    return net


def without(module, name):
    setattr(module, name, None)
    return module


def frozen_stem(net, x):
    with torch.no_grad():
        h = net.stem(x)
    return net.head(h.relu())


def overwritten(net, x):
    """What a layer was given is changed after it."""
    h = torch.tanh(net.a(x))
    out = net.b(h)
    h.mul_(2)
    return net.c(out + h)


def swapped(net, x):
    """A layer with other weights than its own in their place."""
    own = {"weight": 2 * net.a.weight, "bias": net.a.bias}
    return net.b(torch.tanh(functional_call(net.a, own, (x,))))


def words_first(net, x):  # x is (N, T, E)
    return net.b(torch.tanh(net.a(x.transpose(0, 1))).mean(0))


def one_after_another(net, x):
    return torch.stack([net.b(torch.tanh(net.a(one)).mean(0)) for one in x])


def hooked():
    net = nn.Sequential(lin(5, 4), nn.Tanh(), lin(4, 3))
    net[0].register_forward_hook(lambda module, given, returned: returned * 3 + 1)
    net[2].register_forward_pre_hook(lambda module, given: (given[0] ** 2,))
    return net


WORDS = (4, 6, 3)  # N, T, E
AS_MANY_WORDS = (6, 6, 3)

RULED = {  # no weight of these needs a pass of its own
    "mlp": (lambda: mlp(6, 4, hidden=(8, 7)), (5, 6)),
    "lenet": (lambda: lenet(4, size=8), (3, 1, 8, 8)),
    "cnn16": (lambda: cnn16(4), (2, 1, 28, 28)),
    "conv3": (lambda: conv3(3, size=16), (2, 1, 16, 16)),
    "resnet20": (lambda: resnet20(3), (2, 3, 8, 8)),
    "blocks of resnet18": (
        lambda: nn.Sequential(BasicBlock(3, 4, 2), BasicBlock(4, 4, 1), nn.Flatten(), lin(64, 3)),
        (3, 3, 8, 8),
    ),
    "a shortcut": (
        lambda: Net(
            residual, stem=nn.Conv2d(2, 3, 3), inner=nn.Conv2d(3, 3, 3, padding=1), head=lin(3, 3)
        ),
        (4, 2, 7, 6),
    ),
    "one layer": (lambda: lin(5, 3), (4, 5)),
    "one input": (lambda: mlp(6, 4, hidden=(8,)), (1, 6)),
    "two inputs": (lambda: mlp(6, 4, hidden=(8,)), (2, 6)),
    "as many inputs as features": (lambda: mlp(6, 6, hidden=(6,)), (6, 6)),
    "two classes": (lambda: mlp(6, 2, hidden=(8,)), (4, 6)),
    "no bias": (
        lambda: nn.Sequential(lin(5, 4, bias=False), nn.Tanh(), lin(4, 3, bias=False)),
        (4, 5),
    ),
    "groups": (lambda: images(nn.Conv2d(2, 6, 3, groups=2), nn.ReLU(), flat=120)[0], (4, 2, 7, 6)),
    "depthwise": (
        lambda: images(nn.Conv2d(2, 2, 3, groups=2, bias=False), nn.ReLU(), flat=40)[0],
        (4, 2, 7, 6),
    ),
    "stride with a rest": (
        lambda: images(nn.Conv2d(2, 3, 3, stride=(3, 2)), nn.ReLU(), flat=12)[0],
        (4, 2, 7, 6),
    ),
    "dilation": (
        lambda: images(nn.Conv2d(2, 3, (3, 2), dilation=(2, 3)), nn.ReLU(), flat=27)[0],
        (4, 2, 7, 6),
    ),
    "padding": (
        lambda: images(nn.Conv2d(2, 3, 3, padding=(2, 1), stride=2), nn.ReLU(), flat=45)[0],
        (4, 2, 7, 6),
    ),
    "circular": (
        lambda: images(
            nn.Conv2d(2, 3, 3, padding=(2, 1), padding_mode="circular"), nn.ReLU(), flat=162
        )[0],
        (4, 2, 7, 6),
    ),
    "reflect": (
        lambda: images(nn.Conv2d(2, 3, 3, padding=2, padding_mode="reflect"), nn.ReLU(), flat=216)[
            0
        ],
        (4, 2, 7, 6),
    ),
    "replicate": (
        lambda: images(
            nn.Conv2d(2, 3, 3, padding=1, padding_mode="replicate"), nn.ReLU(), flat=126
        )[0],
        (4, 2, 7, 6),
    ),
    "same": (
        lambda: images(
            nn.Conv2d(2, 3, (2, 3), padding="same", dilation=(3, 2)), nn.ReLU(), flat=126
        )[0],
        (4, 2, 7, 6),
    ),
    "same, reflected": (
        lambda: images(
            nn.Conv2d(2, 3, (2, 4), padding="same", padding_mode="reflect"), nn.ReLU(), flat=126
        )[0],
        (4, 2, 7, 6),
    ),
    "one channel, one column": (
        lambda: nn.Sequential(nn.Conv2d(1, 3, (2, 1)), nn.ReLU(), nn.Flatten(), lin(15, 3)),
        (4, 1, 6, 1),
    ),
    "Conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(4, 6, 3, 2, groups=2, padding=1), nn.ReLU(), nn.Flatten(), lin(24, 3)
        ),
        (3, 4, 8),
    ),
    "Conv3d": (
        lambda: nn.Sequential(
            nn.Conv3d(2, 3, 2, (2, 1, 1), padding="valid"), nn.ReLU(), nn.Flatten(), lin(96, 3)
        ),
        (3, 2, 4, 5, 5),
    ),
    "channels innermost": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3), nn.Flatten(), lin(18, 3)
        ).to(memory_format=torch.channels_last),
        (4, 2, 7, 6),
    ),
    "max pooling": (
        lambda: images(nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), flat=27)[0],
        (4, 2, 7, 6),
    ),
    "in place": (
        lambda: images(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), flat=60)[0],
        (4, 2, 7, 6),
    ),
    "first in place": (
        lambda: nn.Sequential(nn.ReLU(inplace=True), lin(5, 4), nn.Tanh(), lin(4, 3)),
        (4, 5),
    ),
    "BatchNorm": (
        lambda: nn.Sequential(lin(5, 4), nn.BatchNorm1d(4), nn.ReLU(), lin(4, 3)),
        (4, 5),
    ),
    "BatchNorm of rows": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), lin(24, 3)
        ),
        (4, 2, 8),
    ),
    "BatchNorm without bias": (
        lambda: nn.Sequential(lin(5, 4), without(nn.BatchNorm1d(4), "bias"), nn.ReLU(), lin(4, 3)),
        (4, 5),
    ),
    "BatchNorm without weights": (
        lambda: nn.Sequential(lin(5, 4), nn.BatchNorm1d(4, affine=False), nn.ReLU(), lin(4, 3)),
        (4, 5),
    ),
    "BatchNorm last": (lambda: nn.Sequential(lin(5, 4), nn.BatchNorm1d(4)), (4, 5)),
    "a convolution last": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, (5, 4)), nn.Flatten()),
        (4, 2, 7, 6),
    ),
    "log-softmax last": (
        lambda: nn.Sequential(lin(5, 4), nn.Tanh(), lin(4, 3), nn.LogSoftmax(1)),
        (4, 5),
    ),
    "words": (lambda: nn.Sequential(lin(3, 4), nn.Tanh(), nn.Flatten(), lin(24, 3)), WORDS),
    "as many words as inputs": (
        lambda: nn.Sequential(lin(3, 4), nn.Tanh(), nn.Flatten(), lin(24, 3)),
        AS_MANY_WORDS,
    ),
    "used twice": (
        lambda: Net(
            lambda net, x: net.b(torch.tanh(net.a(torch.tanh(net.a(x))))), a=lin(4, 4), b=lin(4, 3)
        ),
        (5, 4),
    ),
    "used on words and on their mean": (
        lambda: Net(
            lambda net, x: net.b(net.a(torch.tanh(net.a(x)).mean(1))), a=lin(3, 3), b=lin(3, 3)
        ),
        WORDS,
    ),
    "used twice, last": (
        lambda: Net(lambda net, x: net.a(torch.tanh(net.a(x))), a=lin(4, 4)),
        (5, 4),
    ),
    "a convolution used at two sizes": (
        lambda: Net(
            lambda net, x: net.b(
                net.a(x).relu().mean((2, 3)) + net.a(F.avg_pool2d(x, 2)).tanh().mean((2, 3))
            ),
            a=nn.Conv2d(2, 3, 3, padding=1),
            b=lin(3, 3),
        ),
        (4, 2, 7, 6),
    ),
    "one of two uses leads nowhere": (
        lambda: Net(
            lambda net, x: (net.a(2 * x), net.b(net.a(x).tanh()))[1], a=lin(4, 4), b=lin(4, 3)
        ),
        (5, 4),
    ),
    "a layer called by keyword": (
        lambda: Net(
            lambda net, x: net.b(input=torch.tanh(net.a(input=x))), a=lin(4, 4), b=lin(4, 3)
        ),
        (5, 4),
    ),
    "unused modules": (
        lambda: Net(lambda net, x: net.b(x), a=lin(4, 4), b=lin(4, 3), c=nn.LSTM(3, 3)),
        (5, 4),
    ),
    "a frozen stem": (lambda: Net(frozen_stem, stem=lin(5, 4), head=lin(4, 3)), (4, 5)),
    "hooks that change what is given and returned": (hooked, (4, 5)),
    "one draw": (lambda: Net(lambda net, x: net.a(x)[None], a=lin(5, 3)), (4, 5)),
    "a method": (
        lambda: Softmax(mlp(6, 4, hidden=(8,)), normalise=Net(lambda net, x: x / 2 - 1)),
        (5, 6),
    ),
}

OTHERS = {
    "GroupNorm": (
        lambda: images(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), flat=80)[0],
        (4, 2, 7, 6),
    ),
    "LayerNorm": (lambda: nn.Sequential(lin(5, 4), nn.LayerNorm(4), nn.ReLU(), lin(4, 3)), (4, 5)),
    "InstanceNorm": (
        lambda: images(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU(), flat=80)[
            0
        ],
        (4, 2, 7, 6),
    ),
    "PReLU": (lambda: nn.Sequential(lin(5, 4), nn.PReLU(4), lin(4, 3)), (4, 5)),
    "Bilinear": (lambda: Net(lambda net, x: net.a(x, x.tanh()), a=nn.Bilinear(5, 5, 3)), (4, 5)),
    "ConvTranspose": (
        lambda: images(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.ConvTranspose2d(3, 2, 2, 2), flat=160)[0],
        (4, 2, 7, 6),
    ),
    "LSTM": (
        lambda: Net(
            lambda net, x: net.b(net.a(x)[0][:, -1]), a=nn.LSTM(3, 4, batch_first=True), b=lin(4, 3)
        ),
        WORDS,
    ),
    "GRU both ways": (
        lambda: Net(
            lambda net, x: net.b(net.a(x.transpose(0, 1))[0][-1]),
            a=nn.GRU(3, 4, 2, bidirectional=True),
            b=lin(8, 3),
        ),
        WORDS,
    ),
    "attention": (
        lambda: Net(
            lambda net, x: net.b(net.a(x, x, x)[0].mean(1)),
            a=nn.MultiheadAttention(6, 2, batch_first=True),
            b=lin(6, 3),
        ),
        (4, 5, 6),
    ),
    "a transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), nn.Flatten(), lin(30, 3)
        ),
        (4, 5, 6),
    ),
    "weights of its own": (
        lambda: Net(
            lambda net, x: net.a(x * net.scale) + net.shift,
            a=lin(5, 3),
            scale=nn.Parameter(torch.rand(5)),
            shift=nn.Parameter(torch.zeros(3)),
        ),
        (4, 5),
    ),
    "a temperature": (
        lambda: Net(
            lambda net, x: net.a(x) * net.t, a=lin(5, 3), t=nn.Parameter(torch.tensor(1.7))
        ),
        (4, 5),
    ),
    "weight_norm": (
        lambda: nn.Sequential(weight_norm(lin(5, 4)), nn.Tanh(), weight_norm(lin(4, 3))),
        (4, 5),
    ),
    "spectral_norm": (
        lambda: nn.Sequential(spectral_norm(lin(5, 4)), nn.Tanh(), lin(4, 3)),
        (4, 5),
    ),
    "a forward pass of its own": (
        lambda: nn.Sequential(Scaled(5, 4), nn.Tanh(), lin(4, 3)),
        (4, 5),
    ),
    "forward without call": (
        lambda: Net(lambda net, x: net.b(net.a.forward(x).tanh()), a=lin(5, 4), b=lin(4, 3)),
        (4, 5),
    ),
    "tied to another layer": (tied, (5, 4)),
    "used outside its layer": (
        lambda: Net(lambda net, x: F.linear(torch.tanh(net.a(x)), net.a.weight.T), a=lin(4, 4)),
        (5, 4),
    ),
    "its bias used outside": (
        lambda: Net(
            lambda net, x: net.b(torch.tanh(net.a(x))) + net.a.bias, a=lin(5, 3), b=lin(3, 3)
        ),
        (4, 5),
    ),
    "other weights in its place": (lambda: Net(swapped, a=lin(5, 4), b=lin(4, 3)), (4, 5)),
    "words first": (lambda: Net(words_first, a=lin(3, 4), b=lin(4, 3)), WORDS),
    "as many words first as inputs": (
        lambda: Net(words_first, a=lin(3, 4), b=lin(4, 3)),
        AS_MANY_WORDS,
    ),
    "two words first, two inputs": (lambda: Net(words_first, a=lin(3, 4), b=lin(4, 3)), (2, 2, 3)),
    "one input after another": (lambda: Net(one_after_another, a=lin(3, 4), b=lin(4, 3)), WORDS),
    "one after another, as many words": (
        lambda: Net(one_after_another, a=lin(3, 4), b=lin(4, 3)),
        AS_MANY_WORDS,
    ),
    "words in one row": (
        lambda: Net(
            lambda net, x: net.b(net.a(x.flatten(0, 1)).tanh().view(len(x), -1)),
            a=lin(3, 2),
            b=lin(12, 3),
        ),
        WORDS,
    ),
    "words in place": (
        lambda: nn.Sequential(lin(3, 4), nn.ReLU(inplace=True), nn.Flatten(), lin(24, 3)),
        WORDS,
    ),
    "images one by one": (
        lambda: Net(
            lambda net, x: torch.stack([net.b(net.a(one).relu().flatten()) for one in x]),
            a=nn.Conv2d(2, 3, 3),
            b=lin(60, 3),
        ),
        (4, 2, 7, 6),
    ),
    "a branch on values": (
        lambda: Net(
            lambda net, x: torch.cat(
                [net.b((net.a if one.sum() > 0 else net.c)(one[None])) for one in x]
            ),
            a=lin(5, 4),
            b=lin(4, 3),
            c=lin(5, 4),
        ),
        (6, 5),
    ),
    "noise": (lambda: nn.Sequential(lin(5, 4), nn.Tanh(), Noisy(4, 3)), (4, 5)),
    "noise first": (
        lambda: nn.Sequential(Noisy(5, 4), nn.Tanh(), nn.LayerNorm(4), lin(4, 3)),
        (4, 5),
    ),
    "DUQ": (lambda: DUQ(mlp(6, hidden=(8,)), 4, length_scale=10.0), (5, 6)),
    "DUQ that learns its scale": (
        lambda: DUQ(mlp(6, hidden=(8,)), 4, length_scale=10.0, learn_length_scale=True),
        (5, 6),
    ),
    "an ensemble of one": (lambda: Ensemble(lambda: mlp(6, 4, hidden=(8,)), 1), (5, 6)),
    "one draw of MC dropout": (
        lambda: MCDropout(mlp(6, 4, hidden=(8,), dropout=0.5), samples=1),
        (5, 6),
    ),
    "one draw of Bayes by backprop": (
        lambda: BayesByBackprop(mlp(6, 4, hidden=(8,)), samples=1),
        (5, 6),
    ),
}

WORD_NUMBERS = {
    "Embedding": lambda: nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), lin(12, 5)),
    "a table used outside": lambda: Net(
        lambda net, x: F.linear(torch.tanh(net.a(net.table(x).mean(1))), net.table.weight),
        table=nn.Embedding(5, 4),
        a=lin(4, 4),
    ),
    "a tied table": tied_words,
}


def made(kinds, name, seed):
    torch.manual_seed(seed)
    make, shape = kinds[name]
    return ready(make(), seed), torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("name", RULED)
def test_by_the_rules(name, seed):
    model, x = made(RULED, name, seed)
    with patch.object(rules, "moments_without_rule", side_effect=AssertionError("there is a rule")):
        assert_exact(model, x)


@pytest.mark.parametrize("name", OTHERS)
def test_without_a_rule(name, seed):
    model, x = made(OTHERS, name, seed)
    with patch.object(rules, "moments_without_rule", wraps=rules.moments_without_rule) as used:
        assert_exact(model, x)
    assert used.called or name == "an ensemble of one"


@pytest.mark.parametrize("name", WORD_NUMBERS)
def test_inputs_may_be_whole_numbers(name, seed):
    torch.manual_seed(seed)
    assert_exact(ready(WORD_NUMBERS[name](), seed), torch.randint(5, (4, 3)))


@pytest.mark.parametrize(
    "name", ["lenet", "blocks of resnet18", "groups", "same", "used twice", "words", "BatchNorm"]
)
def test_what_has_a_rule_is_the_same_without(name, seed):
    model, x = made(RULED, name, seed)
    with patch.object(batch, "rule_for", return_value=None):
        assert_exact(model, x)


@pytest.mark.parametrize("name", ["lenet", "groups", "words", "attention", "LSTM"])
def test_large_gradients_are_made_for_a_few_inputs_at_a_time(name, seed):
    model, x = made(RULED | OTHERS, name, seed)
    with patch.object(rules, "MAX_NUMBERS", 200):
        assert_exact(model, x)


def layers(draw):
    """Convolutions of all makes and what stands between them, for images of 4 × 9 × 8."""
    channels, found = 4, []
    for _ in range(draw(st.integers(1, 3))):
        groups = draw(st.sampled_from([g for g in (1, 2, 4) if channels % g == 0]))
        after = groups * draw(st.integers(1, 3))
        mode = draw(st.sampled_from(["zeros", "reflect", "circular", "replicate"]))
        kernel, padding = (
            draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
            draw(st.integers(0, 1)),
        )
        stride, dilation = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        padding = draw(st.just("same")) if stride == 1 and draw(st.booleans()) else padding
        found += [
            nn.Conv2d(
                channels,
                after,
                kernel,
                stride,
                padding,
                dilation,
                groups,
                draw(st.booleans()),
                mode,
            )
        ]
        found += draw(st.sampled_from([[], [nn.BatchNorm2d(after)], [nn.GroupNorm(1, after)]]))
        found += draw(st.sampled_from([[], [nn.ReLU(inplace=True)], [nn.Tanh()], [nn.PReLU()]]))
        channels = after
    pooled = draw(st.sampled_from([nn.AdaptiveMaxPool2d(2), nn.AdaptiveAvgPool2d(2)]))
    return nn.Sequential(
        *found, pooled, nn.Flatten(), lin(4 * channels, 3, bias=draw(st.booleans()))
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 2**16), st.integers(1, 4))
def test_any_network(data, seed, inputs):
    torch.manual_seed(seed)
    model = ready(layers(data.draw), seed)
    x = torch.randn(inputs, 4, 9, 8, dtype=torch.float64)
    try:
        model(x)
    except RuntimeError:  # padding or a kernel that is too large for what is left of the image
        return
    assert_exact(model, x)


@pytest.mark.parametrize("gap", [10, 50, 300, 1000])
@pytest.mark.parametrize("name", ["mlp", "lenet", "used twice", "LayerNorm"])
def test_nothing_is_lost_where_confidence_is_next_to_one(name, gap, seed):
    """The gradient in the logits with hundreds of digits, scaled, and its size as a logarithm."""
    model, x = made(RULED | OTHERS, name, seed)
    last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.bias[1] += gap
        logits = model(x)
    features = {log: gradient_features(model, x, log=log) for log in (False, True)}
    for number, one in enumerate(x.split(1)):
        with mpmath.workdps(1000):
            weights = [mpmath.exp(value) for value in logits[number].tolist()]
            top = int(logits[number].argmax())
            pull = [weight / sum(weights) for weight in weights]
            pull[top] = -sum(p for c, p in enumerate(pull) if c != top)
            size = max(map(abs, pull))
            pull, log_size = (
                torch.tensor([float(p / size) for p in pull], dtype=torch.float64),
                float(mpmath.log(size)),
            )
        for layer, row in entries(model, one, used_layers(model, x), pull).items():
            wanted = statistics_of(row)
            values = {
                log: dict(zip(found.names, found.values[number].tolist(), strict=True))
                for log, found in features.items()
            }
            shapes = {name: values[False][f"{layer}/{name}"] for name in ("skewness", "kurtosis")}
            assert_close(shapes, wanted, row)
            for statistic, sign in (("l1", 1), ("l2", 1), ("std", 1), ("min", -1), ("max", 1)):
                exact = (
                    np.log(max(sign * wanted[statistic], 1e-38)) + log_size
                )  # nothing has a logarithm too
                np.testing.assert_allclose(values[True][f"{layer}/{statistic}"], exact, rtol=1e-12)
                if log_size > -600:
                    plain = wanted[statistic] * np.exp(log_size)
                    np.testing.assert_allclose(
                        values[False][f"{layer}/{statistic}"], plain, rtol=1e-9
                    )


def test_what_all_logits_share_does_not_count(seed):
    """Though it leaves them few digits behind the point: 2**30 − 1.5 is exact."""
    model = ready(lin(3, 3), seed)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.5, 0, 0], [0, 1, 0], [0, 0, 0.5]]))
        model.bias.fill_(0.25)
    x = torch.tensor([[1.0, 2, 3], [3, -1, 2]], dtype=torch.float64)
    near = table(model, x)
    nn.init.constant_(model.bias, 2.0**30)
    far = table(model, x)
    for name in STATISTICS:
        torch.testing.assert_close(far[f"all/{name}"], near[f"all/{name}"], rtol=1e-12, atol=1e-15)


def table(model, x, **how):
    values, names = gradient_features(model, x, **how)
    return dict(zip(names, values.T, strict=True))


def test_a_layer_without_a_gradient_has_zeros(seed):
    """All its units are dead."""
    torch.manual_seed(seed)
    model = ready(nn.Sequential(lin(5, 4), nn.ReLU(), lin(4, 3)), seed)
    nn.init.constant_(model[0].bias, -1e3)
    x = torch.randn(3, 5, dtype=torch.float64)
    assert_exact(model, x)
    found = table(model, x)
    assert all((found[f"linear1/{name}"] == 0).all() for name in STATISTICS[:-1])
    assert (found["linear1/kurtosis"] == 1).all()
    logarithms = table(model, x, log=True)
    assert all(value.isfinite().all() for value in logarithms.values())
    assert (logarithms["linear1/l2"] < logarithms["linear2/l2"] - 80).all()


def test_no_gradient_at_all(seed):
    """Two dead layers without biases: the weights have no say."""
    model = ready(nn.Sequential(lin(5, 4), nn.ReLU(), lin(4, 3, bias=False)), seed)
    nn.init.constant_(model[0].bias, -1e3)
    found = table(model, torch.randn(3, 5))
    assert all((found[f"all/{name}"] == 0).all() for name in STATISTICS[:-1])
    assert all(
        value.isfinite().all() for value in table(model, torch.randn(3, 5), log=True).values()
    )


def test_a_gradient_of_equal_entries():
    model = Net(
        lambda net, x: torch.cat([net.shift * x, torch.zeros_like(x)], 1),
        shift=nn.Parameter(torch.ones(1)),
    )
    found = table(model, torch.rand(4, 1) + 1)
    assert (found["all/std"] == 0).all()
    assert (found["all/skewness"] == 0).all()
    assert (found["all/kurtosis"] == 1).all()
    assert torch.equal(found["all/min"], found["all/max"])
    assert (found["all/min"] < 0).all()


@pytest.mark.parametrize(
    ("dtype", "far"),
    [(torch.float32, 1e12), (torch.float32, 1e30), (torch.float64, 1e12), (torch.float64, 1e100)],
)
@pytest.mark.parametrize("name", ["mlp", "lenet", "blocks of resnet18", "PReLU"])
def test_far_away_all_are_numbers(name, dtype, far, seed):
    model, x = made(RULED | OTHERS, name, seed)
    for log in (False, True):
        assert gradient_features(model.to(dtype), far * x, log=log).values.isfinite().all()


def test_far_away_gradients_grow_and_keep_their_shape(seed):
    """Those of a layer that is torn between its classes everywhere."""
    torch.manual_seed(seed)
    model = ready(lin(5, 2, bias=False), seed)
    nn.init.zeros_(model.weight)
    x = torch.randn(6, 5, dtype=torch.float64)
    near, far = table(model, x), table(model, 1e100 * x)
    for name in ("l1", "l2", "min", "max", "std"):
        torch.testing.assert_close(
            far[f"all/{name}"], 1e100 * near[f"all/{name}"], rtol=1e-9, atol=0
        )
    for name in ("skewness", "kurtosis"):
        torch.testing.assert_close(far[f"all/{name}"], near[f"all/{name}"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_that_vanish_on_the_way_down(dtype, seed):
    torch.manual_seed(seed)
    steps = [layer for _ in range(90) for layer in (lin(5, 5), nn.Sigmoid())]
    model = nn.Sequential(*steps, lin(5, 3)).to(dtype)
    found = table(model, torch.randn(3, 5), layers=["linear1", "all"])
    assert all(value.isfinite().all() for value in found.values())
    assert (found["linear1/l2"] < 1e-60).all()
    assert (found["all/l2"] > 1e-3).all()


@pytest.mark.parametrize("name", ["mlp", "lenet", "cnn16", "conv3", "resnet20", "LayerNorm"])
def test_single_precision_is_close_to_double(name, seed):
    model, x = made(RULED | OTHERS, name, seed)
    wanted = gradient_features(model, x, log=True)
    found = gradient_features(model.float(), x.float(), log=True)
    assert found.names == wanted.names
    assert found.values.dtype == torch.float64
    torch.testing.assert_close(found.values, wanted.values, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "name", ["mlp", "cnn16", "LSTM", "attention", "one draw of Bayes by backprop"]
)
def test_gradients_are_found_where_none_are_kept(name, context, seed):
    model, x = made(RULED | OTHERS, name, seed)
    wanted = gradient_features(model, x)
    with context():
        found = gradient_features(model, x * 1)
    assert torch.equal(found.values, wanted.values)


class Breaks(nn.Module):
    """Raises for batches of some size."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        if len(x) == self.size:
            raise RuntimeError("broken")
        return x


def traces(model):
    hooks = [
        (list(m._forward_hooks), list(m._forward_pre_hooks), list(m._backward_hooks))
        for m in model.modules()
    ]
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return (
        [m.training for m in model.modules()],
        hooks,
        [p.requires_grad for p in model.parameters()],
        grads,
    )


@pytest.mark.parametrize("size", [0, 4, 2, 1])
@pytest.mark.parametrize("middle", [nn.Tanh, lambda: nn.LayerNorm(4)])
def test_the_model_is_left_as_found_even_after_an_error(size, middle, seed):
    """In the pass of the batch, in that of two inputs, or in that of each (without a rule)."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        lin(5, 4), nn.BatchNorm1d(4), nn.Dropout(), middle(), lin(4, 3), Breaks(size)
    )
    model[1].eval()
    model[0].weight.requires_grad_(False)
    model[4].weight.grad = torch.ones(3, 4)
    model[0].register_forward_hook(lambda *_: None)
    before, weights, random = (
        traces(model),
        copy.deepcopy(model.state_dict()),
        torch.random.get_rng_state(),
    )
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(seed))
    kept = x.clone()
    if size in (4, 2) or (size == 1 and isinstance(model[3], nn.LayerNorm)):
        with pytest.raises((NescioError, RuntimeError), match="broken"):
            gradient_features(model, x)
    else:
        gradient_features(model, x)
    after = traces(model)
    assert after[:3] == before[:3]
    assert [g if g is None else g.tolist() for g in after[3]] == [
        g if g is None else g.tolist() for g in before[3]
    ]
    assert all(torch.equal(model.state_dict()[name], value) for name, value in weights.items())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert torch.equal(x, kept)


def test_a_first_layer_in_place_does_not_write_on_the_data(seed):
    """Nor does it when gradients are made without a rule, and one input after another."""
    torch.manual_seed(seed)

    def doubled(net, x):
        return net.b(net.a(x.mul_(2))[0][:, -1])

    model = ready(Net(doubled, a=nn.LSTM(3, 4, batch_first=True), b=lin(4, 3)), seed)
    x = torch.randn(WORDS, dtype=torch.float64)
    kept = x.clone()
    found = gradient_features(model, x)
    assert torch.equal(x, kept)
    model.run = lambda net, x: net.b(net.a(x * 2)[0][:, -1])
    assert torch.equal(gradient_features(model, x).values, found.values)


def test_what_autograd_cannot_take_back_is_an_error():
    """A layer's weight has no gradient where what it was given has been overwritten."""
    model = Net(overwritten, a=lin(5, 4), b=lin(4, 4), c=lin(4, 3))
    with pytest.raises(
        NescioError, match=r"activations in place.*modified by an inplace operation"
    ):
        gradient_features(model, torch.randn(4, 5))


def test_layers_are_those_asked_for(seed):
    model, x = made(RULED, "lenet", seed)
    with preserve_state(model):
        whole = batch_gradients(model, x)
        some = batch_gradients(model, x, ["linear1", "conv1"])
    assert list(whole.layers) == ["conv1", "conv2", "linear1", "linear2", "all"]
    assert list(some.layers) == ["conv1", "linear1"]
    assert whole.last == some.last == "linear2"
    for name, moments in some.layers.items():
        assert torch.equal(moments.statistics(0), whole.layers[name].statistics(0))
    assert whole.layers["all"].count == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("mlp", "linear3"),
        ("a convolution last", "conv2"),
        ("log-softmax last", "linear2"),
        ("one draw", "linear1"),
        ("one layer", "linear1"),
        ("a method", "linear2"),
        ("BatchNorm last", None),
        ("used twice, last", None),
        ("used outside its layer", None),
        ("DUQ", None),
        ("weight_norm", None),
    ],
)
def test_the_last_layer_is_the_one_whose_mean_must_be_zero(name, last, seed):
    model, x = made(RULED | OTHERS, name, seed)
    last = "a" if name == "one draw" else last
    with preserve_state(model):
        found = batch_gradients(model, x)
    assert found.last == last
    if last is not None:
        mean, std = found.layers[last].statistics(0)[4:6]
        assert (mean.abs() < 1e-14 * std).all()


def test_a_tied_table_is_not_last(seed):
    """For its words have gradients too, with a mean."""
    torch.manual_seed(seed)
    model = ready(tied_words(), seed)
    assert "table/mean" in gradient_features(model, torch.randint(5, (4, 3))).names


def test_batch_norm_without_statistics_is_refused():
    model = nn.Sequential(lin(5, 4), nn.BatchNorm1d(4, track_running_stats=False), lin(4, 3))
    with pytest.raises(
        NescioError, match="BatchNorm1d without running statistics mixes the inputs"
    ):
        gradient_features(model, torch.randn(4, 5))


def test_several_draws_are_refused():
    with pytest.raises(NescioError, match="gives 3 draws"):
        gradient_features(MCDropout(mlp(6, 4, dropout=0.5), samples=3), torch.randn(4, 6))


def test_weights_without_a_say_are_reported():
    with pytest.raises(NescioError, match="a Flatten without weights"):
        gradient_features(nn.Flatten(), torch.randn(4, 5))
    cut = Net(lambda net, x: net.a(x).detach(), a=lin(5, 3))
    with pytest.raises(NescioError, match="does not depend on its weights"):
        gradient_features(cut, torch.randn(4, 5))
    idle = Net(lambda net, x: net.b(x), a=lin(5, 3), b=lin(5, 3))
    with pytest.raises(
        NescioError, match="does not depend on the weights of 'a'; expected one of b, all"
    ):
        gradient_features(idle, torch.randn(4, 5), ["a", "all"])


def test_reentrant_checkpoints_are_refused():
    """Behind them autograd shows no weights, and `all` would be of the rest alone."""
    net = Net(
        lambda net, x: net.b(checkpoint(net.a, x.requires_grad_(), use_reentrant=True)),
        a=lin(4, 5),
        b=lin(5, 3),
    )
    with pytest.raises(NescioError, match="reentrant"):
        gradient_features(net, torch.randn(4, 4))


@pytest.mark.parametrize(
    "head",
    [
        lambda z: z / 2,
        lambda z: z + 1.0,
        lambda z: z.clone(),
        lambda z: z.clamp(-50, 50),
        lambda z: z - z.mean(1, keepdim=True),
    ],
    ids=["halved", "moved", "cloned", "cut", "centred"],
)
def test_a_mean_that_is_but_rounding_is_zero(head, seed):
    """The layer does not return the logits, and yet its gradient sums to zero by construction."""
    torch.manual_seed(seed)
    net = Net(lambda net, x: head(net.b(net.a(x).relu())), a=lin(6, 8), b=lin(8, 4))
    values, names = gradient_features(net, torch.randn(50, 6))
    assert "b/mean" not in names or (values[:, names.index("b/mean")] == 0).all()
    assert (values[:, names.index("all/mean")] != 0).all()


def test_half_precision_is_summed_in_single(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, 3)).eval()
    x = 80 * torch.randn(4, 400)
    half, names = gradient_features(copy.deepcopy(net).half(), x.half())
    single, _ = gradient_features(net, x)
    assert half.isfinite().all()
    column = names.index("linear1/l1")
    torch.testing.assert_close(half[:, column], single[:, column], rtol=0.05, atol=0)


def test_a_model_made_in_inference_mode_is_refused():
    with torch.inference_mode():
        net = nn.Linear(3, 2)
    with pytest.raises(NescioError, match="inference_mode"):
        gradient_features(net, torch.randn(4, 3))


class Weighed(nn.Module):
    """A bare weight before a layer."""

    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(5)), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(x * self.scale)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.head = nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.read(x[:, None])[0][:, 0])


@pytest.mark.parametrize("kind", [Weighed, Recurrent])
@pytest.mark.parametrize("frozen", [False, True])
def test_statistics_of_weights_without_a_rule_carry_no_graph(kind, frozen):
    torch.manual_seed(0)
    net, x = kind(), torch.randn(30, 5)
    net.requires_grad_(not frozen)
    found = gradient_features(net, x)
    assert not found.values.requires_grad
    detector = nescio.Threshold(net, "gradient_l2").fit(x)
    assert not detector.score(x).requires_grad
    assert (detector.predict(x) >= 0).float().mean() >= 0.9
    assert all(weight.requires_grad != frozen for weight in net.parameters())
