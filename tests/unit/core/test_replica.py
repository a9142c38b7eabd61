import collections
import copy
import functools
import threading
import weakref
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import nescio
from nescio.core import replica as replica_module
from nescio.core.predict import map_logits
from nescio.core.replica import isolate, isolate_once, replica
from nescio.detectors import DETECTORS
from nescio.evaluation.decide import decide


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))


def test_modules_are_others_and_weights_the_same():
    net = network()
    own = replica(net)
    assert type(own) is nn.Sequential
    assert not own.training
    assert net.training
    assert all(one is not other for one, other in zip(own.modules(), net.modules(), strict=True))
    assert all(one is other for one, other in zip(own.parameters(), net.parameters(), strict=True))
    own[1].running_mean.add_(1)
    own[0].register_forward_hook(lambda *_: None)
    own[3] = nn.Identity()
    own.register_buffer("other", torch.zeros(1))
    assert (net[1].running_mean == 0).all()
    assert not net[0]._forward_hooks
    assert isinstance(net[3], nn.Linear)
    assert "other" not in net.state_dict()


def test_tied_weights_shared_modules_and_shared_buffers_stay_so():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    net.append(net[0])
    table = torch.zeros(2)
    net[0].register_buffer("table", table)
    net[1].register_buffer("table", table)
    own = replica(net, requires_grad=False)
    assert own[1].weight is own[0].weight
    assert own[1].weight is not net[1].weight
    assert own[2] is own[0]
    assert own[0].table is own[1].table


@pytest.mark.parametrize("requires_grad", [False, True])
def test_weights_of_the_replica_alone_are_set(requires_grad):
    net = network()
    net[0].weight.requires_grad_(False)
    net[3].weight.grad = torch.ones(2, 4)
    own = replica(net, requires_grad)
    assert {weight.requires_grad for weight in own.parameters()} == {requires_grad}
    assert [weight.requires_grad for weight in net.parameters()] == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert own[3].weight.grad is None
    assert own[3].weight.data_ptr() == net[3].weight.data_ptr()


def test_a_recurrent_layer_runs_on_the_weights_it_was_given():
    net = nn.LSTM(2, 3)
    own = replica(net, requires_grad=True)
    own(torch.zeros(4, 1, 2))[0].sum().backward()
    assert all(weight.grad is not None for weight in own.parameters())
    assert all(weight.grad is None for weight in net.parameters())


NAMED = nn.Linear(3, 2)


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = NAMED

    def forward(self, x):
        return NAMED(x)


class Switching(nn.Linear):
    def train(self, mode=True):
        return super().train(mode)


def listed():
    net = network()
    net.ways = [net[0]]
    return net


def bound():
    net = network()
    net.forward = net[0].forward
    return net


def partial():
    net = network()
    net.forward = functools.partial(nn.Sequential.forward, net)
    return net


def hooked():
    net = network()
    net[3].register_forward_hook(lambda *_: net[0](torch.zeros(1, 3)))
    return net


def patched():
    net = network()
    net[0].forward = functools.partial(lambda given, x: given(x), net[3])
    return net


class Apart(nn.Module):
    """Runs its layers by a way of its own, `layers()`, and not as its children."""

    registered: ClassVar = []

    def __init__(self, keep):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.kept = keep(self.first, self.last)

    def layers(self):
        return self.kept

    def forward(self, x):
        return self.layers()[1](self.layers()[0](x))


class Registered(Apart):
    def layers(self):
        return REGISTRY["net"]


class OfTheClass(Apart):
    def layers(self):
        return type(self).registered


class Closing(nn.Linear):
    def __del__(self):
        self.weight = None


class Slotted(nn.Linear):
    __slots__ = ("scale",)


@dataclass(slots=True)
class Pair:
    first: nn.Module
    last: nn.Module

    def __getitem__(self, place):
        return self.last if place else self.first


REGISTRY = {}


def registered():
    net = Registered(lambda *_: None)
    REGISTRY["net"] = [net.first, net.last]
    return net


def of_the_class():
    net = OfTheClass(lambda *_: None)
    OfTheClass.registered = [net.first, net.last]
    return net


APART = {
    "deque": lambda: Apart(lambda *layers: collections.deque(layers)),
    "keys": lambda: Apart(lambda *layers: dict.fromkeys(layers, 1)),
    "slots": lambda: Apart(Pair),
    "proxy": lambda: Apart(lambda *layers: [weakref.proxy(layer) for layer in layers]),
    "deep": lambda: Apart(lambda *layers: {"a": {"b": [{"c": [[[list(layers)]]]}]}}),
    "registry": registered,
    "class": of_the_class,
    "closing": lambda: Closing(3, 2),
    "slotted": lambda: Slotted(3, 2),
}


