"""Networks kept as elementary operations: bit-identical, found again by name, and no way in for a
hostile file.
"""

import copy

import pytest
import torch
from torch import nn

from nescio.core.features import HEAD, forward_with_features
from nescio.core.tensorfile import read_tensors, write_tensors
from nescio.errors import NescioError
from nescio.store.detector_folder import plain_attention
from nescio.store.graph import exported, read_graph, write_graph


class Residual(nn.Module):
    """Convolutions with BatchNorm, in-place ReLU and a residual, then series."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding="same"), nn.BatchNorm2d(4)
        self.relu, self.rows = nn.ReLU(inplace=True), nn.Conv1d(4, 5, 3)
        self.pool, self.drop, self.head = nn.MaxPool2d(2), nn.Dropout(), nn.Linear(5, 3)

    def forward(self, x):
        h = self.relu(self.norm(self.conv(x))) + x
        h = self.rows(self.pool(h).flatten(2))
        return self.head(self.drop(h.mean(2)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(
            8, 2, 16, batch_first=True, norm_first=True, activation="gelu"
        )
        self.register_buffer("places", torch.randn(6, 8), persistent=False)
        self.head = nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.head(self.block(x + self.places).mean(1))


class Heads(nn.Module):
    """Attention by itself, tied weights, and names that a graph might want for its own."""

    def __init__(self):
        super().__init__()
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.two.weight = self.one.weight
        self.add_module("by name", nn.Linear(8, 8))
        self.results = nn.Linear(8, 4)

    def forward(self, x):
        h = self.two(self.one(self.mix(x, x, x)[0][:, 0]).relu())
        return self.results(getattr(self, "by name")(h))


class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True)
        self.norm, self.head = nn.BatchNorm1d(12), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.norm(self.read(x)[0].mean(1)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read, self.head = (
            nn.Embedding(9, 5),
            nn.GRU(5, 6, batch_first=True),
            nn.Linear(6, 4),
        )

    def forward(self, x):
        masked = self.read(self.embed(x.long()))[0].masked_fill((x == 0)[..., None], float("-inf"))
        return self.head(masked.amax(1).clamp(min=-1.0))


CASES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), (3,), ["1"]),
    "regression": (lambda: nn.Linear(3, 4), (3,), []),
    "residual": (Residual, (1, 8, 8), ["conv", "rows", "pool", "relu", "norm"]),
    "attention": (Attention, (6, 8), ["block", "block.norm2", "block.linear1"]),
    "heads": (Heads, (6, 8), ["one", "two", "by name"]),
    "series": (Series, (6, 5), ["norm"]),
    "words": (Words, (7,), ["embed"]),
}


def inputs(name, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (count, *CASES[name][1])
    return (
        torch.randint(9, shape, generator=generator).float()
        if name == "words"
        else torch.randn(shape, generator=generator)
    )


@pytest.fixture(scope="module", params=CASES)
def kept(request, tmp_path_factory):
    """A network, and itself out of a file."""
    torch.manual_seed(1)
    make, _, layers = CASES[request.param]
    net = make()
    net(inputs(request.param, 9))  # so that running statistics are no more those of the start
    net.eval()
    path = tmp_path_factory.mktemp("graph") / "g.safetensors"
    with plain_attention():
        write_graph(path, *exported(net, inputs(request.param, 3), layers))
    return request.param, net, read_graph(path), path


@pytest.mark.parametrize("count", [1, 2, 5, 300])
def test_a_graph_answers_bit_by_bit_as_its_network_does(kept, count):
    name, net, graph, _ = kept
    x = inputs(name, count, seed=count)
    with torch.no_grad(), plain_attention():
        assert torch.equal(graph(x), net(x))


def test_features_are_found_under_the_same_names(kept):
    name, net, graph, _ = kept
    x, layers = inputs(name, 4, seed=7), [*CASES[name][2], HEAD]
    with plain_attention():
        own, other = forward_with_features(net, x, layers), forward_with_features(graph, x, layers)
    for layer in layers:
        assert torch.equal(own.features[layer], other.features[layer]), layer
    assert torch.equal(own.head.weight, other.head.weight)


def test_exporting_leaves_the_network_as_it_was():
    net = Residual().train()
    before = copy.deepcopy(net.state_dict())
    exported(net, inputs("residual", 3), ["conv"])
    assert net.training
    assert not net.conv._forward_hooks
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_gradients_in_the_input_go_through_a_graph():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).eval()
    from nescio.store.graph import Graph

    graph = Graph(*exported(net, torch.randn(3, 3)))
    x = torch.randn(4, 3, requires_grad=True)
    wanted = torch.autograd.grad(net(x).sum(), x)[0]
    assert torch.equal(torch.autograd.grad(graph(x).sum(), x)[0], wanted)


class Choosing(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Two(nn.Module):
    def forward(self, x):
        return x, x


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * 2


class Sorted(nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x[:, :, None] * x[:, None] + torch.eye(3))[:, 0]


class ByBatch(nn.Module):
    def __init__(self, same):
        super().__init__()
        self.same = same

    def forward(self, x):
        return x * 2 if self.same(x.shape[0]) else x


@pytest.mark.parametrize(
    "same",
    [
        lambda n: n <= 100,
        lambda n: n * n < 10_000,
        lambda n: n != 256,
        lambda n: n % 7 > 0,
        lambda n: n >= 3,
    ],
)
def test_a_choice_by_the_size_of_a_batch_cannot_be_kept(same):
    with pytest.raises(NescioError, match="other things for batches of other sizes"):
        exported(ByBatch(same), torch.randn(3, 3))


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (Choosing(), "torch.export cannot read it"),
        (Two(), "more than one tensor"),
        (Counting(), "changes what it holds"),
        (Sorted(), "not one that a kept network may call"),
    ],
)
def test_what_cannot_be_kept_says_why(net, message):
    with pytest.raises(NescioError, match=message):
        exported(net, torch.randn(3, 3))


def step(op, args, kwargs=None, **more):
    return {"op": op, "args": args, "kwargs": kwargs or {}, "layer": None, "marks": {}, **more}


X, W = {"of": 0}, {"tensor": 0}
RELU = step("aten.relu.default", [X])
HOSTILE = {
    "an unknown operator": ([step("aten.reluu.default", [X])], "no such operator"),
    "no operator": ([step("os.system", ["true"])], "no such operator"),
    "a dunder": ([step("aten.__class__.default", [X])], "no such operator"),
    "another namespace": ([step("prims.add.default", [X, X])], "no such operator"),
    "a file": ([step("aten.from_file.default", ["/etc/passwd"])], "may call"),
    "raw memory": ([step("aten.as_strided.default", [X, [9], [1]])], "may call"),
    "memory as it lies": ([step("aten.empty.memory_format", [[9]])], "may call"),
    "an operator that writes": ([step("aten.relu_.default", [X])], "may call"),
    "an output that is written": ([step("aten.add.out", [X, X], {"out": W})], "may call"),
    "a backward pass": (
        [
            step(
                "aten.max_pool2d_with_indices_backward.default",
                [W, W, [2, 2], [2, 2], [0, 0], [1, 1], False, W],
            )
        ],
        "may call",
    ),
    "another backward pass": (
        [step("aten._adaptive_avg_pool2d_backward.default", [W, W])],
        "may call",
    ),
    "statistics of the batch": (
        [step("aten._native_batch_norm_legit.no_stats", [X, W, None, True, 0.1, 1e-5])],
        "may call",
    ),
    "modes by number": ([step("aten.grid_sampler_2d.default", [X, W, 77, 99, False])], "may call"),
    "packed sequences": (
        [step("aten.gru.data", [X, W, W, [W], True, 1, 0.0, False, False])],
        "may call",
    ),
    "scales beside sizes": (
        [step("aten.upsample_nearest2d.default", [X, [9, 9], 1e-30, 1e-30])],
        "may call",
    ),
    "bytes of another type": ([step("aten.view.dtype", [X, {"name": "bool"}])], "may call"),
    "internals": ([step("aten._cudnn_rnn_flatten_weight.default", [[W]] + [1] * 7)], "may call"),
    "too few arguments": ([step("aten.conv2d.default", [X])], "'weight' is missing"),
    "too many arguments": ([step("aten.relu.default", [X, X])], "too many"),
    "an unknown argument": ([step("aten.relu.default", [X], {"out": X})], "no argument 'out'"),
    "an argument twice": ([step("aten.relu.default", [X], {"self": X})], "too many"),
    "an argument of another type": ([step("aten.softmax.int", [X, "one"])], "'one' is no int"),
    "text for a tensor": ([step("aten.relu.default", ["x"])], "is no Tensor"),
    "another device": (
        [step("aten.zeros.default", [[2]], {"device": {"name": "cuda"}})],
        "is no Optional",
    ),
    "a type of another kind": (
        [step("aten.zeros.default", [[2]], {"dtype": {"name": "cpu"}})],
        "is no Optional",
    ),
    "itself": ([step("aten.relu.default", [{"of": 1}])], "refers to of 1"),
    "what comes later": ([step("aten.add.Tensor", [X, {"of": 2}]), RELU], "refers to of 2"),
    "a tensor that is not there": (
        [step("aten.relu.default", [{"tensor": 1}])],
        "refers to tensor 1",
    ),
    "a negative reference": ([step("aten.relu.default", [{"of": -1}])], "refers to of -1"),
    "a reference by name": ([step("aten.relu.default", [{"of": "x"}])], "refers to of 'x'"),
    "code as an argument": ([step("aten.relu.default", [{"eval": "1"}])], "is no Tensor"),
    "sizes of tensors": ([step("size.mul", [X, 2])], "expected 2 sizes"),
    "an item of one thing": ([step("item", [X, 0])], "several"),
    "an answer that is a size": ([step("aten.sym_size.int", [X, 0])], "must give a tensor"),
    "no steps": ([], "0 steps"),
    "a huge list": ([RELU] * 20_001, "20001 steps"),
    "a mark with a way out": (
        [step("aten.relu.default", [X], marks={"..x": False})],
        "no name of a module",
    ),
    "a mark on what modules have": (
        [step("aten.relu.default", [X], marks={"forward": False})],
        "no name of a module",
    ),
    "a mark on steps": (
        [step("aten.relu.default", [X], marks={"_nescio_steps": False})],
        "no name of a module",
    ),
    "a mark on what a module is": (
        [step("aten.relu.default", [X], marks={"_modules": False})],
        "no name of a module",
    ),
    "a layer inside another's weight": (
        [
            step("aten.linear.default", [X, W], layer="a"),
            step("aten.linear.default", [{"of": 1}, W], layer="a.weight"),
        ],
        "no name of a module",
    ),
    "a linear layer that is none": (
        [step("aten.relu.default", [X], layer="fc")],
        "no linear layer",
    ),
    "two modules of one name": (
        [
            step("aten.relu.default", [X], marks={"a": False}),
            step("aten.linear.default", [{"of": 1}, W], layer="a"),
        ],
        "two modules",
    ),
    "fields that are not there": ([{"op": "aten.relu.default"}], "expected the fields"),
    "no list": ("aten.relu.default", "expected"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_before_anything_runs(tmp_path, case):
    steps, message = HOSTILE[case]
    path = tmp_path / "g.safetensors"
    write_tensors(
        path, "graph", {"0": torch.ones(2, 3)}, {"plan": {"steps": steps, "parameters": [True]}}
    )
    with pytest.raises(NescioError, match=message):
        read_graph(path)


def ones(*shapes):
    return [torch.ones(shape) for shape in shapes]


LSTM = [
    [{"tensor": 0}, {"tensor": 1}],
    [{"tensor": n} for n in range(2, 6)],
    True,
    1,
    0.0,
    False,
    False,
    False,
]
UNFIT = {  # operations whose own code would read past the end of a tensor, or end the process
    "a mean of one channel": (
        "_native_batch_norm_legit_no_training.default",
        [X, None, None, W, {"tensor": 1}, 0.1, 1e-5],
        (2, 9),
        ones(1, 9),
    ),
    "a weight of one channel": (
        "_native_batch_norm_legit_no_training.default",
        [X, {"tensor": 2}, None, W, {"tensor": 1}, 0.1, 1e-5],
        (2, 9),
        ones(9, 9, 1),
    ),
    "statistics to write on": (
        "batch_norm.default",
        [X, None, None, W, {"tensor": 1}, True, 0.1, 1e-5, False],
        (2, 9),
        ones(9, 9),
    ),
    "fewer keys than values": (
        "scaled_dot_product_attention.default",
        [X, W, {"tensor": 1}],
        (1, 1, 4, 8),
        ones((1, 1, 4, 8), (1, 1, 400, 8)),
    ),
    "a mask of another size": (
        "scaled_dot_product_attention.default",
        [X, X, X, W],
        (1, 1, 4, 8),
        ones((1, 1, 4, 3)),
    ),
    "an LSTM with short weights": (
        "lstm.input",
        [X, *LSTM],
        (5, 2, 3),
        ones((1, 2, 4), (1, 2, 4), (16, 2), (16, 4), 16, 16),
    ),
    "an LSTM with a short bias": (
        "lstm.input",
        [X, *LSTM],
        (5, 2, 3),
        ones((1, 2, 4), (1, 2, 4), (16, 3), (16, 4), 1, 1),
    ),
    "an LSTM with a short state": (
        "lstm.input",
        [X, *LSTM],
        (5, 2, 3),
        ones((1, 2, 4), (1, 1, 4), (16, 3), (16, 4), 16, 16),
    ),
    "less than nothing, going round": (
        "pad.default",
        [X, [1, -1, 2, 2], "circular"],
        (1, 2, 5, 1),
        [],
    ),
    "the smallest number by -1": (
        "div.Tensor_mode",
        [W, {"tensor": 1}],
        (1, 1),
        [torch.tensor([-(2**63)]), torch.tensor([-1])],
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_tensors_that_do_not_go_together_are_refused(tmp_path, case):
    name, args, shape, tensors = UNFIT[case]
    kwargs = {"rounding_mode": "trunc"} if name.startswith("div") else {}
    steps = [step(f"aten.{name}", args, kwargs)]
    if name.startswith(("_native", "lstm")):
        steps.append(step("item", [{"of": 1}, 0]))
    path = tmp_path / "g.safetensors"
    held = {str(index): tensor for index, tensor in enumerate(tensors)}
    write_tensors(
        path, "graph", held, {"plan": {"steps": steps, "parameters": [False] * len(held)}}
    )
    with pytest.raises(NescioError, match="do not go together"):
        read_graph(path)(torch.ones(shape))


def test_sizes_stay_in_bounds(tmp_path):
    squares = [step("size.mul", [{"of": n}, {"of": n}]) for n in range(1, 60)]
    steps = [step("aten.sym_size.int", [X, 0]), *squares, RELU]
    path = tmp_path / "g.safetensors"
    write_tensors(path, "graph", {}, {"plan": {"steps": steps, "parameters": []}})
    with pytest.raises(NescioError, match="beyond all bounds"):
        read_graph(path)(torch.ones(3, 2))


def test_damaged_files_are_refused(kept, tmp_path):
    *_, path = kept
    blob, (tensors, about) = path.read_bytes(), read_tensors(path, "graph")
    broken = tmp_path / "g.safetensors"
    for part in (blob[: len(blob) // 2], blob[:100], b"", b"{" * 100):
        broken.write_bytes(part)
        with pytest.raises(NescioError, match="not a whole nescio graph"):
            read_graph(broken)
    tensors.pop("0")
    write_tensors(broken, "graph", tensors, about, force=True)
    with pytest.raises(NescioError, match="lacks tensors"):
        read_graph(broken)
    write_tensors(broken, "model", tensors, about, force=True)
    with pytest.raises(NescioError, match="not a nescio graph"):
        read_graph(broken)
