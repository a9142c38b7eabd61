import collections
import functools
import threading
import weakref
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

import nescio
from nescio.core.replica import private, replica


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
    with private(net) as own:
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
        with private(nescio.methods.Softmax(net)):
            inside.set()
            out.wait(10)
            assert not net.training

    def other():
        with private(net):
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
