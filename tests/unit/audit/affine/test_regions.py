"""Linear regions against the network itself: Jacobian, choices, random points, whole planes."""

import math
import random
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nescio
from nescio.audit import local_affine, region, regions_in
from nescio.audit.affine.polygons import cut_out, unbounded
from nescio.errors import NescioError
from nescio.methods import Ensemble, MCDropout, Softmax
from nescio.models import mlp
from nescio.records import Regions
from small_nets import seeded

seq = nn.Sequential
SQUARE = ((-3.0, 3.0), (-3.0, 3.0))


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = seq(*layers)

    def forward(self, x):
        return x + self.layers(x)


def frozen(net, seed=0):
    """Random weights in float64 that take no gradients."""
    return seeded(net, seed).double().requires_grad_(False)


def ends(width):
    return nn.Flatten(), nn.Linear(width, 3)


NETS = {
    "mlp": (lambda: mlp(5, 3, hidden=(9, 7)), (5,)),
    "leaky": (
        lambda: seq(
            nn.Linear(5, 8), nn.LeakyReLU(0.2), nn.Linear(8, 6), nn.PReLU(6), nn.Linear(6, 3)
        ),
        (5,),
    ),
    "clamped": (
        lambda: seq(nn.Linear(5, 8), nn.ReLU6(), nn.Linear(8, 6), nn.Hardtanh(), nn.Linear(6, 3)),
        (5,),
    ),
    "residual": (
        lambda: seq(
            Residual(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 5)), nn.ReLU(), nn.Linear(5, 3)
        ),
        (5,),
    ),
    "batch norm": (
        lambda: seq(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
        (5,),
    ),
    "conv": (lambda: seq(nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU(), *ends(27)), (2, 5, 5)),
    "max pool": (lambda: seq(nn.Conv2d(1, 3, 2), nn.MaxPool2d(2), nn.ReLU(), *ends(12)), (1, 5, 5)),
    "padded pool": (
        lambda: seq(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), *ends(12)),
        (1, 5, 5),
    ),
}


def points(shape, count=6, seed=0):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed)).double()


def jacobian(net, x):
    return torch.autograd.functional.jacobian(lambda z: net(z[None])[0], x).flatten(1)


def choices(net, x):
    """Return what ReLU-like layers and pooling choose, recorded by hooks; `(N, …)`."""
    seen = []

    def forward_with_features(module, inputs, output):
        if isinstance(module, nn.MaxPool2d):
            indices = nn.functional.max_pool2d(
                inputs[0], module.kernel_size, module.stride, module.padding, return_indices=True
            )[1]
            seen.append(
                indices.flatten(1) * (output.flatten(1) != 0)
            )  # of equal zeros any may be the largest
        elif isinstance(module, nn.Hardtanh):  # ReLU6 is one
            seen.append(
                (
                    (inputs[0] > module.min_val).long() + (inputs[0] >= module.max_val).long()
                ).flatten(1)
            )
        elif isinstance(module, nn.ReLU | nn.LeakyReLU | nn.PReLU):
            seen.append((inputs[0] > 0).long().flatten(1))

    handles = [module.register_forward_hook(forward_with_features) for module in net.modules()]
    net(x)
    for handle in handles:
        handle.remove()
    return torch.cat(seen, 1)


