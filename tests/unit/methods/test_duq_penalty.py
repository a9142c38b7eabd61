"""The gradient penalty: norms, its two sides, random sums, and the gradient of DUQ's loss."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nescio.errors import NescioError
from nescio.methods import DUQ
from nescio.methods.duq import gradient_norms, gradient_penalty, hutchinson
from nescio.models import cnn16, conv3, feature_width, mlp, resnet20

EXACT = 1e-12


def test_slopes_are_norms_over_all_components(seed):
    torch.manual_seed(seed)
    weight = torch.randn(2, 3, 4, dtype=torch.float64)
    x = torch.randn(5, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    outputs = torch.stack([(weight * x).sum((1, 2, 3)), x.square().sum((1, 2, 3)) / 2], 1)  # (N, 2)
    torch.testing.assert_close(
        gradient_norms(outputs, x), (weight + x).square().sum((1, 2, 3)).sqrt()
    )


def test_slopes_can_be_differentiated_also_where_there_is_none(seed):
    torch.manual_seed(seed)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor(
        [[2.0] * 4, [0.0] * 4, [0.5] * 4], dtype=torch.float64, requires_grad=True
    )
    gradient_penalty(gradient_norms((weight * x).sum(1), x), "two-sided").backward()
    # of (‖w‖ − 1)² / 3: (2/3) (1 − 1/‖w‖) w, with ‖w‖ = 4, 0, 1
    assert torch.equal(weight.grad[1:], torch.zeros(2, 4, dtype=torch.float64))
    torch.testing.assert_close(weight.grad[0], torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize(
    "outputs", [torch.ones(3), torch.ones(3, requires_grad=True)]
)  # nothing, or weights alone
def test_outputs_that_do_not_come_from_the_input_are_refused(outputs):
    with pytest.raises(NescioError, match="constant, detached or made under"):
        gradient_norms(outputs, torch.randn(3, 4, requires_grad=True))


@pytest.mark.parametrize(
    ("side", "wanted"),
    [("two-sided", [1.0, 0.25, 0.0, 0.25, 4.0]), ("one-sided", [0.0, 0.0, 0.0, 1.25, 8.0])],
)
def test_sides(side, wanted):
    norms = torch.tensor([0.0, 0.5, 1.0, 1.5, 3.0])
    for norm, value in zip(norms, wanted, strict=True):
        assert gradient_penalty(norm[None], side).item() == value
    assert gradient_penalty(norms, side).item() == pytest.approx(sum(wanted) / 5)


def test_random_sums_have_the_slope_of_all_outputs_in_the_mean(seed, monkeypatch):
    """Over all signs, the mean squared norm is the squared Frobenius norm of the Jacobian."""
    torch.manual_seed(seed)
    jacobian = torch.randn(4, 3, dtype=torch.float64)  # of 4 outputs in 3 components
    x = torch.randn(1, 3, dtype=torch.float64, requires_grad=True)
    squares = []
    for bits in itertools.product([0.0, 1.0], repeat=4):
        drawn = torch.tensor([bits], dtype=torch.float64)
        monkeypatch.setattr(torch, "randint_like", lambda *_, drawn=drawn, **__: drawn)
        squares.append(gradient_norms(hutchinson(x @ jacobian.T), x).square())
    torch.testing.assert_close(
        torch.cat(squares).mean(), jacobian.square().sum(), rtol=1e-14, atol=0
    )
    assert torch.cat(squares).std() > 0.1


def test_signs_are_fair_and_each_inputs_own(seed):
    torch.manual_seed(seed)
    signs = torch.stack(
        [hutchinson(torch.eye(4)[[k] * 4000]) for k in range(4)]
    )  # (4, 4000), drawn apart
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean()) < 5 / 16_000**0.5
    torch.manual_seed(seed)
    powers = hutchinson(
        torch.tensor([[1.0, 2.0, 4.0, 8.0]] * 4000)
    )  # tells which signs an input had
    counts = torch.bincount(((powers + 15) / 2).long(), minlength=16)
    assert (counts - 250).abs().max() < 5 * 250**0.5


def test_the_outputs_gradient_goes_through_the_signs_alone(seed):
    torch.manual_seed(seed)
    outputs = torch.randn(6, 3, requires_grad=True)
    hutchinson(outputs).sum().backward()
    assert torch.equal(outputs.grad.abs(), torch.ones(6, 3))


def by_hand(duq, x, y, seed):
    """DUQ's loss with a plain double backward: equations 1, 3, 7 and 8, and appendix C."""
    x = duq.normalise(x).detach().requires_grad_()
    torch.manual_seed(seed)
    features = duq.net(x)
    differences = torch.einsum("cnd,bd->bcn", duq.weight, features) - duq.centroids  # (N, C, n)
    scales = (
        duq.log_length_scale.exp() if duq.learn_length_scale else torch.tensor(duq.length_scale)
    )
    logs = -differences.square().mean(2) / (2 * scales**2)
    kernels = logs.exp()
    if duq.penalty_target == "kernel sum":
        total = kernels.sum()
    else:
        parts = kernels if duq.penalty_target == "kernels" else features
        drawn = parts[:1] if duq.shared_projection else parts
        signs = 2 * torch.randint_like(drawn, 2, requires_grad=False) - 1
        total = (signs * parts).sum()
    (slopes,) = torch.autograd.grad(total, x, create_graph=True)
    squares = slopes.flatten(1).square().sum(1)
    penalty = (
        (squares.sqrt() - 1).square() if duq.penalty == "two-sided" else (squares - 1).clamp(min=0)
    )
    # torch's binary cross-entropy has a floor under small kernels, in its gradient too
    cross_entropies = -torch.where(F.one_hot(y, duq.classes).bool(), logs, (1 - kernels).log())
    return cross_entropies.mean() + duq.gradient_penalty * penalty.mean()


