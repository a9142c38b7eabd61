"""Networks kept as plain operations: bit-identical, found again by name, and no way in for a hostile file."""

import copy

import pytest
import torch
from torch import nn

from nescio.detectors.features import HEAD, look
from nescio.errors import NescioError
from nescio.fitted import plain_attention
from nescio.graph import exported, read_graph, write_graph
from nescio.tensorfile import read_tensors, write_tensors


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
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")
        self.register_buffer("places", torch.randn(6, 8), persistent=False)
        self.head = nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.head(self.block(x + self.places).mean(1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read, self.head = nn.Embedding(9, 5), nn.GRU(5, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x):
        masked = self.read(self.embed(x.long()))[0].masked_fill((x == 0)[..., None], float("-inf"))
        return self.head(masked.amax(1).clamp(min=-1.0))


CASES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), (3,), ["1"]),
    "residual": (Residual, (1, 8, 8), ["conv", "rows", "pool", "relu", "norm"]),
    "attention": (Attention, (6, 8), ["block", "block.norm2", "block.linear1"]),
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
        own, other = look(net, x, layers), look(graph, x, layers)
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
    from nescio.graph import Graph

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


@pytest.mark.parametrize(("net", "message"), [
    (Choosing(), "torch.export cannot read it"), (Two(), "more than one tensor"), (Counting(), "changes what it holds"),
    (Sorted(), "not one that a kept network may call"),
])  # fmt: skip
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
    "internals": ([step("aten._cudnn_rnn_flatten_weight.default", [[W]] + [1] * 7)], "may call"),
    "too few arguments": ([step("aten.conv2d.default", [X])], "'weight' is missing"),
    "too many arguments": ([step("aten.relu.default", [X, X])], "too many"),
    "an unknown argument": ([step("aten.relu.default", [X], {"out": X})], "no argument 'out'"),
    "an argument twice": ([step("aten.relu.default", [X], {"self": X})], "too many"),
    "an argument of another type": ([step("aten.softmax.int", [X, "one"])], "'one' is no int"),
    "text for a tensor": ([step("aten.relu.default", ["x"])], "is no Tensor"),
    "another device": ([step("aten.zeros.default", [[2]], {"device": {"name": "cuda"}})], "is no Optional"),
    "a type of another kind": ([step("aten.zeros.default", [[2]], {"dtype": {"name": "cpu"}})], "is no Optional"),
    "itself": ([step("aten.relu.default", [{"of": 1}])], "refers to of 1"),
    "what comes later": ([step("aten.add.Tensor", [X, {"of": 2}]), RELU], "refers to of 2"),
    "a tensor that is not there": ([step("aten.relu.default", [{"tensor": 1}])], "refers to tensor 1"),
    "a negative reference": ([step("aten.relu.default", [{"of": -1}])], "refers to of -1"),
    "a reference by name": ([step("aten.relu.default", [{"of": "x"}])], "refers to of 'x'"),
    "code as an argument": ([step("aten.relu.default", [{"eval": "1"}])], "is no Tensor"),
    "sizes of tensors": ([step("size.mul", [X, 2])], "expected 2 sizes"),
    "an item of one thing": ([step("item", [X, 0])], "several"),
    "an answer that is a size": ([step("aten.sym_size.int", [X, 0])], "must give a tensor"),
    "no steps": ([], "0 steps"),
    "a huge list": ([RELU] * 20_001, "20001 steps"),
    "a mark with a way out": ([step("aten.relu.default", [X], marks={"..x": False})], "no name of a module"),
    "a mark on what modules have": ([step("aten.relu.default", [X], marks={"forward": False})], "no name of a module"),
    "a linear layer that is none": ([step("aten.relu.default", [X], layer="fc")], "no linear layer"),
    "two modules of one name": ([step("aten.relu.default", [X], marks={"a": False}),
                                 step("aten.linear.default", [{"of": 1}, W], layer="a")], "two modules"),
    "fields that are not there": ([{"op": "aten.relu.default"}], "expected the fields"),
    "no list": ("aten.relu.default", "expected"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_before_anything_runs(tmp_path, case):
    steps, message = HOSTILE[case]
    path = tmp_path / "g.safetensors"
    write_tensors(path, "graph", {"0": torch.ones(2, 3)}, {"plan": {"steps": steps, "parameters": [True]}})
    with pytest.raises(NescioError, match=message):
        read_graph(path)


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
    write_tensors(broken, "graph", tensors, about)
    with pytest.raises(NescioError, match="lacks tensors"):
        read_graph(broken)
    write_tensors(broken, "model", tensors, about)
    with pytest.raises(NescioError, match="not a nescio graph"):
        read_graph(broken)
