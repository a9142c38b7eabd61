"""Cheap double backward, against torch's own and other ways to the gradient."""

import copy
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.nn.utils.parametrizations import weight_norm

from nescio.errors import NescioError
from nescio.methods.double_backward import CheapDoubleBackward, _depends_only_on
from nescio.models import cnn16, conv3, lenet, mlp, resnet9, resnet18, resnet20

EXACT = 1e-12  # of the whole gradient


class Call(nn.Module):
    """A function as a layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Sum(nn.Module):
    """A block with a shortcut."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x) + x


class OneByOne(nn.Module):
    """A network that sees images alone, `(C, H, W)`."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return torch.stack([self.layers(image) for image in x])


def frozen(layer, *names):
    for name in names or dict(layer.named_parameters()):
        layer.get_parameter(name).requires_grad_(False)
    return layer


def jittered(net):
    """Weights of BatchNorm that are not 1 and 0, so that it shows where they belong."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine:
            nn.init.normal_(module.weight, 1, 0.3)
            nn.init.normal_(module.bias, 0, 0.3)
    return net


def kernels_of(features):
    """Three kernels of any features, around −1, 0 and 1."""
    features = features.flatten(1)
    directions = torch.randn(
        features.shape[1], 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    seen = features @ directions.to(features.dtype) / features.shape[1] ** 0.5
    return torch.exp(-(seen - torch.tensor([-1.0, 0.0, 1.0])).square() / 2)


def terms(run, x, rules=CheapDoubleBackward):
    """Binary cross-entropies, the two-sided penalty, and the features they come from."""
    with rules(x):
        features = run(x)
        kernels = kernels_of(features)
        (slopes,) = torch.autograd.grad(kernels.sum(), x, create_graph=True)
    labels = F.one_hot(torch.arange(len(x)) % 3, 3).to(kernels.dtype)
    penalty = (slopes.flatten(1).norm(dim=1) - 1).square().mean()
    return F.binary_cross_entropy(kernels, labels), penalty, features


def weights_of(net):
    return [weight for weight in net.parameters() if weight.requires_grad]


def gradient(net, x, rules=CheapDoubleBackward, *, penalty=1.0):
    """The whole gradient in the weights, and what a copy of the network gives and is after it."""
    net, x = copy.deepcopy(net), x.clone().requires_grad_()
    torch.manual_seed(5)  # of dropout
    data_term, penalty_term, features = terms(net, x, rules)
    (data_term + penalty * penalty_term).backward()
    grads = [
        torch.zeros_like(weight) if weight.grad is None else weight.grad
        for weight in weights_of(net)
    ]
    return torch.cat([grad.flatten() for grad in grads]), features.detach(), net, x


def apart(found, wanted):
    return float((found - wanted).norm() / wanted.norm())


def check(net, shape, seed, *, layout=torch.contiguous_format):
    """Values, statistics and gradient are torch's, and the penalty contributes to the gradient."""
    torch.manual_seed(seed)
    net = jittered(net).double()
    x = torch.randn(shape, dtype=torch.float64).to(memory_format=layout)
    wanted, features, after, _ = gradient(net, x, nullcontext)
    found, same_features, same_after, _ = gradient(net, x)
    assert torch.equal(same_features, features)
    for name, value in after.state_dict().items():
        assert torch.equal(same_after.state_dict()[name], value), name
    assert apart(found, wanted) < EXACT
    assert apart(gradient(net, x, nullcontext, penalty=0)[0], wanted) > 1e-4


NETWORKS = {
    "conv3": (conv3, (4, 1, 28, 28)),
    "conv3 in colour": (lambda: conv3(channels=3, size=16), (4, 3, 16, 16)),
    "lenet": (lambda: lenet(size=8), (4, 1, 8, 8)),
    "cnn16, leaky ReLU and dropout": (lambda: cnn16(size=20), (4, 1, 20, 20)),
    "resnet20": (resnet20, (3, 3, 8, 8)),
    "resnet9": (resnet9, (3, 3, 8, 8)),
    "resnet18": (resnet18, (3, 3, 8, 8)),
    "mlp": (lambda: mlp(5, hidden=(8, 8)), (6, 5)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_of_the_papers_networks_is_that_of_double_backward(name, seed):
    torch.manual_seed(seed)
    make, shape = NETWORKS[name]
    check(make(), shape, seed)


def around(*layers, out=4):
    """Layers between two convolutions, so that a wrong derivative of theirs shows on both sides."""
    return nn.Sequential(nn.Conv2d(2, 4, 3), *layers, nn.Conv2d(out, 3, 2))


def around_rows(*layers):
    return nn.Sequential(nn.Linear(5, 6), *layers, nn.Linear(6, 4))


def shared():
    """A convolution and a BatchNorm that are used twice."""
    conv, norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
    return around(conv, norm, nn.ReLU(), conv, norm, nn.ReLU())


def with_constant_weights(x):
    weight, bias = torch.ones(4, 1, 2, 2, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    return F.batch_norm(
        F.conv2d(x, weight, None, [2], [1], [1], 4), None, None, None, bias, training=True
    )


IMAGES, SERIES, ROWS, VOLUMES = (4, 2, 9, 9), (4, 2, 11), (7, 5), (3, 1, 4, 5, 4)
LAYERS = {
    "conv1d": (
        SERIES,
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3, 2, 1), nn.ReLU(), nn.Conv1d(4, 3, 2, dilation=2)),
    ),
    "conv2d": (IMAGES, lambda: around(nn.ReLU(), nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0)), out=6)),
    "conv3d": (
        VOLUMES,
        lambda: nn.Sequential(nn.Conv3d(1, 3, 2), nn.ReLU(), nn.Conv3d(3, 2, 2, 2, 1)),
    ),
    "dilated": (IMAGES, lambda: around(nn.ReLU(), nn.Conv2d(4, 4, 3, dilation=(1, 2)))),
    "in groups": (IMAGES, lambda: around(nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2), out=6)),
    "one filter for each channel": (
        IMAGES,
        lambda: around(nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)),
    ),
    "without bias": (IMAGES, lambda: around(nn.ReLU(), nn.Conv2d(4, 4, 3, bias=False))),
    "padding in words: same": (
        IMAGES,
        lambda: around(nn.ReLU(), nn.Conv2d(4, 4, 3, padding="same")),
    ),
    "padding in words: valid": (
        IMAGES,
        lambda: around(nn.ReLU(), nn.Conv2d(4, 4, 3, padding="valid")),
    ),
    "circular padding": (
        IMAGES,
        lambda: around(nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")),
    ),
    "transposed": (IMAGES, lambda: around(nn.ReLU(), nn.ConvTranspose2d(4, 4, 3, 2))),
    "a frozen weight": (IMAGES, lambda: around(nn.ReLU(), frozen(nn.Conv2d(4, 4, 3), "weight"))),
    "a frozen bias": (IMAGES, lambda: around(nn.ReLU(), frozen(nn.Conv2d(4, 4, 3), "bias"))),
    "a frozen layer": (IMAGES, lambda: around(nn.ReLU(), frozen(nn.Conv2d(4, 4, 3)))),
    "a frozen start": (
        IMAGES,
        lambda: nn.Sequential(frozen(nn.Conv2d(2, 4, 3)), nn.ReLU(), nn.Conv2d(4, 3, 3)),
    ),
    "weight norm": (IMAGES, lambda: around(nn.ReLU(), weight_norm(nn.Conv2d(4, 4, 3)))),
    "constant weights": (IMAGES, lambda: around(Call(with_constant_weights), nn.ReLU())),
    "images one by one": (IMAGES, lambda: OneByOne(*around(nn.ReLU(), nn.MaxPool2d(2)))),
    "batch norm": (IMAGES, lambda: around(nn.BatchNorm2d(4), nn.ReLU())),
    "batch norm of the data": (
        IMAGES,
        lambda: nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.ReLU()),
    ),
    "batch norm at the end": (
        IMAGES,
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.BatchNorm2d(3)),
    ),
    "batch norm twice in a row": (
        IMAGES,
        lambda: around(nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.Tanh()),
    ),
    "batch norm with a large eps": (IMAGES, lambda: around(nn.BatchNorm2d(4, eps=0.5), nn.ReLU())),
    "batch norm of rows": (ROWS, lambda: around_rows(nn.BatchNorm1d(6), nn.ReLU())),
    "batch norm of two rows": ((2, 5), lambda: around_rows(nn.BatchNorm1d(6), nn.Tanh())),
    "batch norm of series": (
        SERIES,
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU()),
    ),
    "batch norm of volumes": (
        VOLUMES,
        lambda: nn.Sequential(nn.Conv3d(1, 3, 2), nn.BatchNorm3d(3), nn.ReLU()),
    ),
    "batch norm without weights": (
        IMAGES,
        lambda: around(nn.BatchNorm2d(4, affine=False), nn.ReLU()),
    ),
    "batch norm without statistics": (
        IMAGES,
        lambda: around(nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU()),
    ),
    "batch norm with true means": (
        IMAGES,
        lambda: around(nn.BatchNorm2d(4, momentum=None), nn.ReLU()),
    ),
    "batch norm, weight frozen": (
        IMAGES,
        lambda: around(frozen(nn.BatchNorm2d(4), "weight"), nn.ReLU()),
    ),
    "batch norm, bias frozen": (
        IMAGES,
        lambda: around(frozen(nn.BatchNorm2d(4), "bias"), nn.ReLU()),
    ),
    "batch norm, all frozen": (IMAGES, lambda: around(frozen(nn.BatchNorm2d(4)), nn.ReLU())),
    "batch norm in eval mode": (IMAGES, lambda: around(nn.BatchNorm2d(4), nn.ReLU()).eval()),
    "ReLU in place": (IMAGES, lambda: around(nn.BatchNorm2d(4), nn.ReLU(inplace=True))),
    "ReLU in place after a convolution": (IMAGES, lambda: around(nn.ReLU(inplace=True))),
    "ReLU in place, what was there before": (
        IMAGES,
        lambda: around(Call(lambda x: F.relu(x, inplace=True) + x)),
    ),
    "ReLU of torch": (IMAGES, lambda: around(Call(torch.relu))),
    "ReLU of a tensor": (IMAGES, lambda: around(Call(lambda x: x.relu()))),
    "max pooling": (IMAGES, lambda: around(nn.MaxPool2d(2))),
    "max pooling as a function": (IMAGES, lambda: around(Call(lambda x: F.max_pool2d(x, 3)))),
    "max pooling that overlaps": (IMAGES, lambda: around(nn.MaxPool2d(3, 1))),
    "max pooling, wider than high": (IMAGES, lambda: around(nn.MaxPool2d((2, 3), (1, 2)))),
    "max pooling, padded": (IMAGES, lambda: around(nn.MaxPool2d(3, 2, padding=1))),
    "max pooling, dilated": (IMAGES, lambda: around(nn.MaxPool2d(2, 1, dilation=2))),
    "max pooling up to the edge": (IMAGES, lambda: around(nn.MaxPool2d(2, ceil_mode=True))),
    "max pooling with places": (
        IMAGES,
        lambda: around(nn.MaxPool2d(2, return_indices=True), Call(lambda v: v[0])),
    ),
    "max pooling of one channel": (
        IMAGES,
        lambda: around(nn.Conv2d(4, 1, 1), nn.MaxPool2d(2), out=1),
    ),
    "max pooling to one value": (
        IMAGES,
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(7), nn.Tanh()),
    ),
    "max pooling of series": (
        SERIES,
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.MaxPool1d(2), nn.Tanh()),
    ),
    "layers used twice": (IMAGES, shared),
    "a shortcut": (
        IMAGES,
        lambda: around(Sum(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)), nn.ReLU()),
    ),
    "a shortcut of the data": (
        IMAGES,
        lambda: Sum(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU()),
    ),
    "no rule: average pooling": (IMAGES, lambda: around(nn.AvgPool2d(2))),
    "no rule: adaptive max pooling": (IMAGES, lambda: around(nn.AdaptiveMaxPool2d(3))),
    "no rule: GELU": (IMAGES, lambda: around(nn.GELU())),
    "no rule: tanh": (IMAGES, lambda: around(nn.Tanh())),
    "no rule: group norm": (IMAGES, lambda: around(nn.GroupNorm(2, 4), nn.ReLU())),
    "no rule: layer norm": (ROWS, lambda: around_rows(nn.LayerNorm(6), nn.ReLU())),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_through_each_layer_is_that_of_double_backward(name, seed):
    torch.manual_seed(seed)
    shape, make = LAYERS[name]
    check(make(), shape, seed)


