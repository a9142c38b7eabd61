"""One network run many times: at once, in a loop, in pieces, and always the same numbers."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from nescio.methods import stacked
from nescio.methods.stacked import chunks, loop_stacked, map_stacked, run_stacked
from nescio.models import cnn16, conv3, mlp


def several(net, count):
    """Weights `(count, …)` near those of a network."""
    return {
        name: weight + 0.1 * torch.randn(count, *weight.shape)
        for name, weight in net.named_parameters()
    }


@pytest.mark.parametrize("own_inputs", [False, True])
@pytest.mark.parametrize("grouped", [False, True], ids=["as it suits", "convolutions grouped"])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: mlp(5, 3, hidden=(7, 6)), (5,)),
        (lambda: cnn16(3, size=18), (1, 18, 18)),
        (lambda: conv3(3, channels=2, size=16), (2, 16, 16)),
    ],
    ids=["mlp", "cnn16", "conv3"],
)
def test_own_weights_give_what_a_loop_gives(make, shape, grouped, own_inputs, seed, monkeypatch):
    torch.manual_seed(seed)
    if grouped:
        monkeypatch.setattr(stacked, "_CONVOLUTIONS", ())
        monkeypatch.setattr(stacked, "loop_stacked", None)  # a loop would be an error
    net = make().double().eval()
    weights = {name: value.double() for name, value in several(net, 3).items()}
    x = (
        torch.randn(3, 4, *shape, dtype=torch.float64)
        if own_inputs
        else torch.randn(4, *shape, dtype=torch.float64)
    )
    want = torch.stack(
        [
            functional_call(
                net,
                {name: value[s] for name, value in weights.items()},
                (x[s] if own_inputs else x,),
            )
            for s in range(3)
        ]
    )
    torch.testing.assert_close(
        run_stacked(net, weights, x, own_inputs), want, rtol=1e-10, atol=1e-10
    )


def test_what_cannot_be_vectorised_is_run_in_a_loop():
    calls = []

    def run(v):
        calls.append(v)
        return v * 2 if v.sum().item() > 0 else -v

    x = torch.tensor([[1.0, 2.0], [-1.0, -5.0]])
    assert torch.equal(map_stacked(run, x), torch.tensor([[2.0, 4.0], [1.0, 5.0]]))
    assert len(calls) == 3  # one attempt, then two rows


def test_an_error_of_the_networks_own_comes_through():
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        map_stacked(nn.Linear(3, 2), torch.zeros(4, 5, 2))


def test_rows_of_several_tensors_stay_together():
    x, w = (
        torch.arange(3.0),
        {"a": torch.tensor([1.0, 10.0, 100.0]), "b": torch.tensor([0.0, 1.0, 2.0])},
    )
    want = torch.tensor([0.0, 11.0, 202.0])
    for over in (map_stacked, loop_stacked):
        assert torch.equal(over(lambda v, d: v * d["a"] + d["b"], x, w), want)


@pytest.mark.parametrize(
    ("inputs", "count", "want"),
    [(10, 1, 1), (10, 10, 1), (10, 11, 2), (10, 30, 3), (3, 1000, 3), (1, 1000, 1)],
)
def test_pieces_are_of_one_size_and_as_many_as_needed(inputs, count, want, monkeypatch):
    monkeypatch.setattr(stacked, "MAX_ROWS", 100)
    x = torch.arange(inputs)
    cut = chunks(x, count, nn.Linear(2, 2))
    assert len(cut) == want
    assert torch.equal(torch.cat(cut), x)
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_a_batch_of_no_inputs_is_one_piece():
    assert len(chunks(torch.zeros(0, 2), 50, nn.Linear(2, 2))) == 1


def test_images_come_in_smaller_pieces():
    x = torch.zeros(256, 2)
    assert len(chunks(x, 50, nn.Linear(2, 2))) == 1
    assert len(chunks(x, 50, nn.Sequential(nn.Conv2d(1, 1, 1)))) == 4


@pytest.mark.parametrize("count", [1, 3])
def test_statistics_of_batches_count_each_run_once(count):
    net = nn.Sequential(
        nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 5), nn.BatchNorm1d(5, momentum=None)
    )
    x = torch.randn(20, 4)
    run_stacked(net, several(net, count), x)
    assert [net[0].num_batches_tracked, net[2].num_batches_tracked] == [count, count]
    torch.testing.assert_close(net[0].running_mean, x.mean(0))
