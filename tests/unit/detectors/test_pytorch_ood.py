"""The same order as pytorch-ood's detectors, on the same features."""

import pytest
import torch
from scipy.stats import spearmanr

import nescio
import peers
from feature_data import in_disguise
from nescio.detectors import DETECTORS

FEATURES, CLASSES = 16, 5


@pytest.fixture(scope="module")
def theirs():
    found = peers.pytorch_ood()
    if found is None:
        pytest.skip("pytorch-ood is not installed; it is in the extra bench")
    return found


@pytest.fixture
def net(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(FEATURES, CLASSES))


@pytest.fixture
def data(seed):
    """Training features of five kinds, their labels, and features to score, half of no kind."""
    torch.manual_seed(seed)
    centres, labels = 2 * torch.randn(CLASSES, FEATURES), torch.arange(600) % CLASSES
    train, known = (torch.randn(600, FEATURES) + centres[labels] for _ in range(2))
    return train.relu(), labels, torch.cat([known, 2 * torch.randn(600, FEATURES)]).relu()


def agreement(ours, others):
    return spearmanr(ours.numpy(), others.detach().numpy()).statistic


def test_knn(theirs, net, data):
    train, labels, x = data
    peer = theirs.KNN(None, k=20).fit_features(train, labels)
    detector = DETECTORS["knn"](net, k=20).fit(in_disguise(train), train=train)
    assert agreement(detector.score(x), peer.predict_features(x)) > 0.999999


def test_react(theirs, net, data):
    train, labels, x = data
    peer = theirs.ReAct(net[0], net[1]).fit_feature_maps(train, labels)
    detector = DETECTORS["react"](net).fit(in_disguise(train), train=train)
    assert agreement(detector.score(x), peer.predict_feature_maps(x)) > 0.999999


def test_odin(theirs, net, data):
    _, _, x = data
    net, x = net.double(), x.double()  # theirs has no digits left at its temperature in float32
    peer = theirs.ODIN(net)
    assert agreement(DETECTORS["odin"](net).score(x), peer.predict(x)) > 0.999999


@pytest.mark.parametrize(("score", "name"), [("energy", "EnergyBased"), ("max_logit", "MaxLogit")])
def test_scores(theirs, net, data, score, name):
    _, _, x = data
    detector = nescio.Threshold(net, score=score)
    assert agreement(detector.score(x), getattr(theirs, name)(net).predict(x)) > 0.999999
