"""One model and one detector, read by many threads at once: answers are as of one thread, and
nothing is changed.
"""

import asyncio
import multiprocessing
import random
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nescio
from nescio.core.attacks import Attack, attack
from nescio.core.input_gradients import quantity_gradients
from nescio.data import Samples
from nescio.detectors import DETECTORS
from nescio.methods import METHODS, method_for
from nescio.scores import gradient_l2

THREADS = 8


@pytest.fixture(autouse=True)
def _switching_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=[12, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"])
def calls(request):
    """How many each thread makes."""
    return request.param


def network(dropout=0.0, seed=0):
    """Of images 1×6×6, with all that a pass has to switch off, in train mode, and one weight
    that is frozen.
    """
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(64, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )
    net(torch.rand(50, 1, 6, 6))
    net[0].bias.requires_grad_(False)
    net[5].weight.grad = torch.ones_like(net[5].weight)
    return net


def images(count, seed=0):
    return torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def everything(model):
    """What must be the same after any number of calls."""
    modules = dict(model.named_modules())
    hooks = [name for name in vars(nn.Module()) if "hooks" in name]
    return {
        "modes": {name: module.training for name, module in modules.items()},
        "hooks": {
            (name, kind): list(getattr(module, kind, ()))
            for name, module in modules.items()
            for kind in hooks
        },
        "weights": {
            name: (id(w), w.requires_grad, id(w.grad), w._version)
            for name, w in model.named_parameters()
        },
        "buffers": {name: (id(b), b.tolist()) for name, b in model.named_buffers()},
        "generator": torch.default_generator.get_state().tolist(),
        "filters": [str(one) for one in warnings.filters if "performance" in str(one[1])],
    }


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one.nan_to_num(-7.5), other.nan_to_num(-7.5))
    return repr(one) == repr(other)


def check(model, asks, calls):
    """Ask in eight threads, each in an order of its own, and compare with what one thread is
    told.
    """
    before = everything(model)
    want = [ask() for ask in asks]
    start = threading.Barrier(THREADS)

    def work(number):
        order = random.Random(number)
        start.wait()
        chosen = [order.randrange(len(asks)) for _ in range(calls)]
        return [which for which in chosen if not same(asks[which](), want[which])]

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = [which for found in pool.map(work, range(THREADS)) for which in found]
    assert wrong == []
    assert everything(model) == before


def asks_of(detector):
    x = images(40, seed=1)
    x[3, 0, 0, 0] = torch.nan  # is answered −1
    ways = (detector.predict, detector.p_value, detector.explain)
    found = [partial(way, x[start : start + 8]) for way in ways for start in (0, 8)]
    found.append(partial(detector.score, x[8:16], batch_size=3))
    return [*found, *(partial(detector.score, x[start : start + 8]) for start in (8, 16, 24))]


