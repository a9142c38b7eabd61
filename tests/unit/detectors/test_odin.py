"""ODIN: against autograd by hand, and a linear model, whose step is known in closed form."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nescio
from nescio.detectors import ODIN
from nescio.errors import NescioError
from small_nets import Draws, small


def by_hand(net, x, temperature, eps):
    """−max softmax after the step, one input at a time; draws count by their mean probability."""

    def probability(x):
        logits = net(x)
        return (logits if logits.dim() == 3 else logits[None]).div(temperature).softmax(-1).mean(0)

    found = []
    for row in x.split(1):
        one = row.clone().requires_grad_()
        before = probability(one)
        loss = F.nll_loss(before.log(), before.argmax(1))
        (slope,) = torch.autograd.grad(loss, one)
        found.append(-probability(one.detach() - eps * slope.sign()).max().detach())
    return torch.stack(found)


@pytest.mark.parametrize("temperature", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("eps", [0.0, 0.0014, 0.1])
@pytest.mark.parametrize("draws", [1, 3])
def test_score_is_that_of_autograd_by_hand(temperature, eps, draws, seed):
    net = (
        small(seed) if draws == 1 else Draws(*(small(seed + draw) for draw in range(draws)))
    ).double()
    torch.manual_seed(seed)
    x = torch.randn(30, 2).double()
    found = ODIN(net, temperature, eps).score(x)
    torch.testing.assert_close(
        -(1 - found.exp()), by_hand(net, x, temperature, eps), rtol=1e-9, atol=1e-12
    )


def test_the_step_of_a_linear_model_with_two_classes(seed):
    """Its margin m = ⟨w, x⟩ + b grows by ε‖w‖₁, so 1 − p = σ(−(|m| + ε‖w‖₁)/T)."""
    torch.manual_seed(seed)
    net = torch.nn.Linear(5, 2).double()
    x = torch.randn(20, 5).double()
    w, b = net.weight[1] - net.weight[0], net.bias[1] - net.bias[0]
    margin = (x @ w + b).abs() + 0.3 * w.abs().sum()
    found = ODIN(net, temperature=7.0, eps=0.3).score(x)
    torch.testing.assert_close(found, F.logsigmoid(-margin / 7).detach(), rtol=1e-12, atol=1e-12)


def test_neither_step_nor_order_is_lost_where_confidence_rounds_to_one():
    """At temperature 1 and margins of thousands all probabilities are 1.0, and gradients 0."""
    net = torch.nn.Linear(1, 2)
    net.weight.data, net.bias.data = torch.tensor([[0.0], [1000.0]]), torch.zeros(2)
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    found = ODIN(net, temperature=1.0, eps=0.5).score(x)
    torch.testing.assert_close(found, -1000.0 * (x[:, 0].double() + 0.5))


def test_eps_is_in_units_of_the_raw_input(known, model):
    """The step is made before the model's own normalisation."""
    x = known.test.take(slice(0, 10))[0]
    inside = torch.nn.Sequential(model.normalise, model.net)
    torch.testing.assert_close(ODIN(model, eps=0.01).score(x), ODIN(inside, eps=0.01).score(x))
    seen = []
    hook = model.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().clone()))
    ODIN(model, eps=0.01).score(x)
    hook.remove()
    moved = (seen[-1] - x).abs()
    torch.testing.assert_close(moved.flatten(1).amax(1), torch.full((10,), 0.01), rtol=1e-4, atol=0)