@pytest.mark.parametrize(
    "make",
    [Named, listed, bound, partial, hooked, patched, lambda: Switching(3, 2), *APART.values()],
)
def test_a_model_that_would_not_be_the_same_has_none(make):
    net = make()
    assert replica(net) is None
    with isolate(net) as own:
        assert own is net
        assert not net.training
        net.register_forward_hook(lambda *_: None)
        count = len(net._forward_hooks)
    assert net.training
    assert len(net._forward_hooks) == count - 1


def test_a_train_of_its_own_does_not_matter_in_eval_mode():
    assert replica(Switching(3, 2).eval()) is not None


def test_functions_and_objects_that_lead_elsewhere_do_not_matter():
    net = network()
    net.name, net.sizes, net.table = "mine", (1, 2), {"a": [1, "b"]}
    net.activation, net.owner = torch.nn.functional.relu, object()
    assert replica(net) is not None


def test_what_a_pass_keeps_in_containers_and_weights_is_its_own():
    net = network()
    net.log, net.table = [], {}
    net[0].shared = net.log
    net[0].weight.scale = 2.0
    own = replica(net, requires_grad=True)
    own.log.append(1)
    own.table["a"] = 1
    assert (net.log, net.table) == ([], {})
    assert own[0].shared is own.log
    assert own[0].weight.scale == 2.0


def test_attributes_are_not_taken_for_globals_of_the_same_name():
    class Wrapping(nn.Module):
        def __init__(self):
            super().__init__()
            self.NAMED = NAMED

        def forward(self, x):
            return self.NAMED(x)

    assert replica(Wrapping()) is not None


def test_a_network_and_what_wraps_it_share_a_lock():
    net, inside, out = listed(), threading.Event(), threading.Event()

    def hold():
        with isolate(nescio.methods.Softmax(net)):
            inside.set()
            out.wait(10)
            assert not net.training

    def other():
        with isolate(net):
            pass

    holder, waiter = threading.Thread(target=hold), threading.Thread(target=other)
    holder.start()
    inside.wait(10)
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive()
    out.set()
    holder.join(10)
    waiter.join(10)
    assert not waiter.is_alive()


class Annotated(nn.Linear):
    kind: ClassVar[Literal["softmax", "kernel"] | None] = None
    table: ClassVar[dict[str, tuple[Literal[1, 2], ...]]]


def test_annotations_lead_to_no_network():
    assert replica(Annotated(3, 2)) is not None
    assert replica(nescio.methods.Softmax(network())) is not None


@pytest.mark.parametrize(("name", "found"), [("__annotate_func__", True), ("other", False)])
def test_nor_do_those_that_python_3_14_keeps_as_a_function(name, found):
    net = type("Net", (nn.Linear,), {"__module__": __name__})(3, 2)
    setattr(type(net), name, lambda _: net)
    assert (replica(net) is not None) == found


class Clones(TorchFunctionMode):
    """Counts the copies of a buffer, which is known by its shape."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.count = shape, 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.clone and args[0].shape == self.shape:
            self.count += 1
        return func(*args, **(kwargs or {}))


class Table(nn.Module):
    """A buffer of a shape that nothing else has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(11, 1, 13))

    def forward(self, x):
        return x + self.table.sum()