@pytest.mark.parametrize("name", DETECTORS)
def test_detectors(name, calls):
    net = network()
    labels = nescio.predict(net, images(200))[0].argmax(1)
    labels[::9] = (
        labels[::9] + 1
    ) % 3  # some answers are wrong, for the one that learns from those
    detector = DETECTORS[name](net).fit(Samples(images(200), labels), accept=0.8)
    check(net, asks_of(detector), calls)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name, calls):
    own = {"rbf": {"centres": images(20), "gamma": 0.5, "solver": "steps"}, "acet": {"steps": 2}}
    own |= {"mc_dropout": {"samples": 5}, "bayes_by_backprop": {"samples": 5}}
    dropout = 0.5 if name == "mc_dropout" else 0.0
    seeds = iter(range(10))

    def make_net(classes):
        net = network(dropout, next(seeds))
        return net if classes else net[:-1]

    model = method_for(name, make_net, 3, None, **own.get(name, {}))
    x = images(30)
    asks = [
        partial(nescio.predict, model, x[start:], seed=seed) for start in (0, 10) for seed in (0, 1)
    ]
    check(model, asks, calls)
    model.eval()
    check(
        model, [partial(model, x), partial(model, x[:7])], calls
    )  # as a server may run it, without us


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients(frozen, calls):
    net, x = network().requires_grad_(not frozen), images(20)
    asks = [partial(gradient_l2, net, x[start:]) for start in (0, 10)]
    asks += [
        partial(gradient_l2, net, x[:5], "conv1"),
        lambda: attack(net, x[:4], Attack(steps=5), seed=1).inputs,
    ]
    asks.append(lambda: quantity_gradients(net, x[:6], lambda z: z[0].T, norms=True)[1])
    asks += asks_of(nescio.Threshold(net, "gradient_l2").fit(images(100), accept=0.8))
    check(net, asks, max(3, calls // 8))


class Drawing(nn.Module):
    """Of the user's own, with a dropout that is never off, and thus of torch's global generator."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        return self.net(F.dropout(x, 0.5))


class Switching(nn.Module):
    """Is in a mode of its own, which does more than set flags."""

    def __init__(self):
        super().__init__()
        self.net, self.scale = network(), 1.0

    def train(self, mode=True):
        self.scale = 1.0 if mode else 2.0
        return super().train(mode)

    def forward(self, x):
        return self.net(x) * self.scale


class Closed(nn.Module):
    """Calls its layers by other ways than as its children."""

    def __init__(self):
        super().__init__()
        self.net = network()
        self.ways = [lambda x: self.net(x)]

    def forward(self, x):
        return self.ways[0](x)


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it deprecated
        return torch.jit.script(network())


def normalised():
    """Weights that are computed anew at each pass, and written on the module."""
    net = network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nn.utils.weight_norm(net[5])
    return net


def recurrent():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.last = (
                nn.LSTM(6, 8, batch_first=True, num_layers=2, dropout=0.5),
                nn.Linear(8, 3),
            )

        def forward(self, x):
            return self.last(self.rnn(x[:, 0])[0][:, -1])

    torch.manual_seed(0)
    return Recurrent()


@pytest.mark.parametrize("make", [Drawing, Switching, Closed, scripted, normalised, recurrent])
def test_networks_of_all_makes(make, calls):
    model, x = make(), images(24)
    asks = [
        partial(nescio.predict, model, x[start : start + 12], seed=seed)
        for start in (0, 12)
        for seed in (0, 1)
    ]
    if make is Drawing:
        asks += asks_of(nescio.ODIN(model).fit(images(100), accept=0.8))
        asks.append(partial(gradient_l2, model, x[:5]))
    if make in (normalised, recurrent):
        asks += asks_of(nescio.Mahalanobis(model).fit(images(100), accept=0.8))
        asks.append(partial(gradient_l2, model, x[:5]))
    check(model, asks, calls)


def test_what_draws_from_torchs_generator_is_noticed_whenever_it_begins():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.p = network().eval(), 0.0

        def forward(self, x):
            return self.net(F.dropout(x, self.p) if self.p else x)

    model, x = Sometimes(), images(5)
    nescio.predict(model, x)
    model.p = 0.5
    state = torch.default_generator.get_state()
    first = nescio.predict(model, x, seed=3)
    assert torch.equal(torch.default_generator.get_state(), state)
    assert torch.equal(nescio.predict(model, x, seed=3), first)
    assert not torch.equal(nescio.predict(model, x, seed=4), first)


def test_a_thread_that_raises_disturbs_no_other():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x):
            found = self.net(x)
            if (x > 50).any():
                raise ValueError("too bright")
            return found

    model = Picky()
    detector = nescio.Mahalanobis(model, layer="net.5").fit(images(100), accept=0.8)
    good, bad = images(8, seed=2), images(8, seed=2) * 100

    def refused():
        with pytest.raises(nescio.NescioError, match="too bright"):
            detector.score(bad)
        with pytest.raises(nescio.NescioError, match="NaN"):
            detector.score(bad * torch.nan)

    check(model, [refused, partial(detector.score, good), partial(detector.predict, good)], 30)


def test_tasks_of_asyncio():
    net = network()
    detector = nescio.Mahalanobis(net).fit(images(100), accept=0.8)
    before, want = everything(net), detector.score(images(8, seed=2))

    async def serve():
        return await asyncio.gather(
            *(asyncio.to_thread(detector.score, images(8, seed=2)) for _ in range(50))
        )

    assert all(torch.equal(one, want) for one in asyncio.run(serve()))
    assert everything(net) == before


class Waiting(Dataset):
    """Items for which another thread runs a model, or starts a process."""

    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 4

    def __getitem__(self, place):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self.work).result()
        return images(1)[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("what", ["model", "process"])
def test_data_may_wait_for_another_thread_while_they_are_read(what):
    other = network()

    def process():
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()

    work = partial(nescio.predict, other, images(2)) if what == "model" else process
    found = []
    thread = threading.Thread(
        target=lambda: found.append(nescio.predict(network(), Waiting(work))), daemon=True
    )
    thread.start()
    thread.join(60)
    assert [one.shape for one in found] == [(1, 4, 3)]


class Scored(Dataset):
    """Items that a detector scores as they are read."""

    def __init__(self, detector):
        self.detector, self.inputs = detector, images(12, seed=2)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, place):
        return self.detector.score(self.inputs[place])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("make", [network, scripted, Drawing])
def test_forked_workers_of_a_loader(make):
    detector = nescio.Threshold(make()).fit(images(100), accept=0.8)
    want = torch.stack([detector.score(one) for one in images(12, seed=2)])
    done = threading.Event()

    def busy():  # holds such locks as there are at the time of the fork
        while not done.is_set():
            detector.score(images(8))

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(3):
            loader = DataLoader(
                Scored(detector), batch_size=4, num_workers=2, multiprocessing_context="fork"
            )
            torch.testing.assert_close(torch.cat(list(loader)), want, rtol=1e-6, atol=1e-6)
    finally:
        done.set()
        thread.join()
