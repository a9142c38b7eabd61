"""The law at infinity against the network itself: layers, random networks, ties, bad input."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nescio
from nescio.audit import asymptote, trace
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import mlp, network_for
from small_nets import seeded

seq = nn.Sequential


def ends(width):
    """What makes logits of features."""
    return nn.Flatten(), nn.Linear(width, 3)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = seq(*layers)

    def forward(self, x):
        return x + self.layers(x)


class Branches(nn.Module):
    """Two branches that are concatenated, with constants, indexing and in-place additions."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(width, 3), nn.Linear(width, 4)

    def forward(self, x):
        a, b = self.one(x), torch.relu(self.two(x))
        a += 0.5
        both = torch.cat(
            [a, b[:, 1:], torch.ones(len(x), 1, dtype=x.dtype), torch.zeros_like(a[:, :1])], 1
        )
        return (
            (2 * both - 1).clamp(min=-3).abs() / 3
            + torch.maximum(both, both.flip(1))
            - torch.minimum(both[:, :1], both)
        )


class Constants(nn.Module):
    """Constants on either side of a law, broadcast both ways, and a view of other strides."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3, 1, 2))

    def forward(self, x):
        wide = 1 - x.view(-1, 1, 1, 2) + self.shift  # (N, 3, 1, 2)
        other = torch.rsub(wide, torch.ones(2, dtype=x.dtype), alpha=3) - 2 * wide.relu()
        return other.transpose(1, 3).reshape(len(x), -1) / 4 - torch.ones(6, dtype=x.dtype)


class Shaped(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1).reshape(len(x), -1, x.shape[1]).transpose(1, 2).mean(2)


LAYERS = {
    "linear": (lambda: seq(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (6,)),
    "no bias": (
        lambda: seq(nn.Linear(6, 5, bias=False), nn.ReLU(inplace=True), nn.Linear(5, 3)),
        (6,),
    ),
    "sequences": (lambda: seq(nn.Linear(4, 5), nn.ReLU(), *ends(15)), (3, 4)),
    "leaky": (lambda: seq(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.Linear(5, 3)), (6,)),
    "prelu": (lambda: seq(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3)), (6,)),
    "relu6": (lambda: seq(nn.Linear(6, 5), nn.ReLU6(), nn.Linear(5, 3)), (6,)),
    "hardtanh": (lambda: seq(nn.Linear(6, 5), nn.Hardtanh(-2, 0.5), nn.Linear(5, 3)), (6,)),
    "batch norm": (
        lambda: seq(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)),
        (6,),
    ),
    "dropout": (
        lambda: seq(nn.Linear(6, 5), nn.Dropout(0.5), nn.ReLU(), nn.Identity(), nn.Linear(5, 3)),
        (6,),
    ),
    "residual": (
        lambda: seq(
            Residual(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)), nn.ReLU(), nn.Linear(6, 3)
        ),
        (6,),
    ),
    "branches": (lambda: Branches(6), (6,)),
    "conv1d": (lambda: seq(nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.ReLU(), *ends(16)), (2, 8)),
    "conv2d": (
        lambda: seq(nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2), nn.ReLU(), *ends(64)),
        (2, 8, 8),
    ),
    "conv3d": (lambda: seq(nn.Conv3d(2, 4, 2, dilation=2), nn.ReLU(), *ends(32)), (2, 4, 4, 4)),
    "reflected": (
        lambda: seq(nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.ReLU(), *ends(256)),
        (2, 8, 8),
    ),
    "max pool 1d": (lambda: seq(nn.MaxPool1d(2), *ends(8)), (2, 8)),
    "max pool 2d": (lambda: seq(nn.MaxPool2d(3, stride=2, padding=1), *ends(32)), (2, 8, 8)),
    "max pool, rounded up": (lambda: seq(nn.MaxPool2d(3, 2, ceil_mode=True), *ends(32)), (2, 8, 8)),
    "max pool, dilated": (lambda: seq(nn.MaxPool2d(2, 1, dilation=2), *ends(72)), (2, 8, 8)),
    "max pool 3d": (lambda: seq(nn.MaxPool3d(2), *ends(16)), (2, 4, 4, 4)),
    "avg pool": (lambda: seq(nn.AvgPool2d(2), nn.ReLU(), *ends(32)), (2, 8, 8)),
    "avg pool 1d": (lambda: seq(nn.AvgPool1d(2), nn.ReLU(), *ends(8)), (2, 8)),
    "adaptive": (lambda: seq(nn.AdaptiveAvgPool2d(3), nn.ReLU(), *ends(18)), (2, 8, 8)),
    "adaptive, one pixel": (lambda: seq(nn.AdaptiveAvgPool2d(1), nn.ReLU(), *ends(2)), (2, 8, 8)),
    "padding": (
        lambda: seq(nn.ConstantPad2d(1, 0.7), nn.ZeroPad2d(1), *ends(288), nn.ReLU()),
        (2, 8, 8),
    ),
    "constants": (Constants, (2,)),
    "shapes": (lambda: seq(Shaped(), nn.ReLU(), nn.Linear(2, 3)), (2, 8, 8)),
}


def rays(shape, count=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(count, *shape, generator=generator).double() for _ in range(2))


def along(net, x, d, t):
    """The network itself, in float64, at a t for each ray."""
    with torch.no_grad():
        return net.double()(x + t.view(-1, *[1] * (x.dim() - 1)) * d)


def agrees(net, x, d, law):
    for factor in (1 + 1e-9, 2, 10):
        t = factor * law.start + 1e-6
        real = along(net, x, d, t)
        torch.testing.assert_close(law.at(t), real, rtol=1e-9, atol=1e-9 * float(real.abs().max()))


@pytest.mark.parametrize("name", LAYERS)
def test_agrees_with_the_network(name, seed):
    make, shape = LAYERS[name]
    net = seeded(make(), seed)
    x, d = rays(shape, seed=seed)
    law = asymptote(net, x, d)
    agrees(net, x, d, law)


@pytest.mark.parametrize("name", LAYERS)
def test_traces_are_affine_between_their_breakpoints_and_end_in_the_asymptote(name, seed):
    make, shape = LAYERS[name]
    net = seeded(make(), seed)
    x, d = rays(shape, 5, seed=seed)
    traced, last = trace(net, x, d), asymptote(net, x, d)
    assert traced.whole.all()
    for piece in range(len(traced.ray)):
        ray, begin, end = int(traced.ray[piece]), traced.begin[piece], traced.end[piece]
        inside = torch.linspace(0.01, 0.99, 5).double()
        t = begin + inside * (end - begin) if end < math.inf else begin + 10 * inside
        real = along(net, x[ray].expand(5, *shape), d[ray].expand(5, *shape), t)
        law = traced.slope[piece] * t[:, None] + traced.intercept[piece]
        torch.testing.assert_close(law, real, rtol=1e-9, atol=1e-9 * float(real.abs().max()))
        torch.testing.assert_close(traced.at(ray, t), law)
    ends = (traced.end == math.inf).nonzero().flatten()
    assert traced.ray[ends].tolist() == list(range(5))
    torch.testing.assert_close(traced.slope[ends], last.slope)
    assert (traced.begin[ends] <= last.start * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mlp", (1, 8, 8)),
        ("lenet", (1, 28, 28)),
        ("conv3", (1, 28, 28)),
        ("resnet9", (3, 32, 32)),
        ("resnet20", (3, 32, 32)),
        ("resnet18", (3, 32, 32)),
    ],
)
def test_agrees_with_our_networks(name, shape, seed):
    torch.manual_seed(seed)
    net = network_for(name, shape, 10)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    model = Softmax(net.eval(), normalise=None)
    x, d = rays(shape, 3, seed)
    agrees(net, x, d, asymptote(model, x, d))


@given(number=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_agrees_with_random_networks(number):
    draw = random.Random(number)
    width, layers = 5, []
    for _ in range(draw.randint(1, 5)):
        wide = draw.randint(1, 8)
        kind = draw.choice([nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.PReLU, nn.Identity])
        layers += [
            nn.Linear(width, wide),
            *([nn.BatchNorm1d(wide)] if draw.random() < 0.3 else []),
            kind(),
        ]
        if draw.random() < 0.3:
            layers.append(Residual(nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, wide)))
        width = wide
    net = seeded(seq(*layers, nn.Linear(width, 3)), number)
    if draw.random() < 0.5:  # whole units that see nothing of the input, and classes that are alike
        net[0].weight.data[: draw.randint(0, len(net[0].weight))] = 0
        net[-1].weight.data[1] = net[-1].weight.data[0]
    x, d = rays((5,), 6, number)
    d[draw.randrange(6), : draw.randint(0, 4)] = 0
    law = asymptote(net, x, d)
    agrees(net, x, d, law)
    traced = trace(net, x, d)
    last = traced.begin[traced.end == math.inf]
    assert (last <= law.start * (1 + 1e-9)).all()


def test_the_sign_pattern_does_not_change_any_more(seed):
    net = seeded(mlp(6, 3, hidden=(20, 20)), seed).double()
    x, d = rays((6,), 30, seed)
    start = asymptote(net, x, d).start

    def pattern(t):
        first = net[1](x + t[:, None] * d)
        return torch.cat([first, net[3](first.relu())], 1) > 0

    seen = [pattern(start * factor + 1e-6) for factor in (1, 1.5, 3, 30, 1e4)]
    assert all(torch.equal(seen[0], later) for later in seen[1:])
    assert not torch.equal(seen[0], pattern(0 * start))


def test_the_limit_is_the_one_that_is_approached(seed):
    net = seeded(mlp(6, 4, hidden=(20,)), seed)
    x, d = rays((6,), 50, seed)
    law = asymptote(net, x, d)
    assert (law.limit.amax(1) == 1).all()  # theorem 3.1
    p = along(net, x, d, 1e6 + 100 * law.start).softmax(1)
    torch.testing.assert_close(p, law.limit)
    assert torch.equal(law.winner, p.argmax(1))


def test_slopes_that_tie_leave_a_softmax_of_intercepts(seed):
    net = seeded(mlp(6, 4, hidden=(20,)), seed).double()
    net[-1].weight.data[1] = net[-1].weight.data[0]
    x, d = rays((6,), 200, seed)
    law = asymptote(net, x, d)
    tied = law.limit[:, 0] > 0
    assert 5 < tied.sum() < 200
    bias = net[-1].bias.detach()
    torch.testing.assert_close(
        law.limit[tied][:, :2], bias[:2].softmax(0).expand(int(tied.sum()), 2)
    )
    assert (law.limit[~tied].amax(1) == 1).all()


def test_a_network_that_dies_on_the_way_ends_with_its_last_biases():
    net = seq(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3)).double()
    net[0].weight.data[:] = -1.0
    net[0].bias.data[:] = torch.tensor([3.0, 5.0])
    law = asymptote(net, torch.zeros(1, 1), torch.ones(1))
    assert law.start.item() == 5
    assert (law.slope == 0).all()
    torch.testing.assert_close(law.limit[0], net[2].bias.detach().softmax(0))
    assert trace(net, torch.zeros(1, 1), torch.ones(1)).breakpoints(0).tolist() == [3, 5]


def test_a_ray_in_one_region_starts_at_once():
    law = asymptote(nn.Linear(3, 2), torch.ones(4, 3), torch.ones(3))
    assert (law.start == 0).all()
    assert len(trace(nn.Linear(3, 2), torch.ones(4, 3), torch.ones(3)).ray) == 4


def test_batches_of_any_size_give_the_same(seed):
    net = seeded(mlp(6, 4, hidden=(20,)), seed)
    x, d = rays((6,), 20, seed)
    torch.testing.assert_close(asymptote(net, x, d).slope, asymptote(net, x, d, batch_size=3).slope)


def test_the_model_is_left_as_found_and_batchnorm_is_in_eval_mode(seed):
    torch.manual_seed(seed)
    net = seq(
        nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.ReLU(), nn.Linear(3, 2)
    ).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    x, d = rays((4,), 6, seed)
    with pytest.warns(UserWarning, match="audited in eval mode"):
        law = asymptote(net, x, d)
    assert net.training
    assert not net[0]._forward_hooks
    assert net[0].weight.dtype == torch.float32
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    agrees(net.eval(), x, d, law)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.GELU(), "gelu"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.LayerNorm(5), "native_layer_norm"),
        (nn.Softmax(1), "softmax"),
    ],
)
def test_what_is_not_piecewise_affine_is_named(layer, name):
    net = seq(nn.Linear(4, 5), layer, nn.Linear(5, 2))
    with pytest.raises(
        NescioError,
        match=rf"module '1' \({type(layer).__name__}\) uses '\w*{name}\w*'.*audit\.scaling",
    ):
        asymptote(net, torch.ones(2, 4), torch.ones(4))
    assert not net[0]._forward_hooks


def test_products_of_two_values_are_named():
    class Squared(nn.Module):
        def forward(self, x):
            return x * x

    with pytest.raises(NescioError, match=r"module '0' .*multiplies"):
        asymptote(seq(Squared(), nn.Linear(4, 2)), torch.ones(2, 4), torch.ones(4))


def test_bad_input_raises():
    net = nn.Linear(4, 2)
    for x, d, what in (
        (torch.ones(2, 4), torch.zeros(4), "zeros"),
        (torch.ones(2, 4), torch.ones(3), r"\(3,\)"),
        (torch.ones(2, 4), torch.ones(3, 4), r"\(3, 4\)"),
        (torch.full((2, 4), math.nan), torch.ones(4), "NaN"),
        (torch.ones(2, 4), torch.full((2, 4), math.inf), "infinite"),
        (torch.ones(2, 3), torch.ones(3), "cannot be run on a batch of shape"),
    ):
        with pytest.raises(NescioError, match=what):
            asymptote(net, x, d)
    with pytest.raises(NescioError, match="limit"):
        trace(net, torch.ones(2, 4), torch.ones(4), limit=0)
    with pytest.raises(NescioError, match="t_max"):
        trace(net, torch.ones(2, 4), torch.ones(4), t_max=-1)


def test_the_first_certain_t_is_exact(seed):
    net = seeded(mlp(6, 4, hidden=(20, 20)), seed).double()
    x, d = rays((6,), 20, seed)
    traced = trace(net, x, d)
    for eps in (0.3, 1e-3, 1e-6):
        first = traced.first_certain(eps)
        assert first.isfinite().all()  # theorem 3.1
        p = along(net, x, d, first).softmax(1).amax(1)
        assert (p >= 1 - eps * (1 + 1e-6)).all()
        for ray in (first > 0).nonzero().flatten().tolist():  # nothing on a fine grid comes sooner
            t = torch.linspace(0, 1, 2000).double() * first[ray] * (1 - 1e-6)
            p = nescio.predict(net, x[ray] + t[:, None] * d[ray])[0].softmax(1).amax(1)
            assert (p < 1 - eps * (1 - 1e-4)).all()


def test_a_limit_leaves_rays_that_have_more_pieces(seed):
    net = seeded(mlp(6, 4, hidden=(20, 20)), seed)
    x, d = rays((6,), 10, seed)
    whole, cut = trace(net, x, d), trace(net, x, d, limit=3)
    counts = torch.bincount(whole.ray)
    assert torch.equal(cut.whole, counts <= 3)
    assert torch.bincount(cut.ray).max() == 3
    near = trace(net, x, d, t_max=0.1)
    assert near.whole.all()
    assert near.end.max() == 0.1


def test_a_class_that_is_certain_only_in_the_middle_of_a_piece_is_found():
    """Of logits −t, 0, t − 20 the second is certain from about log 999 until the third wins."""
    net = nn.Linear(1, 3).double()
    net.weight.data[:] = torch.tensor([[-1.0], [0.0], [1.0]])
    net.bias.data[:] = torch.tensor([0.0, 0.0, -20.0])
    traced = trace(net, torch.zeros(1, 1), torch.ones(1))
    assert len(traced.ray) == 1
    first = traced.first_certain(1e-3).item()
    assert first == pytest.approx(math.log(999), abs=1e-2)
    assert 1 / (1 + math.exp(-first) + math.exp(first - 20)) == pytest.approx(0.999, abs=1e-12)
    # between e⁻¹⁰ on either side, no class is ever more certain than in the middle
    assert traced.first_certain(5e-5).item() == pytest.approx(20 + math.log(1 / 5e-5 - 1), abs=1e-3)


def test_the_largest_confidence_on_a_ray(seed):
    net = seeded(mlp(6, 4, hidden=(20, 20)), seed).double()
    x, d = rays((6,), 20, seed)
    most, where = trace(net, x, d, t_max=3.0).largest()
    grid = torch.linspace(0, 3, 3001).double()
    for ray in range(20):
        p = nescio.predict(net, x[ray] + grid[:, None] * d[ray])[0].softmax(1).amax(1)
        assert p.max() <= most[ray] + 1e-12
        assert p.max() == pytest.approx(most[ray].item(), abs=1e-4)
    torch.testing.assert_close(along(net, x, d, where).softmax(1).amax(1), most)
    most, where = trace(net, x, d).largest()
    assert (most == 1).all()  # which is approached, not reached
    assert where.isinf().all()


def test_the_largest_confidence_may_lie_on_the_way_or_nowhere():
    """Of logits −t, 0, t − 20 up to 15, the second is largest at 10; of constants anything is."""
    net = nn.Linear(1, 3).double()
    net.weight.data[:] = torch.tensor([[-1.0], [0.0], [1.0]])
    net.bias.data[:] = torch.tensor([0.0, 0.0, -20.0])
    most, where = trace(net, torch.zeros(1, 1), torch.ones(1), t_max=15).largest()
    assert where.item() == pytest.approx(10, abs=1e-6)
    assert most.item() == pytest.approx(1 / (1 + 2 * math.exp(-10)), rel=1e-12)
    net.weight.data[:] = 1.0
    most, where = trace(net, torch.zeros(1, 1), torch.ones(1)).largest()
    assert where.isfinite().all()
    assert most.item() == pytest.approx(
        torch.tensor([0.0, 0.0, -20.0]).double().softmax(0).max().item()
    )


def test_a_model_with_draws_has_no_one_trace():
    ensemble = nescio.methods.Ensemble(lambda: mlp(2, 2, hidden=(4,)), members=3)
    with pytest.raises(NescioError, match="has 3 draws"):
        trace(ensemble, torch.ones(1, 2), torch.ones(2))
    assert trace(ensemble.member(0), torch.ones(1, 2), torch.ones(2)).whole.all()


class Chosen(nn.Module):
    """Entries chosen by constants, and by size, along axes and pooled to a size."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.layer(x)
        h = h.gather(1, torch.tensor([[5, 0, 1, 2, 3, 4]]).expand(len(x), 6)).relu()
        h = torch.where(torch.arange(6) > 1, h, torch.ones((), dtype=x.dtype)).masked_fill(
            torch.arange(6) == 5, 2.0
        )
        largest = (
            h.view(-1, 2, 3).amax((1, 2), keepdim=True).flatten(1) + h.max(1, keepdim=True).values
        )
        return self.out(h.cumsum(1)) + largest * torch.arange(3) + h.max(-h).mean(1, keepdim=True)


