"""ViM against its formulas in numpy, with a pseudo-inverse."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import spearmanr
from torch import nn

import nescio
from feature_data import F, drawn, fitted, head, in_batches, others, peer, separation
from nescio.detectors import ViM, vim
from nescio.methods import DUQ
from nescio.models import mlp


def expected(model, train, x, dimension):
    weight, bias = (value.detach().double().numpy() for value in (model.weight, model.bias))
    train, x = train.double().numpy(), x.double().numpy()
    origin = -np.linalg.pinv(weight) @ bias
    moved = train - origin
    principal = np.linalg.svd(moved, full_matrices=True)[2][:dimension]  # (D, F)
    outside = np.eye(len(origin)) - principal.T @ principal
    alpha = (train @ weight.T + bias).max(1).mean() / np.linalg.norm(moved @ outside, axis=1).mean()
    return torch.from_numpy(
        alpha * np.linalg.norm((x - origin) @ outside, axis=1)
        - logsumexp(x @ weight.T + bias, axis=1)
    )


@pytest.mark.parametrize("dimension", [None, 1, 5])
def test_agrees_with_its_formulas(seed, dimension):
    data, x, model = drawn(seed, dtype=torch.float64), others(seed).double(), head(seed).double()
    found = fitted(ViM, data, model, dimension=dimension)
    wanted = expected(model, data.inputs, x, F // 2 if dimension is None else dimension)
    sign = (data.inputs @ model.weight.T + model.bias).amax(1).mean().sign()
    assert sign > 0  # of which the formula speaks
    torch.testing.assert_close(found.score(x), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("features", "dimension"), [(1, 0), (2, 1), (767, 383), (768, 512), (2048, 1000)]
)
def test_as_many_principal_directions_as_in_the_paper(features, dimension):
    assert ViM(head())._dimension(features) == dimension


def test_a_long_stream_needs_no_more_memory_and_gives_nearly_the_same(seed, monkeypatch):
    data, x = drawn(seed, 4000), others(seed)
    whole = fitted(ViM, data)
    monkeypatch.setattr(vim, "SAMPLE", 1000)
    some = fitted(ViM, data)
    assert some.alpha_ != whole.alpha_
    torch.testing.assert_close(
        some.alpha_, whole.alpha_, rtol=0.05, atol=0
    )  # a mean of 1000: 4 standard errors
    assert torch.equal(some.residual_, whole.residual_)
    assert spearmanr(some.score(x), whole.score(x)).statistic > 0.999


def test_neither_batches_nor_order_matter(seed):
    data, x = drawn(seed), others(seed)
    once = fitted(ViM, data).score(x)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    for other in (in_batches(data, 7), data.select(order), data.inputs):
        torch.testing.assert_close(fitted(ViM, other).score(x), once, rtol=1e-5, atol=1e-5)


def test_features_that_fill_fewer_directions_than_the_principal_ones(seed):
    """What leaves them has a high but finite score."""
    data, model = drawn(seed), head()
    model.bias.data.zero_()
    data.inputs[:, 2:] = 0
    detector = fitted(ViM, data, model)
    before = detector.score(data)
    x = data.inputs.clone()
    x[:, 4] = 1.0
    assert before.isfinite().all()
    assert (detector.score(x) > before + 1).all()


def test_nothing_but_zeros_to_learn_from():
    model = nn.Linear(F, 3, bias=False)
    found = fitted(ViM, torch.zeros(40, F), model).score(torch.ones(1, F))
    torch.testing.assert_close(
        found, -model(torch.ones(1, F)).logsumexp(1).detach().double(), rtol=1e-5, atol=1e-6
    )


def test_a_residual_speaks_for_unknown_also_if_logits_are_negative(seed):
    model = head()
    model.bias.data -= 1000
    assert fitted(ViM, drawn(seed), model).alpha_ > 0


def test_takes_the_logits_of_the_head_whatever_the_model_returns(seed):
    bare = head()
    net = nn.Sequential(bare, nn.LogSoftmax(1))
    data, x = drawn(seed), others(seed)
    assert torch.equal(fitted(ViM, data, net).score(x), fitted(ViM, data, bare).score(x))


def test_says_what_it_needs(seed):
    duq = DUQ(mlp(F, None), 3)
    with pytest.raises(nescio.NescioError, match="ends in a linear layer"):
        ViM(duq).fit(drawn(seed))
    with pytest.raises(nescio.NescioError, match="dimension must be below 6 features, got 6"):
        ViM(head(), dimension=6).fit(drawn(seed))
    with pytest.raises(nescio.NescioError, match="dimension must be"):
        ViM(head(), dimension=0)
    with pytest.raises(nescio.NescioError, match="is not fitted"):
        ViM(head()).score(others(seed))


def test_tells_digits_it_has_never_seen(seed):
    assert separation(ViM, seed) > 0.93  # 0.952 to 0.970 with seeds 0 to 3


def test_ranks_as_pytorch_ood_does(seed):
    data, x, model = drawn(seed), others(seed), head(seed)
    theirs = peer("ViM")(None, 3, model.weight, model.bias).fit_features(data.inputs, data.labels)
    assert (
        spearmanr(fitted(ViM, data, model).score(x), theirs.predict_features(x)).statistic > 0.9999
    )