@pytest.mark.parametrize("name", [name for name, (shape, _) in LAYERS.items() if shape == IMAGES])
def test_channels_may_be_innermost(name, seed):
    torch.manual_seed(seed)
    shape, make = LAYERS[name]
    check(make(), shape, seed, layout=torch.channels_last)


POSITIVE = st.integers(1, 3)
HALF = st.integers(0, 1)
PIECES = st.one_of(
    st.builds(
        lambda out, size, stride, padding, groups, bias: nn.Conv2d(
            4, 4 * out, size, stride, padding, groups=2 * groups or 1, bias=bias
        ),
        HALF.map(lambda more: 1 + more),
        POSITIVE,
        st.integers(1, 2),
        POSITIVE,
        HALF,
        st.booleans(),
    ).map(lambda conv: nn.Sequential(conv, Call(lambda x: x[:, :4]))),
    st.builds(lambda affine: nn.BatchNorm2d(4, affine=affine), st.booleans()),
    st.builds(nn.ReLU),
    st.builds(
        lambda size, stride, ceil: nn.MaxPool2d(size, stride, size // 2, ceil_mode=ceil),
        POSITIVE,
        st.integers(1, 2),
        st.booleans(),
    ),
    st.builds(lambda: Sum(nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))),
    st.sampled_from([nn.Tanh, lambda: nn.AvgPool2d(3, 1, 1), lambda: nn.LeakyReLU(0.1)]).map(
        lambda make: make()
    ),
)
NETS = st.lists(PIECES, min_size=2, max_size=5)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(NETS, st.integers(0, 2**16), st.booleans())
def test_the_gradient_of_any_network_is_that_of_double_backward(layers, seed, last):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), *layers, nn.Flatten(2), Call(lambda x: x.mean(2)), nn.Linear(4, 5)
    )
    check(net, (3, 2, 9, 9), seed, layout=torch.channels_last if last else torch.contiguous_format)


