"""Fixtures shared by all tests."""

import os

import pytest
import torch

import nescio

torch.set_num_threads(1)  # two test processes on two cores; and sums in one order


@pytest.fixture
def seed() -> int:
    """Fixed by default; `NESCIO_TEST_SEED=7 make test` shows that no test hangs on a lucky one."""
    return int(os.environ.get("NESCIO_TEST_SEED", "0"))


@pytest.fixture
def blobs():
    """A thousand points of three kinds, to train on in no time."""
    return nescio.data.load("three_blobs").train
