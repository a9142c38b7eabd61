"""A small classifier of digits that has never seen a 7, 8 or 9."""

import pytest
import torch

import nescio
from nescio.models import mlp


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits", unseen=[7, 8, 9])


@pytest.fixture(scope="module")
def model(known):
    torch.manual_seed(0)
    model = nescio.methods.Softmax(mlp(64, 7), normalise=known.normalise)
    nescio.train(model, known.train, epochs=15, batch_size=64, seed=0)
    return model.eval()