@pytest.mark.parametrize("name", NETS)
def test_the_law_is_autograds(name, seed):
    make, shape = NETS[name]
    net, x = frozen(make(), seed), points(shape, seed=seed)
    slope, intercept = local_affine(net, x)
    torch.testing.assert_close(
        slope, torch.stack([jacobian(net, one) for one in x]), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(torch.einsum("ncd,nd->nc", slope, x.flatten(1)) + intercept, net(x))
    for size in (1, 2, 7):  # the axes of one input shared out among passes
        for whole, parts in zip(
            (slope, intercept), local_affine(net, x, batch_size=size), strict=True
        ):
            torch.testing.assert_close(whole, parts, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", NETS)
def test_within_a_region_one_law_holds_and_beyond_each_face_another_choice(name, seed):
    make, shape = NETS[name]
    net = frozen(make(), seed)
    for x in points(shape, 3, seed):
        area = region(net, x)
        walk = torch.nn.functional.normalize(points((x.numel(),), 60, seed + 1))
        rates = walk @ area.normals.T
        leave = (
            (area.margins / rates).masked_fill(rates <= 0, math.inf).amin(1).clamp(max=1e6)
        )  # where a walk ends
        inside = x + (
            walk
            * (leave * torch.rand(60, generator=torch.Generator().manual_seed(seed)) * 0.999)[
                :, None
            ]
        ).view(-1, *shape)
        assert area.contains(inside).all()
        real = net(inside)
        torch.testing.assert_close(
            area.at(inside), real, rtol=1e-9, atol=1e-9 * float(real.abs().max())
        )
        here = choices(net, x[None])
        assert (choices(net, inside) == here).all()
        ending = leave < 1e6
        beyond = x + (walk * (leave * (1 + 1e-9))[:, None]).view(-1, *shape)
        assert ending.any()
        assert (choices(net, beyond[ending]) != here).any(1).all()
        assert not area.contains(beyond[ending]).any()
        assert all(region(net, one).pattern != area.pattern for one in beyond[ending][:5])
        assert all(region(net, one).pattern == area.pattern for one in inside[:5])


@pytest.mark.parametrize("name", NETS)
def test_the_nearest_face_is_as_far_as_said(name, seed):
    """No walk as long as the distance leaves the region, but one straight at the face does."""
    make, shape = NETS[name]
    net, x = frozen(make(), seed), points(shape, 1, seed)[0]
    area = region(net, x)
    here = choices(net, x[None])
    walks = torch.nn.functional.normalize(points((x.numel(),), 2000, seed)).view(-1, *shape)
    assert (choices(net, x + area.distance * 0.999 * walks) == here).all()
    nearest = (area.margins / area.normals.norm(dim=1)).argmin()
    straight = torch.nn.functional.normalize(area.normals[nearest], dim=0).view(shape)
    assert (choices(net, (x + area.distance * 1.001 * straight)[None]) != here).any()
    assert (choices(net, (x + area.distance * 0.999 * straight)[None]) == here).all()


def test_half_spaces_say_what_contains_says(seed):
    net = frozen(mlp(3, 2, hidden=(6, 5)), seed)
    area = region(net, points((3,), 1, seed)[0])
    z = points((3,), 100, seed + 1)
    normals, offsets = area.half_spaces
    by_hand = (z @ normals.T <= offsets).all(1)
    assert torch.equal(area.contains(z), by_hand)
    assert 0 < by_hand.sum() < 100
    assert area.contains(z[0]).shape == ()
    assert torch.equal(area.contains(z.numpy()), by_hand)
    assert torch.equal(
        by_hand, torch.tensor([region(net, one).pattern == area.pattern for one in z])
    )


def kinked():
    """Of two inputs, |x₁| and x₂, and a unit that the second never reaches."""
    net = seq(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double().requires_grad_(False)
    net[0].weight[:] = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    net[0].bias[:] = torch.tensor([0.0, 0.0, 5.0])
    return net


def test_an_input_on_a_face_is_on_the_side_of_autograd():
    net, x = kinked(), torch.tensor([0.0, 2.0]).double()
    area = region(net, x)
    assert area.distance == 0
    assert len(area.normals) == 2  # the third unit is the same everywhere
    assert area.contains(x)
    torch.testing.assert_close(area.slope, jacobian(net, x))
    torch.testing.assert_close(local_affine(net, x[None])[0][0], jacobian(net, x))
    assert area.contains(
        torch.tensor([[0.0, -7.0], [1e-9, 2.0], [-1e-9, 2.0]]).double()
    ).tolist() == [
        True,
        False,
        False,
    ]
    beside = region(net, torch.tensor([0.5, 2.0]))
    assert beside.distance == 0.5
    assert beside.contains(x)


def test_without_choices_there_is_one_region():
    area = region(nn.Linear(3, 2), torch.ones(3))
    assert area.distance == math.inf
    assert area.contains(1e9 * torch.ones(4, 3)).all()
    assert area.pattern == b""
    record = regions_in(nn.Linear(2, 2), SQUARE)
    assert (record.count, record.unbounded, record.covered) == (1, 1, 1.0)


def one_layer(lines, seed):
    """Return a network whose regions are those of an arrangement of lines, and these lines."""
    net = frozen(seq(nn.Linear(2, lines), nn.ReLU(), nn.Linear(lines, 2)), seed)
    return net, net[0].weight.numpy(), net[0].bias.numpy()


def crossings(weight, bias):
    pairs = combinations(range(len(weight)), 2)
    return np.array([np.linalg.solve(weight[list(pair)], -bias[list(pair)]) for pair in pairs])


@given(lines=st.integers(2, 12), number=st.integers(0, 10**6))
@settings(max_examples=12, deadline=None)
def test_one_hidden_layer_is_an_arrangement_of_lines(lines, number):
    net, weight, bias = one_layer(lines, number)
    at = crossings(weight, bias)
    far = 1.1 * np.abs(at).max() + 1
    record = regions_in(net, ((-far, far), (-far, far)))
    assert record.count == 1 + lines + len(at)
    assert record.unbounded == 2 * lines
    assert record.covered == pytest.approx(1, abs=1e-9)


def test_a_window_counts_the_lines_and_crossings_within(seed):
    net, weight, bias = one_layer(30, seed)
    at = crossings(weight, bias)
    left, right, bottom, top = -0.7, 1.9, -1.5, 0.4
    within = ((at > [left, bottom]) & (at < [right, top])).all(1).sum()
    corners = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
    signs = corners @ weight.T + bias > 0
    hit = (signs.any(0) & ~signs.all(0)).sum()
    assert regions_in(net, ((left, right), (bottom, top))).count == 1 + hit + within


def polygon_area(corners):
    x, y = np.array(corners).T
    return (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2


PLANES = {
    "deep": lambda: mlp(2, 3, hidden=(8, 8, 8)),
    "no bias": lambda: seq(
        nn.Linear(2, 8, False), nn.ReLU(), nn.Linear(8, 6, False), nn.ReLU(), nn.Linear(6, 2)
    ),
    "clamped": lambda: seq(
        nn.Linear(2, 6), nn.ReLU6(), nn.Linear(6, 5), nn.Hardtanh(), nn.Linear(5, 2)
    ),
    "pooled": lambda: seq(
        nn.Linear(2, 12), nn.Unflatten(1, (3, 4)), nn.ReLU(), nn.MaxPool1d(3, 2, 1), *ends(6)
    ),
    "maximum": lambda: seq(nn.Linear(2, 12), nn.Unflatten(1, (3, 4)), nn.MaxPool1d(2), *ends(6)),
    "twins": lambda: seq(
        nn.Linear(2, 6), Twice(), nn.ReLU(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2)
    ),
}


class Twice(nn.Module):
    """Every unit a second time, turned over: faces that lie on each other."""

    def forward(self, x):
        return torch.cat([x, -3 * x], 1)


@pytest.mark.parametrize("name", PLANES)
def test_the_plane_is_covered_by_regions_that_are_whole_and_differ(name, seed):
    net = frozen(PLANES[name](), seed)
    record = regions_in(net, SQUARE)
    assert record.covered == pytest.approx(1, abs=1e-9)
    assert sum(polygon_area(cell.corners) for cell in record.cells) == pytest.approx(36)
    regions = [region(net, torch.tensor(np.mean(cell.corners, 0))) for cell in record.cells]
    assert len({one.pattern for one in regions}) == record.count
    for cell, one in zip(record.cells, regions, strict=True):
        corners = torch.tensor(cell.corners, dtype=torch.float64)
        assert one.contains(one.x + (1 - 1e-6) * (corners - one.x)).all()
        out = one.x + (1 + 1e-6) * (corners - one.x)
        assert ((out.abs() > 3).any(1) | ~one.contains(out)).all()
        assert cell.unbounded == unbounded_by_search(one)
    # no region is missing that anyone would hit on
    anywhere = 6 * torch.rand(30, 2, generator=torch.Generator().manual_seed(seed)).double() - 3
    assert {region(net, z).pattern for z in anywhere} <= {one.pattern for one in regions}


def unbounded_by_search(one):
    """Return whether a direction along a face, or any without faces, stays in all half-spaces."""
    normals = torch.nn.functional.normalize(one.normals)
    along = torch.stack([-normals[:, 1], normals[:, 0]], 1)
    ways = torch.cat([along, -along, torch.eye(2).double()])
    return bool((ways @ normals.T <= 1e-12).all(1).any())


def test_classes_and_the_boundary_between_them(seed):
    net = frozen(mlp(2, 4, hidden=(10, 10)), seed)
    net[-1].bias -= net(
        6 * torch.rand(1000, 2, generator=torch.Generator().manual_seed(seed)).double() - 3
    ).mean(0)
    record = regions_in(net, SQUARE)
    segments = torch.tensor(record.boundary, dtype=torch.float64)
    assert len(segments) > 5
    for place in (0.01, 0.5, 0.99):
        top = net(segments[:, 0] + place * (segments[:, 1] - segments[:, 0])).topk(2).values
        torch.testing.assert_close(top[:, 0], top[:, 1], rtol=0, atol=1e-9)
    met = 0
    for y in np.linspace(
        -2.9, 2.9, 20
    ):  # along a line the class changes where it meets the boundary, and only there
        (x0, y0), (x1, y1) = segments[(segments[:, 0, 1] > y) != (segments[:, 1, 1] > y)].permute(
            1, 2, 0
        )
        stops = [-3.0, *sorted((x0 + (x1 - x0) * (y - y0) / (y1 - y0)).tolist()), 3.0]
        pieces = torch.stack([torch.linspace(a, b, 11).double()[1:-1] for a, b in pairwise(stops)])
        labels = (
            net(torch.stack([pieces, torch.full_like(pieces, y)], -1).flatten(0, 1))
            .argmax(1)
            .view(pieces.shape)
        )
        assert (labels == labels[:, :1]).all()
        assert (labels[1:, 0] != labels[:-1, 0]).all()
        met += len(stops) - 2
    assert met > 5
    for cell in record.cells:
        middle = torch.tensor(centre(cell.corners))
        p = net(middle[None])[0].softmax(0)
        assert cell.label == int(p.argmax())
        assert cell.confidence == pytest.approx(float(p.max()))


def centre(corners):
    """The middle of a polygon's area, triangle by triangle."""
    first, *rest = map(np.array, corners)
    triangles = [(first + a + b) / 3 for a, b in pairwise(rest)]
    weights = [polygon_area([first, a, b]) for a, b in pairwise(rest)]
    return np.average(triangles, axis=0, weights=weights)


@given(number=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_any_small_network_covers_any_window(number):
    draw = random.Random(number)
    layers, width = [], 2
    for _ in range(draw.randint(1, 3)):
        wide = draw.randint(1, 8)
        layers += [
            nn.Linear(width, wide),
            draw.choice([nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh])(),
        ]
        width = wide
    net = frozen(seq(*layers, nn.Linear(width, 2)), number)
    if draw.random() < 0.5:  # lines through one point, and lines that are the same
        net[0].bias[:] = 0
        net[0].weight[0] = -net[0].weight[-1]
    left, bottom = draw.uniform(-9, 5), draw.uniform(-9, 5)
    record = regions_in(
        net, ((left, left + draw.uniform(0.1, 9)), (bottom, bottom + draw.uniform(0.1, 9)))
    )
    assert record.covered == pytest.approx(1, abs=1e-9)


def test_a_small_window_far_away(seed):
    """There numbers are coarse; the same regions must be found, and the search must end."""
    net, weight, bias = one_layer(12, seed)
    near = regions_in(net, ((-1, 1), (-1, 1)))
    net[0].bias[:] = torch.from_numpy(bias - weight @ [1e5, -1e5])
    far = regions_in(net, ((1e5 - 1, 1e5 + 1), (-1e5 - 1, -1e5 + 1)))
    assert (far.count, far.unbounded) == (near.count, near.unbounded)
    assert far.covered == pytest.approx(1, abs=1e-6)


def test_polygons_by_hand():
    square = np.array([(0.0, 1.0), (0.0, 1.0)])
    half = np.sqrt(0.5)
    normals = np.array(
        [[(half, half), (0.0, 0.0)], [(1.0, 0.0), (-1.0, 0.0)], [(1.0, 0.0), (0.0, 1.0)]]
    )
    offsets = np.array([[half / 2, np.inf], [0.75, -0.25], [-1.0, 5.0]])
    polygons = cut_out(square, normals, offsets, 1e-12)
    assert polygons.areas() == pytest.approx([0.125, 0.5, 0.0])
    assert polygons.counts.tolist() == [3, 4, 0]
    assert unbounded(normals).tolist() == [True, True, True]
    assert unbounded(np.array([[(1.0, 0.0), (-0.5, half), (-0.5, -half)]])).tolist() == [False]
    assert unbounded(np.zeros((2, 3, 2))).tolist() == [True, True]


def test_the_record_keeps_training_points_and_goes_both_ways(seed, tmp_path):
    known = nescio.data.load("two_moons", seed=seed)
    model = Softmax(mlp(2, 2, hidden=(4,)), normalise=known.normalise)
    record = regions_in(model, SQUARE, known)
    record.save(tmp_path / "regions.json")
    assert Regions.load(tmp_path / "regions.json") == record
    assert (record.method, record.data, record.classes) == ("softmax", "two_moons", known.classes)
    assert len(record.points.x) == min(500, len(known.train))
    assert record.unbounded == sum(cell.unbounded for cell in record.cells)


def test_the_model_is_left_as_found(seed):
    torch.manual_seed(seed)
    net = seq(
        nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.ReLU(), nn.Linear(3, 2)
    ).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with pytest.warns(UserWarning, match="audited in eval mode"):
        regions_in(net, SQUARE)
    with pytest.warns(UserWarning, match="audited in eval mode"):
        slope, _ = local_affine(net, torch.ones(1, 2))
    with pytest.warns(UserWarning, match="audited in eval mode"):
        region(net, torch.ones(2))
    assert net.training
    assert not net[0]._forward_hooks
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    torch.testing.assert_close(slope[0], jacobian(net.double().eval(), torch.ones(2).double()))


@pytest.mark.parametrize(
    "model", [MCDropout(mlp(2, 2, dropout=0.5)), Ensemble([mlp(2, 2), mlp(2, 2)])]
)
def test_draws_are_refused(model):
    for ask in (lambda: local_affine(model, torch.ones(3, 2)), lambda: regions_in(model, SQUARE)):
        with pytest.raises(NescioError, match="several draws"):
            ask()


def test_what_is_not_piecewise_affine_is_named():
    net = seq(nn.Linear(2, 5), nn.GELU(), nn.Linear(5, 2))
    for ask in (
        local_affine,
        lambda net, x: region(net, x[0]),
        lambda net, _: regions_in(net, SQUARE),
    ):
        with pytest.raises(NescioError, match=r"module '1' \(GELU\) uses 'gelu'.*audit\.scaling"):
            ask(net, torch.ones(3, 2))


def test_what_mixes_inputs_is_named():
    class Turned(nn.Module):
        def forward(self, x):
            return x.t().relu().t()

    with pytest.raises(NescioError, match=r"module '0' \(Turned\) moves the axis"):
        local_affine(seq(Turned(), nn.Linear(3, 2)), torch.ones(2, 3))


def test_bad_input_raises():
    net = mlp(2, 2, hidden=(30,))
    for ask, what in (
        (lambda: local_affine(net, torch.ones(2)), r"\(2,\)"),
        (lambda: local_affine(net, torch.ones(0, 2)), r"\(0, 2\)"),
        (lambda: local_affine(net, torch.full((3, 2), math.nan)), "NaN"),
        (lambda: local_affine(net, torch.ones(3, 2, dtype=torch.int64)), "floating point"),
        (lambda: local_affine(net, torch.ones(3, 4)), "cannot be run on a batch of shape"),
        (lambda: local_affine(net, torch.ones(3, 2), batch_size=0), "batch_size"),
        (lambda: local_affine("net", torch.ones(3, 2)), "str"),
        (lambda: region(net, torch.tensor(1.0)), r"\(1,\)"),
        (lambda: region(net, torch.tensor([1.0, math.inf])), "infinite"),
        (lambda: region(net, torch.ones(2)).contains(torch.ones(3)), r"\(3,\)"),
        (lambda: region(net, torch.ones(2)).contains(torch.full((2,), math.nan)), "NaN"),
        (lambda: regions_in(net, (0, 1)), "window"),
        (lambda: regions_in(net, ((0, 1),)), "window"),
        (lambda: regions_in(net, ((0, 1), (2, 2))), "bottom < top"),
        (lambda: regions_in(net, ((1, 0), (0, 1))), "left < right"),
        (lambda: regions_in(net, ((0, math.inf), (0, 1))), "an end of the window"),
        (lambda: regions_in(net, ((0, math.nan), (0, 1))), "an end of the window"),
        (lambda: regions_in(net, ((1e6, 1e6 + 0.01), (0, 1))), "far from 0"),
        (lambda: regions_in(net, SQUARE, limit=0), "limit"),
        (lambda: regions_in(net, SQUARE, limit=3), "more than 3 linear regions.*larger limit"),
        (lambda: regions_in(mlp(3, 2), SQUARE), "cannot be run on a batch of shape"),
        (lambda: regions_in(net, SQUARE, "two_moons"), "known"),
        (lambda: regions_in(net, SQUARE, nescio.data.load("wine")), "two features"),
    ):
        with pytest.raises(NescioError, match=what):
            ask()
