import platform
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nescio.core.predict import predict, predict_labelled
from nescio.data import Samples
from nescio.errors import NescioError


@pytest.fixture
def net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    )


@pytest.fixture
def x(seed):
    return torch.randn(50, 4, generator=torch.Generator().manual_seed(seed + 1))


def test_takes_data_of_any_make(net, x):
    want = net.eval()(x).detach()[None]
    y = torch.arange(50) % 3
    for data in (
        x,
        x.numpy(),
        x.numpy().astype(np.float64),
        Samples(x, y),
        TensorDataset(x, y),
        TensorDataset(x),
        DataLoader(TensorDataset(x, y), batch_size=7),
        [x[:20], x[20:]],
    ):
        torch.testing.assert_close(predict(net, data, batch_size=16), want, rtol=1e-5, atol=1e-6)


def test_runs_in_eval_mode_without_gradients(net, x):
    net.train()
    logits = predict(net, x)
    assert not logits.requires_grad
    assert torch.equal(logits, predict(net, x))
    assert net.training
    assert net[1].num_batches_tracked == 0


def test_labels_come_in_the_order_of_the_logits(net, x):
    loader = DataLoader(TensorDataset(x, torch.arange(50)), batch_size=8, shuffle=True)
    logits, labels = predict_labelled(net, loader)
    torch.testing.assert_close(logits[0], net.eval()(x[labels]), rtol=1e-5, atol=1e-6)
    assert predict_labelled(net, x)[1] is None


def test_a_double_model_gives_doubles():
    assert predict(nn.Linear(4, 3).double(), torch.zeros(2, 4)).dtype == torch.float64


def test_logits_come_back_to_the_device_of_the_inputs(x, monkeypatch):
    moves, module = [], sys.modules["nescio.core.predict"]  # the name leads to the function
    monkeypatch.setattr(module, "like_model", lambda x, _: x.to("meta"))
    monkeypatch.setattr(module, "check_inputs", lambda *_: None)
    monkeypatch.setattr(
        module, "run", lambda _, x: moves.append(x.device.type) or torch.zeros(len(x), 3)
    )
    assert predict(nn.Identity(), x).device == x.device
    assert moves == ["meta"]


def test_a_model_that_works_in_place_does_not_write_on_the_data(net, x):
    samples = Samples(x.clone(), torch.zeros(50, dtype=torch.long))
    predict(nn.Sequential(nn.ReLU(inplace=True), net), samples)
    predict(nn.Sequential(nn.ReLU(inplace=True), net), array := x.numpy().copy())
    assert torch.equal(samples.inputs, x)
    assert (array == x.numpy()).all()


def test_random_data_follow_the_seed_and_do_not_repeat_from_batch_to_batch():
    class Noise(torch.utils.data.Dataset):
        def __len__(self):
            return 9

        def __getitem__(self, index):
            return torch.randn(3)

    torch.manual_seed(1)
    first = predict(nn.Identity(), Noise(), batch_size=3)
    torch.manual_seed(2)
    assert torch.equal(predict(nn.Identity(), Noise(), batch_size=3), first)
    assert len(first[0].unique(dim=0)) == 9
    assert not torch.equal(predict(nn.Identity(), Noise(), batch_size=3, seed=1), first)


def test_a_lazy_model_must_be_run_first(x):
    net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    with pytest.raises(NescioError, match="lazy"):
        predict(net, x)
    net(x)
    assert predict(net, x).shape == predict(net, x).shape == (1, 50, 3)


class Draws(nn.Module):
    """Random members: each draw is another function, drawn on every call."""

    def forward(self, x):
        return torch.stack([x @ torch.randn(4, 3) for _ in range(5)])


def test_a_draw_is_one_function_over_all_batches_and_follows_the_seed(x):
    whole = predict(Draws(), x)
    assert whole.shape == (5, 50, 3)
    torch.testing.assert_close(predict(Draws(), x, batch_size=9), whole)
    assert not torch.equal(predict(Draws(), x, seed=1), whole)