def tiny():
    return jittered(
        nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.BatchNorm2d(2, track_running_stats=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2, 3, 2),
            nn.BatchNorm2d(3, track_running_stats=False),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(12, 4),
            nn.ReLU(),
        )
    ).double()


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script.*:DeprecationWarning"
)  # by which torch finds its forward rules
def test_the_gradient_is_that_of_a_forward_pass_through_the_reverse_one(seed):
    """`∇_θ ⟨v, ∇ₓ S⟩` as the derivative of `∇_θ S` along v."""
    torch.manual_seed(seed)
    net, x = tiny(), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    weights = {name: weight.detach() for name, weight in net.named_parameters()}

    def total(weights, x):
        return kernels_of(functional_call(net, weights, (x,))).sum()

    slopes = torch.func.grad(total, argnums=1)(weights, x)
    direction = torch.func.grad(lambda g: (g.flatten(1).norm(dim=1) - 1).square().mean())(slopes)
    _, wanted = torch.func.jvp(lambda x: torch.func.grad(total)(weights, x), (x,), (direction,))
    x.requires_grad_()
    terms(net, x)[1].backward()
    wanted, found = (
        torch.cat([value.flatten() for value in values])
        for values in (
            wanted.values(),
            (torch.zeros_like(w) if w.grad is None else w.grad for w in net.parameters()),
        )
    )
    assert apart(found, wanted) < EXACT


