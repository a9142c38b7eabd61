"""Digits without 7, 8 and 9, and a small classifier of them."""

import pytest

from feature_data import digits, digits_model


@pytest.fixture(scope="module")
def known():
    return digits()


@pytest.fixture
def model(seed):
    return digits_model(seed)
