"""Classes of correlated features, a model that takes them as they come, and one of digits."""

import functools

import pytest
import torch
from torch import nn

import nescio
from nescio.data import Samples
from nescio.models import mlp

F, C = 6, 3


def drawn(seed, count=300, dtype=torch.float32):
    """Features of three classes around means apart, with one covariance that is far from round."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, C, (count,), generator=generator)
    means = 3 * torch.randn(C, F, generator=generator)
    mixed = torch.randn(F, F, generator=generator) + 2 * torch.eye(F)
    rows = torch.randn(count, F, generator=generator) @ mixed + means[labels] + 5
    return Samples(rows.to(dtype), labels)


def others(seed, count=200):
    """Features of no class, near and far."""
    generator = torch.Generator().manual_seed(seed + 1000)
    return 5 + torch.randn(count, F, generator=generator) * torch.linspace(0.1, 30, count)[:, None]


def head(seed=0, classes=C, features=F):
    """A linear layer alone, whose features are its inputs."""
    torch.manual_seed(seed)
    return nn.Linear(features, classes)


def in_disguise(data):
    """The same inputs as a stream, which is not looked into: to be held against an oracle, a fit
    may know them all.
    """
    if isinstance(data, Samples):
        return [(data.inputs, data.labels)]
    return [data] if isinstance(data, torch.Tensor) else list(data)


def fitted(kind, data, model=None, **settings):
    return kind(head() if model is None else model, **settings).fit(in_disguise(data), train=data)


def precise(kind, data, **settings):
    """A fit in float64, to be held against an oracle: float32 leaves a covariance some six
    digits.
    """
    return fitted(kind, Samples(data.inputs.double(), data.labels), head().double(), **settings)


@functools.cache
def digits():
    return nescio.data.load("digits", unseen=[7, 8, 9])


@functools.cache
def _trained(seed):
    torch.manual_seed(seed)
    model = nescio.methods.Softmax(mlp(64, 7), normalise=digits().normalise)
    nescio.train(model, digits().train, epochs=15, batch_size=64, seed=seed)
    return model.state_dict()


def digits_model(seed):
    """A small classifier of digits that has never seen a 7, 8 or 9, trained once for all tests."""
    weights = _trained(seed)
    torch.manual_seed(seed)
    model = nescio.methods.Softmax(mlp(64, 7), normalise=digits().normalise)
    model.load_state_dict(weights)
    return model.eval()


def plain(features, classes=3):
    """A model whose head is given its inputs as they are."""
    return nn.Sequential(nn.Identity(), nn.Linear(features, classes))


def separation(kind, seed):
    """AUROC of digits that a small network has never seen against those it knows."""
    known, model = digits(), digits_model(seed)
    detector = kind(model).fit(known.test, train=known.train)
    return nescio.metrics.auroc(detector.score(known.test), detector.score(known.unseen))


def peer(name):
    """A detector of pytorch-ood; its torchvision must fit the torch that is installed."""
    why = "pytorch-ood is not installed, or its torchvision was built for another torch"
    found = pytest.importorskip(
        "pytorch_ood.detector", reason=why, exc_type=(ImportError, RuntimeError)
    )
    return getattr(found, name)


def in_batches(data, size):
    """The data as a loader gives them."""
    return list(zip(data.inputs.split(size), data.labels.split(size), strict=True))
