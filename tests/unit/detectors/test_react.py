"""ReAct: as a few lines of numpy have it."""

import numpy as np
import pytest
import torch

import nescio
from feature_data import in_disguise, plain
from nescio.detectors import ReAct
from nescio.errors import NescioError
from nescio.methods import DUQ
from nescio.models import mlp
from nescio.scores import energy


def by_numpy(net, train, x, percentile):
    """Clip at the percentile of all training values, apply the head, take the energy; float64."""
    weight, bias = (part.detach().double().numpy() for part in (net[-1].weight, net[-1].bias))
    clip = np.percentile(train.double().numpy(), percentile)
    logits = np.minimum(x.double().numpy(), clip) @ weight.T + bias
    return clip, -np.log(np.exp(logits).sum(1))


@pytest.mark.parametrize("percentile", [0, 50, 90, 99.5, 100])
def test_score_is_that_of_numpy(percentile, seed):
    torch.manual_seed(seed)
    net, train, x = plain(12), torch.randn(300, 12), 2 * torch.randn(50, 12)
    detector = ReAct(net, percentile=percentile).fit(in_disguise(train), train=train)
    clip, expected = by_numpy(net, train, x, percentile)
    assert detector.clip_.item() == pytest.approx(clip, rel=1e-5)
    torch.testing.assert_close(detector.score(x), torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_nothing_above_the_cut_leaves_the_energy(model, known):
    detector = ReAct(model, percentile=100).fit(known.test, train=known.train)
    plain_energy = energy(nescio.predict(model, known.train))
    torch.testing.assert_close(detector.score(known.train), plain_energy, rtol=1e-5, atol=1e-5)


def test_what_is_cut_off_cannot_count(seed):
    """However large a feature is above the cut, the score stays the same."""
    torch.manual_seed(seed)
    train, x = torch.rand(200, 5), torch.rand(1, 5)
    detector = ReAct(plain(5)).fit(in_disguise(train), train=train)
    large, huge = x.clone(), x.clone()
    large[0, 2], huge[0, 2] = 2.0, 1e6
    assert detector.score(large) == detector.score(huge)
    assert 0.85 < detector.clip_ < 0.95


def test_the_percentile_of_a_bounded_sample_is_near(seed):
    """Of 200 × 50 uniform values the 90th percentile has a standard deviation of 0.003."""
    torch.manual_seed(seed)
    train = torch.rand(5000, 50)
    detector = ReAct(plain(50), size=200, seed=seed).fit(in_disguise(train[:100]), train=train)
    assert detector.clip_.item() == pytest.approx(0.9, abs=0.015)


def test_batch_size_does_not_count(model, known):
    detector = ReAct(model).fit(known.test, train=known.train)
    scores = [detector.score(known.unseen, batch_size=size) for size in (1, 7, 1000)]
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=1e-5, atol=1e-5)


def test_quality(model, known):
    """Measured over five seeds: 0.959 to 0.972."""
    detector = ReAct(model).fit(known.test, train=known.train)
    assert nescio.metrics.auroc(detector.score(known.test), detector.score(known.unseen)) > 0.94


def test_a_model_without_a_linear_head(seed):
    torch.manual_seed(seed)
    data = nescio.data.load("three_blobs").train
    model = DUQ(mlp(2, None, hidden=(16,)), 3)
    with pytest.raises(NescioError, match="DUQ"):
        ReAct(model).fit(data)


def test_features_that_are_not_finite():
    class Endless(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.head(x / 0).nan_to_num()

    x = torch.rand(40, 2) + 0.1
    with pytest.raises(NescioError, match="NaN or infinite"):
        ReAct(Endless()).fit(in_disguise(x), train=x)


@pytest.mark.parametrize(
    "how", [{"percentile": -1}, {"percentile": 101}, {"percentile": "a"}, {"size": 0}, {"seed": -1}]
)
def test_bad_arguments(how):
    with pytest.raises(NescioError, match=next(iter(how))):
        ReAct(plain(2), **how)


def test_says_that_it_has_learned_nothing():
    with pytest.raises(NescioError, match="not fitted"):
        ReAct(plain(2)).score(torch.rand(3, 2))