class Lookup(Table):
    """Takes token ids, without an embedding."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(5, 3))

    def forward(self, x):
        return super().forward(self.weight[x].mean(1))


def table_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), Table(), nn.Linear(8, 3))


FLOATS, TOKENS = torch.rand(24, 4), torch.randint(0, 5, (24, 4))
MODELS = {
    "network": table_net,
    "scripted": lambda: torch.jit.script(table_net()),
    "softmax": lambda: nescio.methods.Softmax(table_net()),
    "mc_dropout": lambda: nescio.methods.MCDropout(table_net(), samples=2),
    "bayes_by_backprop": lambda: nescio.methods.BayesByBackprop(table_net(), samples=2),
    "token ids": Lookup,
}


def clones(run):
    with Clones((11, 1, 13)) as counted:
        run()
    return counted.count


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("name", MODELS)
def test_buffers_are_copied_once_per_call_and_not_per_batch(name):
    model, x = MODELS[name](), TOKENS if name == "token ids" else FLOATS
    for batch_size in (24, 3):
        assert clones(lambda size=batch_size: nescio.predict(model, x, batch_size=size)) == 1


GRADIENT = ("gradient_l1", "gradient_l2:linear2")
LABELS = torch.arange(24) % 3


def isolations(monkeypatch, run):
    """How often a model is isolated, whatever that copies."""
    count, isolate = 0, replica_module.isolate

    def counting(*args):
        nonlocal count
        count += 1
        return isolate(*args)

    with monkeypatch.context() as patched:
        patched.setattr(replica_module, "isolate", counting)
        run()
    return count


def fitted(name):
    samples = nescio.data.Samples(FLOATS, LABELS)
    train = nescio.data.Samples(torch.rand(60, 4), torch.arange(60) % 3)
    if name in GRADIENT:
        return nescio.Threshold(table_net(), name).fit(samples)
    if name == "all kinds of gradients":
        detector = nescio.Combined(table_net(), ["odin", *GRADIENT, "energy"])
        return detector.fit(samples, accept=0.5)
    how = {"unknown": {"far": 9 * FLOATS}} if name == "meta" else {}
    return DETECTORS[name](table_net()).fit(samples, 0.5, train=train, **how)


@pytest.mark.parametrize("name", [*DETECTORS, *GRADIENT, "all kinds of gradients"])
def test_detectors_copy_buffers_once_per_call(name, monkeypatch):
    detector = fitted(name)
    names = ["predict", "score", "p_value", "explain", "member_p_values"]
    for ask in [getattr(detector, name) for name in names if hasattr(detector, name)]:
        assert clones(lambda ask=ask: ask(FLOATS, batch_size=3)) == 1
        # gradients of weights, and of inputs, each take modules of their own over those buffers
        most = {"meta": 2, "all kinds of gradients": 3}.get(name, 1 + (name in GRADIENT))
        assert isolations(monkeypatch, lambda ask=ask: ask(FLOATS, batch_size=3)) == most


@pytest.mark.parametrize("name", [None, "gradient_l1", "knn"])
def test_evaluation_isolates_a_model_once_per_set(name, monkeypatch):
    known, unknown = nescio.data.Samples(FLOATS, LABELS), {"far": 9 * FLOATS}
    model = table_net() if name is None else fitted(name)
    how = {"scores": ["energy", *GRADIENT], "batch_size": 3}
    count = isolations(monkeypatch, lambda: nescio.evaluate(model, known, unknown, **how))
    assert count == 2 * {None: 2, "knn": 2, "gradient_l1": 3}[name]
    if name is not None:
        check = functools.partial(decide, model, known, unknown, batch_size=3)
        assert clones(check) == 1
        assert isolations(monkeypatch, check) == 1 + (name in GRADIENT)


def test_so_it_is_of_a_model_that_has_no_replica():
    known = nescio.data.Samples(FLOATS, LABELS)
    detector = nescio.Combined(table_net(), ["energy", "odin"]).fit(known, accept=0.5)
    detector.model.register_forward_hook(lambda *_: None)
    assert clones(lambda: decide(detector, known, {"far": 9 * FLOATS}, batch_size=3)) == 1
    assert clones(lambda: detector.explain(FLOATS, batch_size=3)) == 1


@pytest.mark.parametrize("hooked", [False, True])
def test_however_many_candidates_are_tried_buffers_are_copied_once(hooked):
    net, known = table_net(), nescio.data.Samples(FLOATS.repeat(4, 1), LABELS.repeat(4))
    if hooked:
        net.register_forward_hook(lambda *_: None)
    how = {"candidates": ["energy", "entropy", "max_logit"], "inputs": 20, "accept": 0.5}
    assert clones(lambda: nescio.recommend(net, known, **how)) == 1


def test_a_model_that_changes_between_batches_of_another_is_copied_each_time():
    net, other, counts = table_net(), table_net(), []

    def batches():
        for row in FLOATS.split(8):
            other[3].table.add_(1)
            yield row

    def on_batch(x, logits, y):
        counts.append(torch.equal(nescio.predict(other, x)[0], copy.deepcopy(other).eval()(x)))
        features = nescio.scores.gradient_features(other, x).values
        alone = nescio.scores.gradient_features(copy.deepcopy(other), x).values
        counts.append(torch.equal(features, alone))

    map_logits(net, batches(), on_batch)
    assert counts == [True] * 6


def test_a_replica_that_an_error_left_as_it_was_is_not_used_again():
    net = table_net()
    with isolate_once(net):
        with pytest.raises(KeyError), isolate_once(net) as first:
            raise KeyError
        with isolate_once(net) as second, isolate_once(net) as third:
            pass
        with isolate_once(net) as fourth:
            pass
    assert len({first, second, third}) == 3
    assert fourth is second


def test_a_run_within_a_run_shares_its_buffers():
    net = table_net()
    with isolate(net) as outer:
        with isolate(net, requires_grad=False) as inner:
            assert inner is not outer
            assert inner[3].table is outer[3].table is not net[3].table
            assert not any(weight.requires_grad for weight in inner.parameters())
        with isolate(outer[3]) as part:
            assert part.table is outer[3].table
    with isolate(net) as again:
        assert again[3].table is not outer[3].table
