"""A small classifier of digits that has never seen a 7, 8 or 9."""

import pytest

from feature_data import digits, digits_model


@pytest.fixture(scope="module")
def known():
    return digits()


@pytest.fixture(scope="module")
def model():
    return digits_model(0)