def test_the_gradient_is_that_of_small_differences_also_for_weights_that_are_no_parameters(seed):
    torch.manual_seed(seed)
    net, x = tiny(), torch.randn(5, 1, 6, 6, dtype=torch.float64, requires_grad=True)
    names, weights = zip(
        *((n, w.detach().clone().requires_grad_()) for n, w in net.named_parameters()), strict=True
    )

    def loss(*weights):
        data_term, penalty, _ = terms(
            lambda x: functional_call(net, dict(zip(names, weights, strict=True)), (x,)), x
        )
        return data_term + penalty

    assert torch.autograd.gradcheck(loss, weights, eps=1e-7, atol=1e-6, rtol=1e-5)


def test_single_precision_loses_no_more_than_torch_does(seed):
    torch.manual_seed(seed)
    net, x = conv3(size=16), torch.randn(8, 1, 16, 16)
    wanted = gradient(copy.deepcopy(net).double(), x.double(), nullcontext)[0]
    assert apart(gradient(net, x)[0].double(), wanted) < 2 * apart(
        gradient(net, x, nullcontext)[0].double(), wanted
    )


@pytest.mark.parametrize(
    ("layer", "shape", "node"),
    [
        (nn.Conv1d(2, 3, 2), SERIES, "_Convolution"),
        (nn.Conv2d(2, 3, 2), IMAGES, "_Convolution"),
        (nn.Conv3d(1, 3, 2), VOLUMES, "_Convolution"),
        (nn.BatchNorm1d(5), ROWS, "_BatchNorm"),
        (nn.BatchNorm2d(2), IMAGES, "_BatchNorm"),
        (nn.ReLU(), IMAGES, "_ReLU"),
        (Call(torch.relu), IMAGES, "_ReLU"),
        (Call(torch.Tensor.relu), IMAGES, "_ReLU"),
        (nn.MaxPool2d(2), IMAGES, "_MaxPool"),
        (Call(lambda x: F.max_pool2d(x, 2)), IMAGES, "_MaxPool"),
    ],
)
def test_layers_go_by_their_rules_in_the_block_alone(layer, shape, node):
    x = torch.randn(shape, requires_grad=True)
    with CheapDoubleBackward():
        assert layer(x).grad_fn.name() == f"{node}Backward"
    assert layer(x).grad_fn.name() != f"{node}Backward"


