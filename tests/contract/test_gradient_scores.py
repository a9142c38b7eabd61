"""What holds for every score of the gradient, by membership in GRADIENT."""

import pytest
import torch
from torch import nn

import nescio
from nescio.errors import NescioError
from nescio.models import mlp
from nescio.scores import GRADIENT, OF_LOGITS, SCORES

pytestmark = pytest.mark.parametrize("score", GRADIENT)


@pytest.fixture
def net(seed):
    torch.manual_seed(seed)
    return mlp(6, 4, hidden=(8,)).double()


@pytest.fixture
def x(seed):
    return torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_is_listed_once(score):
    assert score not in OF_LOGITS
    assert SCORES[score] is GRADIENT[score]
    assert SCORES[score].name == SCORES[score].function.__name__ == score


def test_gives_one_finite_number_per_input(score, net, x):
    values = SCORES[score](net, x)
    assert values.shape == (9,)
    assert values.dtype == torch.float64
    assert values.isfinite().all()


def test_does_not_mind_the_order_or_the_company_of_inputs(score, net, x):
    values = SCORES[score](net, x)
    torch.testing.assert_close(SCORES[score](net, x.flip(0)), values.flip(0), rtol=1e-9, atol=0)
    torch.testing.assert_close(SCORES[score](net, x, batch_size=2), values, rtol=1e-9, atol=0)
    torch.testing.assert_close(SCORES[score](net, x[4:5]), values[4:5], rtol=1e-9, atol=0)


def test_larger_means_less_known(score, net):
    """One and the same input, to a network that is sure of it, and to one that is torn."""
    x = torch.ones(1, 6, dtype=torch.float64)
    torn = SCORES[score](net, x)
    with torch.no_grad():
        net[-1].bias[int(net(x).argmax())] += 10
    assert SCORES[score](net, x) < torn


def test_separates(score, model, known):
    """Right answers from wrong ones, and kinds it knows from those it does not."""
    record = nescio.evaluate(model, known.test, {"unseen": known.unseen}, scores=[score])
    assert record.known.misclassification[0].auroc > 0.9
    assert record.unknown[0].separation[0].auroc > 0.85


def test_keeps_its_order_where_confidence_rounds_to_one(score):
    """The gradient itself underflows from here on."""
    net = nn.Sequential(nn.Linear(2, 3).double(), nn.Tanh(), nn.Linear(3, 2).double())
    with torch.no_grad():
        net[2].bias.copy_(torch.tensor([1000.0, 0.0]))
        sure = SCORES[score](net, torch.ones(1, 2, dtype=torch.float64))
        net[2].bias[0] = 2000.0
        surer = SCORES[score](net, torch.ones(1, 2, dtype=torch.float64))
    assert sure.isfinite()
    torch.testing.assert_close(surer, sure - 1000, rtol=1e-9, atol=0)


def test_can_be_that_of_a_layer(score, net, x):
    values = SCORES[score](net, x, layer="linear1")
    assert not torch.equal(values, SCORES[score](net, x))
    detector = nescio.Threshold(net, score=f"{score}:linear1")
    torch.testing.assert_close(detector.score(x), values, rtol=1e-12, atol=0)
    with pytest.raises(NescioError, match="linear3"):
        SCORES[score](net, x, layer="linear3")


def test_a_detector_with_it_survives_saving(score, model, known, tmp_path):
    detector = nescio.Threshold(model, score=score).fit(known.test)
    nescio.save(detector, tmp_path / "d.nescio")
    again = nescio.load(tmp_path / "d.nescio")
    assert torch.equal(again.predict(known.unseen), detector.predict(known.unseen))


def test_refuses_a_model_with_several_draws(score, x):
    with pytest.raises(NescioError, match="2 draws"):
        SCORES[score](nescio.methods.Ensemble(lambda: mlp(6, 4), 2), x.float())


def test_leaves_the_model_as_found(score, net, x):
    hook = net[1].register_forward_hook(lambda *_: None)
    net.train()
    for weight in net.parameters():
        weight.requires_grad_(False)
    net[1].weight.grad = torch.ones_like(net[1].weight)
    given = x.clone()
    SCORES[score](net, x)
    assert torch.equal(x, given)
    assert all(module.training for module in net.modules())
    assert not any(weight.requires_grad for weight in net.parameters())
    assert (net[1].weight.grad == 1).all()
    assert net[-1].weight.grad is None
    assert list(net[1]._forward_hooks) == [hook.id]
    assert not net[-1]._forward_hooks
