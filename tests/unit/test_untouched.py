import pytest
import torch
from torch import nn

from nescio.untouched import untouched


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

    with pytest.raises(RuntimeError, match="middle"), untouched(net):
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
