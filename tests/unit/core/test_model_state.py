from contextlib import contextmanager

import pytest
import torch
from torch import nn

from nescio.core.model_state import SharedBlock, preserve_state


def test_everything_is_put_back_after_an_error():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    net[1].eval()
    net[0].weight.grad = torch.ones(3, 3)
    random = torch.random.get_rng_state()
    mean = net[1].running_mean

    def meddle():
        net.train()
        net[0].register_forward_hook(lambda *_: None)
        net[0].register_forward_pre_hook(lambda *_: None)
        net[0].register_full_backward_hook(lambda *_: None)
        net[0].weight.requires_grad_(False)
        net[0].weight.grad = None
        net[1].running_mean.add_(1.0)
        net[1].running_var = torch.zeros(3)
        torch.rand(5)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="middle"), preserve_state(net):
        meddle()
    assert [module.training for module in net] == [True, False, True]
    assert not net[0]._forward_hooks
    assert not net[0]._forward_pre_hooks
    assert not net[0]._backward_hooks
    assert net[0].weight.requires_grad
    assert (net[0].weight.grad == 1).all()
    assert net[1].running_mean is mean
    assert (mean == 0).all()
    assert (net[1].running_var == 1).all()
    assert torch.equal(torch.random.get_rng_state(), random)


def test_gradients_and_graphs_that_wait_are_not_disturbed():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    loss = net(torch.randn(4, 3)).sum()
    with preserve_state(net):
        net(torch.randn(4, 3)).sum().backward()
    assert all(weight.grad is None for weight in net.parameters())
    loss.backward()  # would fail had a buffer been written to
    before = [weight.grad.clone() for weight in net.parameters()]
    with preserve_state(net):
        net(torch.randn(4, 3)).sum().backward()
    assert all(
        torch.equal(weight.grad, grad)
        for weight, grad in zip(net.parameters(), before, strict=True)
    )


def test_new_buffers_go_and_resized_ones_come_back():
    net = nn.BatchNorm1d(3)
    with preserve_state(net):
        net.register_buffer("cache", torch.zeros(2))
        net.running_mean.resize_(7)
    assert set(net.state_dict()) == {
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }
    assert net.running_mean.shape == (3,)


def test_train_and_eval_of_the_model_itself_are_called():
    class Merging(nn.Linear):
        """As adapters do: weights are merged in eval mode and taken apart again in train mode."""

        merged = False

        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    net = Merging(2, 2)
    with preserve_state(net):
        net.eval()
        assert net.merged
    assert not net.merged


def test_the_first_enters_and_the_last_leaves_in_whatever_order():
    done = []

    @contextmanager
    def setting():
        done.append("set")
        yield
        done.append("put back")

    block = SharedBlock(setting)
    block.__enter__()
    block.__enter__()
    block.__exit__()
    assert done == ["set"]
    block.__exit__()
    assert done == ["set", "put back"]
    with block:
        assert done == ["set", "put back", "set"]
    assert done == ["set", "put back"] * 2
