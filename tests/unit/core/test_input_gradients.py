"""Values and gradients in the input, against closed forms and one input at a time."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from nescio.core.input_gradients import quantity_gradients
from nescio.core.predict import predict
from nescio.errors import NescioError
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.scores import entropy, max_prob


def both(logits):
    return torch.stack([max_prob(logits), entropy(logits)])


def test_a_linear_model_has_its_weights_for_slopes(seed):
    torch.manual_seed(seed)
    net = nn.Linear(4, 3).double()
    values, gradients = quantity_gradients(
        net, torch.randn(7, 4), lambda logits: logits[0].T, batch_size=3
    )
    assert torch.equal(gradients, net.weight[:, None].expand(3, 7, 4))
    assert values.dtype == gradients.dtype == torch.float64


def test_each_input_has_its_own_gradient(seed):
    torch.manual_seed(seed)
    net = mlp(4, 3).double()
    x = torch.randn(9, 4, dtype=torch.float64)
    values, gradients = quantity_gradients(net, x, both, batch_size=4)
    for i in range(9):
        one = x[i : i + 1].clone().requires_grad_()
        for k, score in enumerate((max_prob, entropy)):
            value = score(net(one)[None])
            torch.testing.assert_close(values[k, i], value[0])
            torch.testing.assert_close(gradients[k, i], torch.autograd.grad(value.sum(), one)[0][0])


def test_norms_are_those_of_the_gradients(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
    x = torch.rand(5, 1, 4, 4)
    values, gradients = quantity_gradients(net, x, both)
    same, norms = quantity_gradients(net, x, both, norms=True, batch_size=2)
    torch.testing.assert_close(same, values)
    torch.testing.assert_close(norms, gradients.square().sum((2, 3, 4)).sqrt())


def test_norms_do_not_underflow_before_the_gradient_does():
    x = torch.tensor([[3e-200, 4e-200], [0.0, 0.0], [3e200, -4e200]], dtype=torch.float64)

    def half_square(logits):
        return logits.square().sum(2) / 2

    _, norms = quantity_gradients(nn.Identity(), x, half_square, norms=True)
    torch.testing.assert_close(
        norms, torch.tensor([[5e-200, 0.0, 5e200]], dtype=torch.float64), rtol=1e-14, atol=0
    )


def test_the_model_is_left_as_found():
    net = Softmax(nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), nn.BatchNorm1d(3)))
    x = torch.randn(6, 2)
    before, random = (
        {key: value.clone() for key, value in net.state_dict().items()},
        torch.random.get_rng_state(),
    )
    kept = x.clone()
    quantity_gradients(net, x, both)
    assert net.training
    assert all(
        torch.equal(before[key], value) and value.dtype == before[key].dtype
        for key, value in net.state_dict().items()
    )
    assert all(weight.grad is None and weight.requires_grad for weight in net.parameters())
    assert torch.equal(random, torch.random.get_rng_state())
    assert torch.equal(x, kept)


class Noisy(nn.Linear):
    """Logits from weights that are drawn anew at each pass."""

    def forward(self, x):
        return x @ (self.weight + torch.randn_like(self.weight)).T


@pytest.mark.parametrize("norms", [False, True])
def test_a_model_that_draws_is_one_function_that_follows_from_the_seed(seed, norms):
    net, x = Noisy(2, 3).double(), torch.randn(7, 2, dtype=torch.float64)
    found = []
    for state, own, size in ((0, seed, 7), (1, seed, 3), (0, seed + 1, 7)):
        torch.manual_seed(state)
        settings = {"batch_size": size, "seed": own, "norms": norms}
        found.append(quantity_gradients(net, x, both, **settings))
    torch.testing.assert_close(found[0], found[1])
    assert not torch.allclose(found[0][0], found[2][0])
    torch.testing.assert_close(found[0][0], both(predict(net, x, seed=seed)))


def test_data_that_draw_leave_the_random_state_alone():
    net, loader = nn.Linear(2, 3), DataLoader(torch.randn(6, 2), batch_size=2, shuffle=True)
    random = torch.random.get_rng_state()
    quantity_gradients(net, loader, both)
    assert torch.equal(random, torch.random.get_rng_state())


def test_what_is_no_ready_model_is_reported():
    with pytest.raises(NescioError, match="Module, got a str"):
        quantity_gradients("softmax", torch.zeros(2, 2), both)
    with pytest.raises(NescioError, match="lazy modules"):
        quantity_gradients(nn.LazyLinear(3), torch.zeros(2, 2), both)


def test_bad_inputs_are_reported():
    with pytest.raises(NescioError, match="input 4 "):
        quantity_gradients(
            nn.Linear(2, 3), torch.tensor([[0.0, 0.0]] * 4 + [[torch.nan, 0.0]]), both, batch_size=3
        )
    with pytest.raises(NescioError, match="cannot be run"):
        quantity_gradients(nn.Linear(2, 3), torch.zeros(2, 5), both)


class Cut(nn.Linear):
    """Logits without a way back to the input."""

    def forward(self, x):
        return super().forward(x).detach()


class Constant(nn.Linear):
    """Logits that hang on the bias alone."""

    def forward(self, x):
        return self.bias.expand(len(x), -1)


@pytest.mark.parametrize("kind", [Cut, Constant])
def test_a_model_without_a_gradient_is_reported(kind):
    with pytest.raises(NescioError, match="differentiated in its input"):
        quantity_gradients(kind(2, 3), torch.zeros(4, 2), both)