def test_what_is_chosen_by_constants_or_by_size(seed):
    net = seeded(Chosen(), seed).double()
    x, d = rays((4,), 20, seed)
    agrees(net, x, d, asymptote(net, x, d))


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_paddings_by_values(mode, seed):
    convolution = nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode)
    net = seeded(
        seq(convolution, nn.ReLU(), nn.AdaptiveMaxPool2d((3, 2)), *ends(18)), seed
    ).double()
    x, d = rays((2, 6, 4), 5, seed)
    agrees(net, x, d, asymptote(net, x, d))
    with pytest.raises(NescioError, match="not all of one size"):
        asymptote(seq(nn.AdaptiveMaxPool2d(4), *ends(32)).double(), x, d)


@pytest.mark.parametrize("classes", [4, 5, 10, 11])
def test_classes_with_the_same_weights_tie_whatever_rounding_says(classes, seed):
    net = seeded(mlp(6, classes, hidden=(20,)), seed).double()
    net[-1].weight.data[0] = 0.7 * net[-1].weight.data.abs().mean(
        0
    )  # which wins often, since all units are positive
    net[-1].weight.data[-1], net[-1].bias.data[-1] = (
        net[-1].weight.data[0],
        net[-1].bias.data[0] + 1,
    )
    x, d = rays((6,), 60, seed)
    law = asymptote(net, x, d)
    tied = (law.winner == 0) | (law.winner == classes - 1)
    assert 10 < tied.sum() < 190
    torch.testing.assert_close(
        law.limit[tied].amax(1), torch.full((int(tied.sum()),), 1 / (1 + math.exp(-1))).double()
    )
    assert torch.equal(law.certain, ~tied)
    whole = trace(net, x, d)
    assert torch.equal(whole.first_certain().isinf(), tied)
    assert (whole.largest()[0][tied] < 0.999).all()


