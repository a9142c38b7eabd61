"""Small models and detectors to try things on, always the same."""

from functools import cache

import torch
from torch import Tensor, nn

import nescio
from nescio.data import Known, Samples
from nescio.detectors import DETECTORS, Detector
from nescio.methods import METHODS, Method, method_for
from nescio.models import mlp

DROPOUT = {"mc_dropout": 0.5}


@cache
def known() -> Known:
    """Points of three kinds in the plane."""
    return nescio.data.load("three_blobs")


def some(start: int, stop: int) -> Samples:
    """Training points from one number to another."""
    return known().train.select(torch.arange(start, stop))


def new_inputs(count: int) -> Tensor:
    """Points around those that are known."""
    return known().test.inputs[:count].clone()


def own_net() -> nn.Module:
    """A network as a user's, in none of our tables."""
    return _seeded(lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)).eval())


def net() -> nn.Module:
    """A network of ours."""
    return _seeded(lambda: mlp(2, 3, (8,)).eval())


def method(name: str) -> Method:
    """A method by name, trained for an epoch, in eval mode."""
    make = lambda classes: mlp(2, classes or 4, (8,), dropout=DROPOUT.get(name, 0.0))  # noqa: E731
    model = _seeded(lambda: method_for(name, make, 3))
    nescio.train(model, some(0, 100), epochs=1, batch_size=50, progress=False)
    return model.eval()


def methods() -> dict[str, Method]:
    """Every method."""
    return {name: method(name) for name in METHODS}


def detector(name: str, model: nn.Module) -> Detector:
    """A detector by name, fitted over a model."""
    return DETECTORS[name](model).fit(some(100, 300), train=some(300, 600))


def _seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()