def test_leaves_the_model_as_it_was(model, known):
    model.train()
    model.net[1].eval()
    model.net[1].weight.requires_grad_(False)
    model.net[3].weight.grad = torch.ones_like(model.net[3].weight)
    flags = [module.training for module in model.modules()]
    needs = [weight.requires_grad for weight in model.parameters()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    x = known.test.take(slice(0, 10))[0]
    before, generator = x.clone(), torch.random.get_rng_state()
    ODIN(model).score(x)
    assert torch.equal(x, before)
    assert not x.requires_grad
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert [module.training for module in model.modules()] == flags
    assert [weight.requires_grad for weight in model.parameters()] == needs
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(model.net[3].weight.grad, torch.ones_like(model.net[3].weight))
    assert model.net[1].weight.grad is None


def test_a_model_that_draws_is_one_function(seed):
    """The step and the score after it are those of the same draws as the model's answers."""

    class Noisy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small(seed)

        def forward(self, x):
            return self.net(x) + torch.randn(4, 1, 3)

    x = torch.rand(12, 2)
    detector = ODIN(Noisy(), temperature=1.0, eps=0.0)
    expected = nescio.scores.max_prob(nescio.predict(detector.model, x))
    torch.testing.assert_close(detector.score(x), expected)
    torch.testing.assert_close(detector.score(x, batch_size=5), expected)


def test_no_gradients_needed_around_it(model, known):
    x = known.test.take(slice(0, 10))[0]
    detector = ODIN(model, eps=0.05)
    with torch.no_grad():
        assert torch.equal(detector.score(x), detector.score(x.clone()))
    moved = detector.score(x) - ODIN(model, eps=0.0).score(x)
    assert (moved < 0).all()  # more confident after the step
    with torch.inference_mode(), pytest.raises(NescioError, match="inference_mode"):
        detector.score(x)


def test_batch_size_does_not_count(known, model):
    model.double()
    detector = ODIN(model).fit(known.test)
    scores = [detector.score(known.unseen, batch_size=size) for size in (1, 7, 1000)]
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=1e-9, atol=1e-12)


def test_quality(model, known):
    """Measured over five seeds: 0.964 to 0.972."""
    detector = ODIN(model).fit(known.test)
    assert nescio.metrics.auroc(detector.score(known.test), detector.score(known.unseen)) > 0.95


def test_an_input_that_cannot_step_stays(seed):
    """Beyond its edge this model gives no numbers."""

    class Edged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 2)
            self.layer.weight.data = torch.tensor([[1.0], [-1.0]])
            self.layer.bias.data.zero_()

        def forward(self, x):
            return torch.where(x < 1, self.layer(x), torch.nan)

    x = torch.tensor([[0.5], [0.95]])
    found = ODIN(Edged(), temperature=1.0, eps=0.1).score(x)
    reached = torch.tensor([0.6, 0.95], dtype=torch.float64)
    torch.testing.assert_close(found, F.logsigmoid(-2 * reached), rtol=1e-6, atol=0)


def test_words_have_no_small_steps(seed):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(12, 3))
    with pytest.raises(NescioError, match=r"floats, not torch\.int64"):
        ODIN(net).score(torch.randint(9, (5, 3)))


def test_a_model_without_a_gradient():
    class Detached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x.detach())

    with pytest.raises(NescioError, match="differentiated in its input"):
        ODIN(Detached()).score(torch.rand(3, 2))


@pytest.mark.parametrize(
    "how", [{"temperature": 0}, {"temperature": "a"}, {"eps": -0.1}, {"eps": float("nan")}]
)
def test_bad_arguments(how):
    with pytest.raises(NescioError, match=next(iter(how))):
        ODIN(torch.nn.Linear(2, 2), **how)


def test_a_model_that_writes_on_its_activations_is_reported_and_passed_over():
    class Overwriting(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(2, 8), nn.Linear(8, 3)

        def forward(self, x):
            hidden = torch.relu(self.body(x))
            logits = self.head(hidden)
            hidden.mul_(0)
            return logits

    torch.manual_seed(0)
    net, x = Overwriting(), torch.randn(200, 2)
    with pytest.raises(NescioError, match="in place; write on copies"):
        nescio.ODIN(net).fit(x)
    found = nescio.recommend(net, x, candidates=["energy", "odin"], inputs=20)
    assert "in place" in found.record.skipped["odin"]