def test_units_that_cancel_do_not_grow(seed):
    """A network that is constant everywhere: every unit has a twin that is subtracted."""
    net = seeded(mlp(3, 3, hidden=(8,)), seed).double()
    net[1].weight.data[4:], net[1].bias.data[4:] = net[1].weight.data[:4], net[1].bias.data[:4]
    net[3].weight.data[:, 4:] = -net[3].weight.data[:, :4]
    x, d = rays((3,), 200, seed)
    law = asymptote(net, x, d)
    assert (law.slope == 0).all()
    assert not law.certain.any()
    torch.testing.assert_close(law.limit, net[3].bias.softmax(0).expand(200, 3))
    assert trace(net, x, d).first_certain().isinf().all()


def test_sums_and_residuals_that_cancel_do_not_grow(seed):
    class Cancelled(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(7, 7)

        def forward(self, x):
            h = torch.relu(self.one(x))
            return torch.stack(
                [(h - h.flip(1)).sum(1), (h / 3 + h / 7 - h * (10 / 21)).mean(1), 0 * h[:, 0] + 1],
                1,
            )

    net = seeded(Cancelled(), seed).double()
    x, d = rays((7,), 100, seed)
    law = asymptote(net, x, d)
    assert (law.slope == 0).all()
    torch.testing.assert_close(
        law.limit,
        torch.tensor([0.0, 0, 1]).double().softmax(0).expand(100, 3),
        atol=1e-12,
        rtol=0,
    )


class Writes(nn.Module):
    """Writes on a view of its values, which a law does not see."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.layer(x)
        torch.nn.functional.relu_(h[:, :3])
        return self.out(h)


class Sequence(nn.Module):
    """Moves the axis of the inputs behind one that may be as long."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(2, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.layer(x.transpose(0, 1)).relu().sum(0))


def test_a_law_that_the_network_does_not_obey_is_no_law(seed):
    for net, shape in ((Writes(), (4,)), (Sequence(), (8, 2))):
        net = seeded(net, seed).double()
        x, d = rays(shape, 8, seed)
        for ask in (asymptote, trace):
            with pytest.raises(NescioError, match=r"does not obey|moves the axis"):
                ask(net, x, d)


def test_a_model_that_keeps_what_it_made_can_be_copied(seed):
    torch.manual_seed(seed)
    net = seq(
        torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.ReLU(), nn.Linear(3, 2)
    ).double()
    net.last = net(torch.ones(2, 4).double())
    x, d = rays((4,), 5, seed)
    agrees(net, x, d, asymptote(net, x, d))


def test_no_window_begins_in_the_padding_on_the_right(seed):
    net = seeded(seq(nn.MaxPool1d(2, stride=5, padding=1, ceil_mode=True), *ends(2)), seed).double()
    x, d = rays((2, 4), 5, seed)
    agrees(net, x, d, asymptote(net, x, d))


def test_equal_slopes_in_a_window_are_distinguished_by_intercepts():
    net = seq(nn.MaxPool1d(4), nn.Flatten(), nn.Linear(1, 2)).double()
    net[2].weight.data[:], net[2].bias.data[:] = torch.tensor([[1.0], [0.0]]), 0.0
    law = asymptote(net, torch.tensor([[[0.0, 3, 1, 2]]]), torch.ones(1, 1, 4))
    assert (law.start.item(), law.intercept[0, 0].item()) == (0.0, 3.0)


def test_a_bias_may_be_weighed(seed):
    class Weighed(nn.Module):
        def forward(self, x):
            return torch.addmm(
                torch.ones(3, dtype=x.dtype), x, torch.eye(3, dtype=x.dtype), beta=2.5, alpha=0.5
            )

    x, d = rays((3,), 4, seed)
    law = asymptote(Weighed(), x, d)
    torch.testing.assert_close(law.intercept, 0.5 * x + 2.5)
    torch.testing.assert_close(law.slope, 0.5 * d)


def test_a_near_tie_costs_no_digits():
    """Of two classes with nearly equal slopes, the first certain t is exact to the last digit."""
    times = []
    for gap in (1e-10, 1e-11):
        net = nn.Linear(1, 3).double()
        net.weight.data[:] = torch.tensor([[0.1], [0.1 - gap], [-0.9]], dtype=torch.float64)
        net.bias.data[:] = torch.tensor([10.0, 0.0, 0.0])
        (t,) = trace(net, torch.full((1, 1), -9.5), torch.ones(1)).first_certain().tolist()
        z = [0.1 * (t - 9.5) + 10, (0.1 - gap) * (t - 9.5), -0.9 * (t - 9.5)]
        assert 1 / sum(math.exp(value - z[0]) for value in z) == pytest.approx(0.999, abs=1e-14)
        times.append(t)
    assert times[0] == pytest.approx(times[1], abs=1e-7)


def test_a_tie_that_barely_reaches_the_bar_is_certain_late():
    net = nn.Linear(1, 3).double()
    net.weight.data[:] = torch.tensor([[1.0], [1.0], [0.0]])
    net.bias.data[:] = torch.tensor([math.log(999) + 1e-9, 0.0, 0.0], dtype=torch.float64)
    (t,) = trace(net, torch.zeros(1, 1), torch.ones(1)).first_certain().tolist()
    assert t == pytest.approx(
        math.log(999 / (1e-9 * 999)), abs=0.01
    )  # when e⁻ᵗ has made room for what is left


@pytest.mark.parametrize("ask", [asymptote, trace])
def test_no_rays_and_no_logits_raise(ask):
    with pytest.raises(NescioError, match="expected starts"):
        ask(mlp(2, 2), torch.ones(0, 2), torch.ones(0, 2))

    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(NescioError, match="must return a tensor of logits, not tuple"):
        ask(Pair(), torch.ones(1, 2), torch.ones(2))


def test_bad_questions_to_a_law_raise(seed):
    x, d = rays((2,), 3, seed)
    net = seeded(mlp(2, 2, hidden=(3,)), seed)
    with pytest.raises(NescioError, match="2 t for 3 rays"):
        asymptote(net, x, d).at(torch.ones(2))
    for ray in (3, -1, 1.5):
        with pytest.raises(NescioError, match="ray"):
            trace(net, x, d).breakpoints(ray)
    assert asymptote(nn.Linear(2, 1), x, d).certain.all()  # of one class there is no doubt