def test_statistics_are_moved_once(seed):
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(2, momentum=0.25)
    x = torch.randn(IMAGES, requires_grad=True)
    sum(terms(norm, x)[:2]).backward()
    assert norm.num_batches_tracked == 1
    torch.testing.assert_close(norm.running_mean, 0.25 * x.detach().mean((0, 2, 3)))
    torch.testing.assert_close(norm.running_var, 0.75 + 0.25 * x.detach().var((0, 2, 3)))


def test_one_value_for_each_channel_is_refused_as_torch_refuses_it():
    with (
        CheapDoubleBackward(),
        pytest.raises(ValueError, match="Expected more than 1 value per channel"),
    ):
        nn.BatchNorm1d(3)(torch.randn(1, 3, requires_grad=True))


def test_the_last_pass_leaves_the_data_alone(seed):
    """Their gradient would cost a convolution that nobody asked for."""
    torch.manual_seed(seed)
    net, x = conv3(size=16).double(), torch.randn(4, 1, 16, 16, dtype=torch.float64)
    assert gradient(net, x)[3].grad is None
    assert gradient(net, x, nullcontext)[3].grad is not None


def test_data_that_came_through_weights_pass_their_gradient_on(seed):
    torch.manual_seed(seed)
    scale = nn.Parameter(torch.ones(2, 1, 1, dtype=torch.float64))
    net, raw = around(nn.ReLU()).double(), torch.randn(IMAGES, dtype=torch.float64)
    found = []
    for rules in (CheapDoubleBackward, nullcontext):
        sum(terms(net, scale * raw, rules)[:2]).backward()
        found.append(scale.grad.clone())
        scale.grad = None
    assert apart(*found) < EXACT


def test_data_are_distinguished_from_what_weights_made_of_them():
    x, weight = torch.randn(3, 2, requires_grad=True), nn.Parameter(torch.randn(2, 2))
    assert _depends_only_on(x, x)
    assert _depends_only_on(x, (2 * x).t() + x.t())
    assert _depends_only_on(x, x @ weight.detach())
    assert not _depends_only_on(None, x)
    assert not _depends_only_on(x, torch.randn(3))
    assert not _depends_only_on(x, weight)
    assert not _depends_only_on(x, (x @ weight).relu())
    assert not _depends_only_on(
        x, x @ weight.detach().requires_grad_()
    )  # as `functional_call` may have them
    assert not _depends_only_on(x, torch.randn(3, 2, requires_grad=True) + 1)


@pytest.mark.parametrize(
    "net",
    [
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(2),
        nn.Sequential(nn.Tanh(), nn.ReLU()),
        nn.Sequential(nn.Tanh(), nn.MaxPool2d(2)),
    ],
)
def test_a_third_derivative_is_refused(net):
    """It would silently lack the weights' part."""
    data_term, penalty, _ = terms(net, torch.randn(IMAGES, requires_grad=True))
    with pytest.raises(NescioError, match="only once"):
        (data_term + penalty).backward(create_graph=True)