class Times(nn.Module):
    """All numbers, so many times larger."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


NETS = {  # and how much steeper they are made, so that the one-sided penalty bites
    "conv3": (lambda: conv3(size=16), (6, 1, 16, 16), 50),
    "resnet20": (resnet20, (4, 3, 8, 8), 50),
    "cnn16": (lambda: cnn16(size=20), (4, 1, 20, 20), 500),
    "mlp": (lambda: mlp(5, hidden=(12,)), (6, 5), 50),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("target", ["kernel sum", "kernels", "features", "features, shared"])
@pytest.mark.parametrize("side", ["two-sided", "one-sided"])
def test_the_whole_gradient_of_the_loss_is_that_of_double_backward(name, target, side, seed):
    torch.manual_seed(seed)
    make, shape, factor = NETS[name]
    net = make()
    duq = DUQ(
        nn.Sequential(Times(factor), net),
        3,
        8,
        1.0,
        0.7,
        side,
        penalty_target=target.removesuffix(", shared"),
        shared_projection=target.endswith("shared"),
        weight_spread=0.1,
        learn_length_scale=name == "mlp",
        features=feature_width(net),
        normalise=Times(1 / factor),
    ).double()
    x, y = torch.randn(shape, dtype=torch.float64), torch.arange(shape[0]) % 3
    gradients = []
    for loss_of in (
        lambda model: seeded_loss(model, x, y, seed),
        lambda model: by_hand(model, x, y, seed),
    ):
        model = copy.deepcopy(duq)
        loss = loss_of(model)
        loss.backward()
        gradients.append(
            (loss.detach(), torch.cat([weight.grad.flatten() for weight in model.parameters()]))
        )
    (loss, found), (same_loss, wanted) = gradients
    torch.testing.assert_close(loss, same_loss, rtol=EXACT, atol=0)
    assert (found - wanted).norm() < EXACT * wanted.norm()
    duq.gradient_penalty = 0.0
    assert loss - seeded_loss(duq, x, y, seed).detach() > 0.01  # the penalty is there


def seeded_loss(duq, x, y, seed):
    torch.manual_seed(seed)  # of dropout, then of the signs
    return duq.loss(x, y)[0]
