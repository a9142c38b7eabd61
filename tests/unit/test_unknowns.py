import csv

import numpy as np
import pytest
import torch

from nescio.data import load
from nescio.errors import NescioError
from nescio.unknowns import unknown_set


@pytest.fixture(scope="module")
def digits():
    return load("digits", hold_out=[9])


def test_names_that_follow_from_the_known_data(digits):
    assert unknown_set("held_out", digits) is digits.held_out
    noise = unknown_set("uniform", digits, seed=1)
    assert noise.shape == (1, 8, 8)
    assert not torch.equal(noise.inputs, unknown_set("uniform", digits, seed=2).inputs)
    assert unknown_set("normal", digits).name == "normal noise"
    moved, mean = unknown_set("far", digits).inputs, digits.test.inputs.mean(0)
    torch.testing.assert_close(moved - mean, 100 * (digits.test.inputs - mean), rtol=1e-4, atol=1e-3)


def test_a_file_of_images_takes_the_shape_of_the_known_ones(digits, tmp_path):
    np.savez(tmp_path / "other.npz", images=np.full((5, 16, 16, 3), 255, dtype=np.uint8))
    samples = unknown_set(str(tmp_path / "other.npz"), digits)
    assert samples.shape == (1, 8, 8)
    assert (samples.take(slice(None))[0] == 1).all()


def test_a_table_is_encoded_like_the_known_one(tmp_path):
    iris = load("iris")
    path = tmp_path / "more.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["note", *iris.features[::-1]], ["a", 1, 2, 3, 4]])
    assert unknown_set(str(path), iris).inputs.tolist() == [[4, 3, 2, 1]]


def test_what_cannot_be_is_told(digits):
    with pytest.raises(NescioError, match="did you mean 'uniform'"):
        unknown_set("unifrm", digits)
    with pytest.raises(NescioError, match="held out"):
        unknown_set("held_out", load("digits"))
    with pytest.raises(NescioError, match="only images"):
        unknown_set("iris", digits)
    with pytest.raises(NescioError, match="no such file"):
        unknown_set("none.npz", digits)