def test_a_hundred_thousand_inputs_are_streamed(net):
    seen = []
    net.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    predict(net, np.zeros((1000, 4), dtype=np.float32), batch_size=64)
    assert max(seen) == 64
    assert sum(seen) == 1000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.full((3, 4), torch.nan), "input 0 "),
        (torch.cat([torch.zeros(300, 4), torch.full((1, 4), torch.inf)]), "input 300 "),
        (torch.tensor([[0.0, 0, 0, 0], [torch.inf, -torch.inf, 0, 0]]), "input 1 "),
        (torch.tensor([[3e38, 3e38, 0, 0], [0, 0, 0, torch.nan]]), "input 1 .*1 such"),
        (torch.zeros(3, 4, dtype=torch.uint8), "floating point"),
        (torch.zeros(3, 5), r"shape \(3, 5\)"),
        (torch.zeros(0, 4), "empty|no input"),
        (torch.zeros(3, 4, 2, 2), "cannot be run"),
        (np.array([["a", "b"]]), "str|<U1|number|float"),
        ("digits", "str"),
        (None, "NoneType"),
    ],
)
def test_refuses_what_it_cannot_run(net, data, message):
    net.train()
    with pytest.raises(NescioError, match=message):
        predict(net, data)
    assert net.training


def test_inputs_whose_sum_runs_over_are_not_refused(net):
    x = torch.full((3, 4), 3e38)
    assert predict(net, 1e-30 * x).shape == predict(net, x).shape


@pytest.mark.parametrize(
    "output",
    [
        lambda x: (x, x),
        lambda x: x[1:, 0],
        lambda x: x[:1],
        lambda x: x.long(),
        lambda x: x[None, None],
    ],
    ids=["tuple", "short vector", "rows lost", "integers", "four axes"],
)
def test_refuses_a_model_that_gives_no_logits(output, x):
    class Odd(nn.Module):
        def forward(self, x):
            return output(x)

    with pytest.raises(NescioError, match="logits"):
        predict(Odd(), x)


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (AssertionError(), r"shape \(50, 4\): AssertionError$"),
        (AssertionError("too wide"), r"\(50, 4\): AssertionError: too wide"),
        (KeyError("pixels"), "KeyError: 'pixels'"),
        (AttributeError("no shape"), "AttributeError: no shape"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (ValueError("odd"), r"\(50, 4\): odd$"),
    ],
)
def test_what_a_models_own_code_raises_comes_with_the_shape_and_its_cause(x, raised, message):
    class Raises(nn.Module):
        def forward(self, x):
            raise raised

    with pytest.raises(NescioError, match=message) as caught:
        predict(Raises(), x)
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_a_program_is_let_through(x, stop):
    class Stops(nn.Module):
        def forward(self, x):
            raise stop

    with pytest.raises(stop):
        predict(Stops(), x)


def test_a_model_that_takes_a_dict_is_distinguished_from_one_that_takes_a_tensor(x):
    class Parts(nn.Module):
        def __init__(self, short):
            super().__init__()
            self.short = short

        def forward(self, x):
            return x["x"] if self.short else x["features"]

    for short in (True, False):
        with pytest.raises(NescioError, match="seems to take a dict"):
            predict(Parts(short), x)

    class Deep(nn.Module):
        def forward(self, x):
            return x[:, 0, 0]

    with pytest.raises(NescioError, match="too many indices") as caught:
        predict(Deep(), x)
    assert "dict" not in str(caught.value)


def test_a_model_over_tokens_may_take_integers():
    net = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 3))
    assert predict(net, torch.zeros(5, 2, dtype=torch.long)).shape == (1, 5, 3)


@pytest.mark.parametrize("name", ["fix_draws", "held"])
def test_a_network_may_call_its_parts_as_it_likes(name):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer(name, torch.ones(4))
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(getattr(self, name) * x)

    assert predict(Named(), torch.zeros(3, 4)).shape == (1, 3, 2)


LIBRARY, VERSION = platform.libc_ver()
MAPPED = """
import ctypes
import torch
from nescio.core.predict import reuse_freed_memory

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks mapped a b c d e".split()
    _fields_ = [(name, ctypes.c_size_t) for name in names]

ask = ctypes.CDLL(None).mallinfo2
ask.restype = Info
blocks = []  # none is freed, since that by itself changes how the next ones are allocated
for prepare in (lambda: None, reuse_freed_memory):
    prepare()
    before = ask().mapped
    blocks.append(torch.zeros(4 * 2**20))  # 16 MiB
    print(ask().mapped - before)
"""


@pytest.mark.skipif(
    LIBRARY != "glibc" or tuple(map(int, VERSION.split("."))) < (2, 33),
    reason="needs the C library of Linux, 2.33",
)
def test_large_blocks_stay_with_the_process():
    """Bytes of a block of 16 MiB that go back to the system as soon as the block is freed."""
    command = [sys.executable, "-c", MAPPED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    as_it_is, kept = map(int, done.stdout.split())
    assert as_it_is >= 2**24
    assert kept == 0
